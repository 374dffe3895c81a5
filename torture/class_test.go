package torture

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// fail returns an attempt that failed, with the class of its error.
func fail(asked, answered int64, class Class) *Turn {
	t := &Turn{ID: 1, Site: "site1", Kind: kindLock, Names: []string{"a"}, Asked: ms(asked), Answered: ms(answered), Answer: failed, Class: class}
	if class == contention {
		t.Answer = refused
	}
	return t
}

// TestErrorCheckersBite does what [TestCheckersBite] does, for what errors say and for how long calls take.
func TestErrorCheckersBite(t *testing.T) {
	one := Scene{Topology: topologySingle}
	silence := []Event{{From: ms(90), To: ms(910), What: n5BlackHole + " of replies", Silent: ms(100), Heard: ms(900)}}
	over := func(took int64) *Turn {
		return use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) {
			t.Over, t.Lost, t.Unlock, t.Lease, t.Deadline, t.Unlocked = true, ms(9), lost, 5*time.Millisecond, ms(6), t.Unlocking.Add(time.Duration(took)*time.Millisecond)
		})
	}
	renewed := func(t *Turn) { t.Lost, t.Unlock, t.Renewal, t.Over = ms(9), lost, 2*shortLease, true }
	for _, c := range []struct {
		promise    string
		good, evil History
	}{
		{
			"error: an outage was reported", // a nemesis explains it
			History{Scene: one, Events: silence, Turns: []*Turn{fail(950, 960, outage)}},
			History{Scene: one, Turns: []*Turn{fail(950, 960, outage)}},
		},
		{
			"error: an outage was reported", // that of subscriptions does not, and a slow machine does
			History{Scene: one, Slow: []stall{{ms(100), ms(200)}}, Turns: []*Turn{fail(150, 960, outage)}},
			History{Scene: one, Events: []Event{{From: ms(90), To: ms(910), What: n8KillPubSub + " 40 times"}}, Turns: []*Turn{fail(150, 960, outage)}},
		},
		{
			"error: an outage was reported", // the machine ran nothing of the process
			History{Scene: one, Stood: []stall{{ms(900), ms(955)}}, Turns: []*Turn{fail(950, 960, outage)}},
			History{Scene: one, Stood: []stall{{ms(900), ms(945)}}, Turns: []*Turn{fail(950, 960, outage)}},
		},
		{
			"error: an outage was reported", // the call that extends a lease
			History{Scene: one, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}},
			History{Scene: one, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) { t.Outages = [][2]Moment{{ms(3), ms(4)}} })}},
		},
		{
			"error: an outage was reported",
			History{Scene: one, Events: silence, Turns: []*Turn{fail(150, 700, outage)}},
			History{Scene: one, Events: silence, Turns: []*Turn{fail(150, 700, contention)}},
		},
		{
			"error: an outage was reported", // another owner of the process had the lock
			History{Scene: one, Events: silence, Turns: []*Turn{fail(150, 700, contention), use(2, kindLock, "a", 1, 2, 200)}},
			History{Scene: one, Events: silence, Turns: []*Turn{fail(150, 700, contention), use(2, kindLock, "b", 1, 2, 200)}},
		},
		{
			"error: a cancellation alone",
			History{Scene: one, Events: silence, Turns: []*Turn{fail(150, 200, neither).with(func(t *Turn) { t.Ended = ms(199) })}},
			History{Scene: one, Events: silence, Turns: []*Turn{fail(150, 200, outage).with(func(t *Turn) { t.Ended = ms(199) })}},
		},
		{
			"late: a call",
			History{Turns: []*Turn{fail(1, 400, outage).with(func(t *Turn) { t.Wait = 50 * time.Millisecond })}},
			History{Turns: []*Turn{fail(1, 600, outage).with(func(t *Turn) { t.Wait = 50 * time.Millisecond })}},
		},
		{
			"late: a call", // the machine ran nothing of the process
			History{
				Turns:   []*Turn{fail(1, 800, outage).with(func(t *Turn) { t.Wait = 50 * time.Millisecond })},
				Starved: map[string][]stall{"site1": {{ms(100), ms(500)}}},
			},
			History{
				Turns:   []*Turn{fail(1, 800, outage).with(func(t *Turn) { t.Wait = 50 * time.Millisecond })},
				Starved: map[string][]stall{"site1": {{ms(900), ms(2000)}}, "site2": {{ms(100), ms(500)}}},
			},
		},
		{
			"late: a call",
			History{Turns: []*Turn{use(2, kindLock, "b", 1, 2, 4), fail(3, 600, outage).with(func(t *Turn) { t.Try, t.Limit = true, ms(550) })}},
			History{Turns: []*Turn{use(2, kindLock, "b", 1, 2, 4), fail(3, 600, outage).with(func(t *Turn) { t.Try = true })}},
		},
		{"late:", History{Turns: []*Turn{over(20)}}, History{Turns: []*Turn{over(500)}}},
		{
			"unlock:",
			History{Turns: []*Turn{over(1)}},
			History{Turns: []*Turn{over(1).with(func(t *Turn) { t.Unlock = got })}},
		},
		{
			"false loss:", // a short renewed lease does not outlast every nemesis
			History{Scene: Scene{Safe: true}, Events: []Event{{From: ms(1), To: ms(8)}}, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10).with(renewed)}},
			History{Scene: Scene{Safe: true}, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10).with(renewed)}},
		},
	} {
		breaks(t, c.promise, c.good, c.evil)
	}
}

// TestNoErrorHasTwoClasses checks that a turn notices an error that is both an outage and contention.
func TestNoErrorHasTwoClasses(t *testing.T) {
	var turn Turn
	require.Equal(t, outage, turn.class(errors.Join(rlock.ErrUnavailable, errOwn)))
	require.Equal(t, neither, turn.class(errOwn))
	require.Empty(t, turn.Wrong)
	turn.class(errors.Join(rlock.ErrUnavailable, rlock.ErrNotAcquired))
	turn.class(errors.Join(rlock.ErrUnavailable, rlock.ErrLost))
	require.Len(t, turn.Wrong, 2)
}

// TestShutdownCheckersBite does what [TestCheckersBite] does, for shutdowns and gauges.
func TestShutdownCheckersBite(t *testing.T) {
	stop := func(end int64, left ...string) []Event {
		return []Event{{From: ms(1000), To: ms(end), Client: "x", Left: left}}
	}
	hold := func(told int64) *Turn {
		return use(1, kindLock, "a", 1, 2, 2000).with(func(t *Turn) { t.Client, t.Hears, t.Told = "x", true, ms(told) })
	}
	plain := hold(0).with(func(t *Turn) { t.Kind = kindPlain }) // which is no hold
	of := func(t *Turn) *Turn { return t.with(func(t *Turn) { t.Client = "x" }) }
	for _, c := range []struct {
		promise    string
		good, evil History
	}{
		{"shutdown: a holder", History{Events: stop(2001), Turns: []*Turn{hold(1010)}}, History{Events: stop(2001), Turns: []*Turn{hold(0)}}},
		{"shutdown: Shutdown returned 500ms", History{Events: stop(1010), Turns: []*Turn{plain}}, History{Events: stop(1500), Turns: []*Turn{plain}}},
		{
			"shutdown: a client acquired",
			History{Events: stop(2001), Turns: []*Turn{of(use(1, kindLock, "a", 990, 999, 1001))}},
			History{Events: stop(2001), Turns: []*Turn{of(use(1, kindLock, "a", 1300, 1301, 1302))}},
		},
		{
			"shutdown: a wait went on",
			History{Events: stop(2001), Turns: []*Turn{of(fail(990, 1001, closing))}},
			History{Events: stop(2001), Turns: []*Turn{of(fail(990, 1900, closing))}},
		},
		{
			"shutdown: a client that was not shut down",
			History{Events: stop(2001), Turns: []*Turn{of(fail(1100, 1101, closing))}},
			History{Events: stop(2001), Turns: []*Turn{of(fail(900, 901, closing))}},
		},
		{"shutdown: Shutdown returned before", History{Events: stop(2001), Turns: []*Turn{hold(1010)}}, History{Events: stop(1500), Turns: []*Turn{hold(1010)}}},
		{"shutdown: Shutdown returned 1s after", History{Events: stop(2001), Turns: []*Turn{hold(1010)}}, History{Events: stop(3000), Turns: []*Turn{hold(1010)}}},
		{"shutdown: after a shutdown", History{Events: stop(2001), Turns: []*Turn{hold(1010)}}, History{Events: stop(2001, "a x:1"), Turns: []*Turn{hold(1010)}}},
		{
			"gauges:",
			History{Turns: []*Turn{hold(0)}, Gauges: []gauges{{Client: "x", From: ms(5), To: ms(6), Held: 1}}},
			History{Turns: []*Turn{hold(0)}, Gauges: []gauges{{Client: "x", From: ms(5), To: ms(6), Held: 2}}},
		},
		{
			"gauges:",
			History{Turns: []*Turn{of(fail(990, 1001, closing))}, Gauges: []gauges{{Client: "x", From: ms(991), To: ms(992), Waiting: 1}}},
			History{Turns: []*Turn{of(fail(990, 1001, closing))}, Gauges: []gauges{{Client: "x", From: ms(1991), To: ms(1992), Waiting: 1}}},
		},
	} {
		breaks(t, c.promise, c.good, c.evil)
	}
}
