package promises

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

type name string

func (n name) String() string { return string(n) }

const (
	ana = name("ana")
	ben = name("ben")
)

// ms is a moment, n milliseconds after the clock began.
func ms(n int) Moment { return Moment(n) * Moment(time.Millisecond) }

// TestCheckersBite keeps each promise, and breaks it.
func TestCheckersBite(t *testing.T) {
	t.Parallel()
	owner := func(who name, since int) Owner { return Owner{Who: who, Since: ms(since), Permits: 1} }
	reader := func(who name) Owner { return Owner{Who: who, Reads: true} }
	asked := func(who name, at int) Owner { return Owner{Who: who, Asked: ms(at)} }
	call := func(from, to int, c Class) Call {
		return Call{Who: ana, Lock: "a", Asked: ms(from), Answered: ms(to), Class: c, Timeout: 5 * time.Second}
	}
	with := func(c Call, change func(*Call)) Call {
		change(&c)
		return c
	}
	never := func(Moment, Moment) bool { return false }
	ending := func(before, after Class, took, deadline int) Ending {
		return Ending{Who: ana, Lock: "a", Before: before, After: after, Unlocking: ms(10), Unlocked: ms(10 + took), Deadline: ms(deadline)}
	}
	group := ending(Loss, Loss, 500, 5)
	group.Group = true
	for _, c := range []struct {
		does func(Judge)
		says string // empty means that it breaks nothing
	}{
		{func(j Judge) { j.Exclusion("a", owner(ana, 9), []Owner{owner(ben, 3)}) }, "exclusion: ana got a, which ben has since 3ms"},
		{func(j Judge) { j.Exclusion("a", reader(ana), []Owner{owner(ben, 3)}) }, "exclusion:"},
		{func(j Judge) { j.Exclusion("a", owner(ana, 3), []Owner{reader(ben)}) }, "exclusion:"},
		{func(j Judge) { j.Exclusion("a", reader(ana), []Owner{reader(ben)}) }, ""},
		{func(j Judge) { j.Permits("s", owner(ana, 9), []Owner{owner(ben, 3)}, 1) }, "permits: ana got 1 of s, so that 2 are held, of 1"},
		{func(j Judge) { j.Permits("s", owner(ana, 9), []Owner{owner(ben, 3)}, 2) }, ""},
		{func(j Judge) { j.Order("a", asked(ana, 1002), asked(ben, 1), time.Second) }, "order: ana, which asked for a at 1.002s, overtook ben, which asked at 1ms"},
		{func(j Judge) { j.Order("a", asked(ana, 1001), asked(ben, 1), time.Second) }, ""},
		{func(j Judge) { j.Yields("a", asked(ana, 1002), asked(ben, 1), ms(1001), time.Second) }, "writer preference: ana, which asked to read a at 1.002s, passed the writer ben, which stands there since 1ms; a writer left at 1.001s"},
		{func(j Judge) { j.Yields("a", asked(ana, 1002), asked(ben, 1), ms(1002), time.Second) }, ""},
		{func(j Judge) { j.Yields("a", asked(ana, 1001), asked(ben, 1), ms(0), time.Second) }, ""},

		{func(j Judge) { new(Tokens).Granted(j, "a", true, owner(ana, 1), 7, 7) }, "token: ana got a with the token 7 after 7"},
		{func(j Judge) { new(Tokens).Granted(j, "a", true, owner(ana, 1), 7, 6) }, ""},
		{func(j Judge) { new(Tokens).Granted(j, "a", true, reader(ana), 7, 6) }, "token: ana got a with the token 7, but it needs none"},
		{func(j Judge) { new(Tokens).Granted(j, "a", false, owner(ana, 1), 7, 6) }, "token: ana got a with the token 7, but it needs none"},
		{func(j Judge) { new(Tokens).Granted(j, "a", false, owner(ana, 1), 0, 0) }, ""},
		{func(j Judge) {
			var all Tokens
			all.Granted(j, "a", true, owner(ana, 1), 7, 0)
			all.Granted(j, "a", true, owner(ben, 2), 6, 0)
			all.Granted(j, "a", true, owner(ben, 3), 7, 0)
		}, "token: ben got a with the token 7, which ana has, too"},
		{func(j Judge) {
			var all Tokens
			all.Granted(j, "a", true, owner(ana, 1), 7, 0)
			all.Granted(j, "a", true, owner(ben, 2), 6, 0)
			j.Rest("greatest", int64(all.Greatest()), 7, 7)
		}, ""},

		{func(j Judge) {
			j.Linearizable("a", []Op{{Take, 1, false, ms(1), ms(2)}, {Take, 2, false, ms(3), ms(4)}})
		}, "linearizability: of 2 operations on a, no lock could do this: take by 2 between 3ms and 4ms\n  take by 1 between 1ms and 2ms"},
		{func(j Judge) {
			j.Linearizable("a", []Op{{Take, 1, false, ms(1), ms(2)}, {Give, 1, false, ms(3), ms(4)}, {Find, 2, false, ms(5), ms(6)}})
		}, "linearizability:"},
		{func(j Judge) {
			j.Linearizable("a", []Op{{Take, 1, false, ms(1), ms(2)}, {Give, 1, false, ms(3), ms(5)}, {Find, 2, false, ms(5), ms(6)}})
		}, ""},

		{func(j Judge) { j.Class(errors.Join(rlock.ErrUnavailable, rlock.ErrNotAcquired)) }, "error: it says [contention outage] at once"},
		{func(j Judge) { j.Class(errors.Join(rlock.ErrUnavailable, rlock.ErrLost, rlock.ErrClosed)) }, "error: it says [outage loss] at once"},
		{func(j Judge) { j.Class(errors.Join(rlock.ErrLost, rlock.ErrNotAcquired)) }, "error: it says [contention loss] at once"},
		{func(j Judge) { j.Class(errors.Join(rlock.ErrUnavailable, rlock.ErrClosed, errors.New("x"))) }, ""},

		{func(j Judge) { j.Outage(call(7001, 7002, Outage), never) }, "error: an outage was reported to ana, but all was well"},
		{func(j Judge) {
			j.Outage(call(7001, 7002, Outage), func(from, to Moment) bool { return from == ms(1001) && to == ms(7002) })
		}, ""},
		{func(j Judge) { j.Silence(call(1, 2000, Outage), 0) }, ""},
		{func(j Judge) { j.Silence(call(1, 2000, Contention), 0) }, "error: an outage was reported to ana as contention"},
		{func(j Judge) { j.Silence(call(1, 2000, Neither), 0) }, "error: an outage was reported to ana as neither"},
		{func(j Judge) { j.Silence(call(1, 2000, ""), 0) }, "error: ana got a although Redis was silent"},
		{func(j Judge) { j.Silence(call(1, 2000, Closing), 0) }, ""},
		{func(j Judge) { j.Silence(with(call(2, 3, Neither), func(c *Call) { c.Ends = ms(2) }), 0) }, ""},
		{func(j Judge) {
			j.Silence(with(call(2, 9, Neither), func(c *Call) { c.Ends, c.Canceled = ms(8), true }), 0)
		}, ""},
		{func(j Judge) {
			j.Silence(with(call(2, 9, Outage), func(c *Call) { c.Ends, c.Canceled = ms(8), true }), 0)
		}, "error: a cancellation alone was reported to ana as outage"},
		{func(j Judge) {
			j.Silence(with(call(2, 1100, Outage), func(c *Call) { c.Ends, c.Canceled = ms(1099), true }), 0)
		}, ""},
		{func(j Judge) { j.Silence(with(call(2, 9, Neither), func(c *Call) { c.Ends = ms(8) }), 0) }, "error: an outage was reported to ana as neither"},

		{func(j Judge) { j.Bound(call(0, 99_999, Outage), 0, 0) }, ""},
		{func(j Judge) { j.Bound(with(call(0, 1001, Outage), func(c *Call) { c.Try = true }), 0, 0) }, "late: a call of ana for a returned 1ms after its limit, which was 1s"},
		{func(j Judge) { j.Bound(with(call(0, 1000, Outage), func(c *Call) { c.Try = true }), 0, 0) }, ""},
		{func(j Judge) {
			j.Bound(with(call(0, 1005, Outage), func(c *Call) { c.Try = true }), 0, 5*time.Millisecond)
		}, ""},
		{func(j Judge) {
			j.Bound(with(call(0, 5000, Outage), func(c *Call) { c.Try, c.Ends = true, ms(6000) }), 0, 0)
		}, ""},
		{func(j Judge) {
			j.Bound(with(call(0, 5001, Outage), func(c *Call) { c.Try, c.Ends = true, ms(6000) }), 0, 0)
		}, "late:"},
		{func(j Judge) { j.Bound(with(call(0, 1000, Outage), func(c *Call) { c.Wait = 1 }), 0, 0) }, ""},
		{func(j Judge) { j.Bound(with(call(0, 2001, Outage), func(c *Call) { c.Wait = 2 * time.Second }), 0, 0) }, "late:"},
		{func(j Judge) {
			j.Bound(with(call(0, 9, Outage), func(c *Call) { c.Ends = ms(8) }), time.Millisecond, 0)
		}, ""},
		{func(j Judge) {
			j.Bound(with(call(0, 9, Outage), func(c *Call) { c.Ends = ms(7) }), time.Millisecond, time.Hour)
		}, "late:"},
		{func(j Judge) { j.Bound(with(call(0, 9, ""), func(c *Call) { c.Ends = ms(7) }), 0, 0) }, "late:"},

		{func(j Judge) { j.Lost(owner(ana, 1), "a", rlock.ErrLost, false) }, "false loss: ana lost a, which it had since 1ms: " + rlock.ErrLost.Error()},
		{func(j Judge) { j.Lost(owner(ana, 1), "a", rlock.ErrLost, true) }, ""},
		{func(j Judge) { j.EarlyLoss(ending("", Loss, 1, 12)) }, "unlock: that of a by ana reports a loss 1ms before the deadline"},
		{func(j Judge) { j.EarlyLoss(ending("", Loss, 1, 11)) }, ""},
		{func(j Judge) { j.EarlyLoss(ending("", "", 1, 12)) }, ""},
		{func(j Judge) { j.AfterLoss(ending(Loss, Loss, 0, 5), 0) }, ""},
		{func(j Judge) { j.AfterLoss(ending(Loss, "", 0, 5), 0) }, "unlock: that of the lost a by ana returned"},
		{func(j Judge) { j.AfterLoss(ending(Loss, Loss, 2, 5), time.Millisecond) }, "late: the unlock of the lost a by ana took 2ms"},
		{func(j Judge) { j.AfterLoss(group, time.Millisecond) }, ""},
		{func(j Judge) { j.AfterLoss(ending("", "", 500, 5), 0) }, ""},
		{func(j Judge) { j.Unconfirmed(ending("", Outage, 5, 500), never) }, "unlock: that of a by ana failed, but all was well"},
		{func(j Judge) {
			j.Unconfirmed(ending("", Outage, 5, 500), func(from, to Moment) bool { return from == ms(-990) && to == ms(15) })
		}, ""},
		{func(j Judge) { j.Unnoticed(owner(ana, 1), "a", ms(5), ms(9), 3*time.Millisecond) }, "notice: for 4ms, ana has not noticed that it lost a"},
		{func(j Judge) { j.Unnoticed(owner(ana, 1), "a", ms(5), ms(9), 4*time.Millisecond) }, ""},

		{func(j Judge) { j.WakeUp("a", asked(ana, 1), 4*time.Millisecond, 3*time.Millisecond) }, "lost wake-up: a was free for 4ms while ana waited, which asked at 1ms"},
		{func(j Judge) { j.WakeUp("a", asked(ana, 1), 3*time.Millisecond, 3*time.Millisecond) }, ""},
		{func(j Judge) { j.Stray("a", seen("x x x"), ana, time.Millisecond) }, "stray: for 2ms from 0s on, Redis kept a for ana, which no longer has it, as x"},
		{func(j Judge) { j.Stray("a", seen("x x x"), ana, 2*time.Millisecond) }, ""},
		{func(j Judge) { j.Stray("a", seen("x x y y"), ana, time.Millisecond) }, ""},
		{func(j Judge) { j.Stray("a", seen("x x - x x"), ana, time.Millisecond) }, ""},

		{func(j Judge) { j.Rest("s", 2, 3, 4) }, "left: s has 2 at the end instead of 3 to 4"},
		{func(j Judge) { j.Rest("s", 5, 3, 4) }, "left:"},
		{func(j Judge) { j.Rest("s", 3, 3, 4) }, ""},
		{func(j Judge) { j.Gauges(Gauges{Who: ana, Held: 1, Waiting: 1, Least: 1, Most: 1, Calls: 1}) }, ""},
		{func(j Judge) { j.Gauges(Gauges{Who: ana, Held: 1, Least: 2, Most: 2}) }, "gauges: ana says that 1 locks are held and 0 calls wait, but it is 2 to 2, and at most 0"},
		{func(j Judge) { j.Gauges(Gauges{Who: ana, Held: 3, Least: 2, Most: 2}) }, "gauges:"},
		{func(j Judge) { j.Gauges(Gauges{Who: ana, Waiting: 1}) }, "gauges:"},
		{counts(1, 1, []int64{1}, true), "latch: ana passed l, which was counted down 1 times of 2"},
		{counts(1, 2, []int64{1, 0, 0}, true), ""},
		{counts(1, 2, []int64{1, 1}, false), "latch: ana counted l down to 1, as another one did before"},
		{counts(2, 2, []int64{1}, false), "left: l has 2 at the end instead of 0 to 1"},

		{func(j Judge) { j.Done(ana, errOwn, errOwn) }, ""},
		{func(j Judge) { j.Done(ana, errOwn, rlock.ErrLost) }, "do: it returned"},
		{func(j Judge) { j.Done(ana, errOwn, fmt.Errorf("%w, and %w", errOwn, rlock.ErrLost)) }, ""},
		{func(j Judge) { j.Done(ana, errOwn, errors.Join(errOwn, rlock.ErrLost)) }, "do: it returned"},
		{func(j Judge) { j.Done(ana, nil, errOwn) }, "do: it returned"},
		{func(j Judge) { j.Ends(t.Context(), ana, rlock.ErrLost) }, "election: the context of the leader of ana goes on"},
		{func(j Judge) { j.Ends(ended(), ana, rlock.ErrLost) }, ""},
		{func(j Judge) { j.Ends(ended(), ana, rlock.ErrNotHeld) }, "election: ana has resigned before its function has returned"},
	} {
		var broken []string
		c.does(func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) })
		if c.says == "" {
			require.Empty(t, broken)
			continue
		}
		require.Len(t, broken, 1, c.says)
		require.True(t, strings.HasPrefix(broken[0], c.says), "%q\n%q", broken[0], c.says)
	}
}

var errOwn = errors.New("the function's own error")

// ended returns a context that is over.
func ended() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

// seen returns the stray after a look in each millisecond. A dash is a holder with a cause.
func seen(holders string) (s Stray) {
	for i, holder := range strings.Fields(holders) {
		s = s.See(ms(i), holder, holder == "-")
	}
	return s
}

// counts has calls count a latch of two down, of which some succeed. Then somebody passes it, or it is the end.
func counts(left int64, started int, numbers []int64, passed bool) func(Judge) {
	return func(j Judge) {
		l := Latch{Name: "l", Count: 2}
		for range started {
			l.Starts()
		}
		for _, n := range numbers {
			l.Counted(j, ana, n)
		}
		if passed {
			l.Passed(j, ana)
			return
		}
		if left == 2 {
			l.Rest(j, left)
		}
	}
}
