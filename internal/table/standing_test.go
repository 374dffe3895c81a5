package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// lineClient is a client whose waiters stand in the line.
type lineClient struct {
	listener
	epoch   uint64
	unheard []uint64     // the epochs that were reported
	refusal *fault.Error // of every channel
}

// Epoch, Refused and Counts implement Messages.
func (c *lineClient) Epoch(string) uint64         { return c.epoch }
func (c *lineClient) Refused(string) *fault.Error { return c.refusal }
func (c *lineClient) Counts() bool                { return true }

// Unheard implements Messages.
func (c *lineClient) Unheard(_ string, epoch uint64) { c.unheard = append(c.unheard, epoch) }

// waiting returns a held lock, and an attempt of the same process that waits for it.
func waiting(tb testing.TB) (*Table, *Acquisition, *Attempt, *lineClient) {
	tb.Helper()
	c := &lineClient{epoch: 1}
	t := New(config.Config{
		ClientID: "c", WatchdogTimeout: modelWatchdog, CommandTimeout: modelCommand, PollInterval: modelPoll,
		FairWait: 10 * time.Second, BatchSize: 10, StandBack: time.Millisecond,
	}, task.New(), c, c)
	h := &Handle{Key: t.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}
	held := acquire(tb, h)
	a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
	var n notice.List
	s := t.Admit(a, start, &n)
	require.Equal(tb, Sleep, s.Do)
	require.Equal(tb, h.Names().Own(), s.Listen)
	n.Deliver(c)
	return t, held, a, c
}

// A grant by another process may be lost with the connection while the head waits for the reply to the release that put it
// into the line. The confirmation of the next subscription then wakes the head, which has nothing to do yet.
func TestAConfirmationDuringAReleaseThatNamesTheHeadIsNotSwallowed(t *testing.T) {
	t.Parallel()
	for _, lost := range [2]bool{false, true} {
		table, held, a, c := waiting(t)
		var n notice.List
		var x Exit
		s := table.Release(&x, held, start, &n)
		require.Equal(t, Ask, s.Do)
		require.NotNil(t, s.Call.Args.Other, "it names the head")
		if lost {
			c.epoch++
			require.Equal(t, Sleep, table.Wake(a, ByMessage, start, &n).Do, "the release is under way")
		}
		toWaiter := wire.Reply{N: 1, List: []int64{1, 1_000_000, int64(wire.ToWaiter), 0, 0, 0}}
		require.Equal(t, Done, table.SettleRelease(&x, toWaiter, start, &n).Do)
		want := Sleep
		if lost {
			want = Ask
		}
		require.Equal(t, want, table.Wake(a, ByNews, start, &n).Do)
	}
}

// TestAnAttemptWakesEachTime rings for one that contends, and for one behind it.
func TestAnAttemptWakesEachTime(t *testing.T) {
	t.Parallel()
	table, _, first, _ := waiting(t)
	var n notice.List
	behind := &Attempt{Handle: first.Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Sleep, table.Admit(behind, start, &n).Do)
	for range 3 {
		for a, why := range map[*Attempt]Cause{first: ByMessage, behind: ByNews} {
			a.bell.Ring()
			require.Len(t, a.bell.C(), 1)
			<-a.bell.C()
			require.Equal(t, Sleep, table.Wake(a, why, start, &n).Do, "it has nothing to do")
		}
	}
}

// A question without a reply may have put its attempt into the line. So a release does not name it once more, and its own
// release takes it out of the line.
func TestAnAttemptInDoubtMayStandInTheLine(t *testing.T) {
	t.Parallel()
	table, held, a, _ := waiting(t)
	var n notice.List
	require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
	require.Equal(t, Sleep, table.Settle(a, wire.Reply{N: -1, Err: errDoubt}, start, &n).Do)

	var x Exit
	s := table.Release(&x, held, start, &n)
	require.Equal(t, Ask, s.Do)
	require.Nil(t, s.Call.Args.Other)

	table.Wake(a, Ended, start, &n)
	_, release := table.Due(start, false, &n)
	require.Len(t, release, 1)
	s = table.ResumeRelease(release[0], start, &n)
	require.Equal(t, "3000", s.Call.Args.Extra, "its standing in the line")
}

// So a failover may bring it back, although no reply ever said that it stands there.
func TestAFailoverBringsBackAnAttemptInDoubt(t *testing.T) {
	t.Parallel()
	table, c := lineTable()
	var n notice.List
	h := &Handle{Key: table.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}
	a := &Attempt{Handle: h, Lease: modelWatchdog}
	require.Equal(t, Ask, table.Admit(a, start, &n).Do)
	require.Equal(t, Sleep, table.Settle(a, wire.Reply{N: -1, Err: errDoubt}, start, &n).Do)
	require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
	require.NotNil(t, table.Settle(a, wire.Reply{}, start, &n).Got)
	var x Exit
	require.Equal(t, Ask, table.Unlock(&x, h, owner.Who{}, start, &n).Do)
	require.Equal(t, Step{Do: Done}, table.SettleRelease(&x, wire.Reply{N: 1}, start, &n))
	n.Deliver(c)

	table.Hear(h.Names().Own(), wire.Message{Subject: wire.Granted, Number: x.grant.holder.Number, At: 1_000_000, Term: wire.FirstTerm}, start, &n)
	_, release := table.Due(start, false, &n)
	require.Len(t, release, 1, "it gives the lock back")
}

// A release cannot wait for replicas, so it gives the lock to nobody who needs them.
func TestAWaiterThatNeedsReplicasIsWoken(t *testing.T) {
	t.Parallel()
	for acks, term := range map[bool]string{false: "3000", true: "0"} {
		table, _ := lineTable()
		table.cfg.Acks = acks
		h := &Handle{Key: table.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}
		s := table.Admit(&Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}, start, new(notice.List))
		require.Equal(t, term, s.Call.Args.Extra)
	}
}

// The process that makes a public release gives the lock on if nobody takes it. It may hear its own message that the lock is
// free while the release is under way: then its head is the next holder, and has nothing to do yet.
func TestAProcessFollowsUpItsPublicRelease(t *testing.T) {
	t.Parallel()
	public := wire.Reply{N: 1, List: []int64{1, 1_000_000, int64(wire.ToPublic), 0, 0, 1}}
	repeated := wire.Reply{List: []int64{0, 1_000_000, int64(wire.ToPublic), 0, 0, 1}}
	for what, replies := range map[string][]wire.Reply{
		"with the first reply":       {public},
		"after a reply that is lost": {{N: -1, Err: errDoubt}, repeated},
	} {
		table, held, a, c := waiting(t)
		own := held.handle.Names().Own()
		var n notice.List
		var x Exit
		s := table.Release(&x, held, start, &n)
		require.NotNil(t, s.Call.Args.Other, "it names the head")
		require.Equal(t, Sleep, table.Wake(a, ByMessage, start, &n).Do, "the release is under way")
		for i, r := range replies {
			if i > 0 {
				require.Equal(t, Ask, table.ResumeRelease(&x, start, &n).Do)
			}
			n.Deliver(c)
			require.NotContains(t, c.told, "pump "+own, what)
			s = table.SettleRelease(&x, r, start, &n)
		}
		require.Equal(t, Done, s.Do)
		require.NoError(t, s.Err)
		n.Deliver(c)
		require.Contains(t, c.told, "pump "+own, what)
	}
}

// The question without a reply may have got the lock, so it is repeated soon, even if something wakes the attempt before.
func TestAnAttemptInTheLineRepeatsItsQuestionSoon(t *testing.T) {
	t.Parallel()
	table, _, a, _ := waiting(t)
	var n notice.List
	require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
	refused := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 0, 0}}
	require.Equal(t, Sleep, table.Settle(a, refused, start, &n).Do)
	require.Equal(t, Ask, table.Wake(a, ByMessage, start, &n).Do)
	s := table.Settle(a, wire.Reply{N: -1, Err: errDoubt}, start, &n)
	require.Equal(t, Sleep, s.Do)
	require.Equal(t, s.Pause, table.Wake(a, ByNews, start, &n).Pause)
}

// An unlock by force concerns what Redis granted before it, of that name alone. Here a force gives the lock to the waiter, and the
// message comes late, after a later unlock of another name. Or it is not known when Redis made an unlock.
func TestAGrantAfterAnUnlockByForceCounts(t *testing.T) {
	t.Parallel()
	const given = 1_000_000
	type force struct {
		name   string
		micros int64
	}
	for what, test := range map[string]struct {
		forces []force
		counts bool
	}{
		"by it":                                {[]force{{"name", given}}, true},
		"by it, before one of another name":    {[]force{{"name", given}, {"other", given + 1}}, true},
		"after it, at an unknown time":         {[]force{{"name", given - 1}, {"name", 0}}, false},
		"before another one of its name":       {[]force{{"name", given}, {"name", given + 1}}, false},
		"before another one that came earlier": {[]force{{"name", given + 1}, {"name", given}}, false},
	} {
		table, _, a, _ := waiting(t)
		var n notice.List
		require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
		refused := wire.Reply{N: -3001, List: []int64{-3001, given - 1000, 0, 0}}
		require.Equal(t, Sleep, table.Settle(a, refused, start, &n).Do)
		for _, f := range test.forces {
			table.Forced(table.Key(f.name, wire.PlainFamily), f.micros, start, &n)
		}
		granted := wire.Message{Subject: wire.Granted, Number: a.grant.holder.Number, At: given, Term: wire.FirstTerm}
		table.Hear(a.Handle.Names().Own(), granted, start.Add(time.Millisecond), &n)
		s := table.Wake(a, ByNews, start.Add(time.Millisecond), &n)
		require.Equal(t, test.counts, s.Got != nil, what)
	}
}

// The subscription may have changed since the question was sent, so the report tells which one it was.
func TestASubscriptionThatTheServerDoesNotKnowIsReported(t *testing.T) {
	t.Parallel()
	table, _, a, c := waiting(t)
	for _, unheard := range [2]bool{false, true} {
		var n notice.List
		c.epoch = 7
		require.Equal(t, Ask, table.Wake(a, ByTime, start, &n).Do)
		c.epoch = 8
		place := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 1, 0}}
		if unheard {
			place.List[2] += 2
		}
		require.Equal(t, Sleep, table.Settle(a, place, start, &n).Do)
		n.Deliver(c)
		require.Contains(t, c.told, "watch "+a.Handle.Names().Base())
		require.Equal(t, unheard, len(c.unheard) == 1)
	}
	require.Equal(t, []uint64{7}, c.unheard)
}

// A proxy may hide subscriptions from the scripts. No release would ever reach such a waiter in the line.
func TestAClientWhoseSubscriptionsAreHiddenDoesWithoutTheLine(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		heard time.Duration // when a script knew of the subscription; zero means never
		epoch uint64
		lined bool
	}{
		"always hidden":  {0, 1, false},
		"seen meanwhile": {time.Second, 1, true},
		"not subscribed": {0, 0, true},
	} {
		table, _, a, c := waiting(t)
		c.epoch = test.epoch
		var n notice.List
		for at := time.Duration(0); at <= unheardFor && table.countsListeners(); at += time.Second {
			require.Equal(t, Ask, table.Wake(a, ByTime, start.Add(at), &n).Do, what)
			heard := int64(2)
			if test.heard != 0 && at == test.heard {
				heard = 4
			}
			place := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, heard, 0}}
			table.Settle(a, place, start.Add(at), &n)
		}
		n.Deliver(c)
		require.Equal(t, test.lined, table.countsListeners(), what)
		require.Equal(t, !test.lined, table.hidden, "%s: the log says so", what)
	}
}

// granted returns a hold that the line has given to a waiter, with a first term, and when.
func granted(tb testing.TB) (*Table, *Acquisition, clock.Instant) {
	tb.Helper()
	table, held, a, c := waiting(tb)
	a.Lease, a.grant.term.Lease = tenFirstTerms, tenFirstTerms
	var n notice.List
	var x Exit
	require.Equal(tb, Ask, table.Release(&x, held, start, &n).Do)
	released := wire.Reply{N: 1, List: []int64{1, 1_000_000, int64(wire.ToWaiter), 0, 0, 0}}
	require.Equal(tb, Done, table.SettleRelease(&x, released, start, &n).Do)
	now := start.Add(2 * time.Millisecond)
	table.Hear(a.Handle.Names().Own(), wire.Message{
		Subject: wire.Granted, Number: a.grant.holder.Number, At: 1_001_000, Term: table.firstTerm(a),
	}, now, &n)
	s := table.Wake(a, ByNews, now, &n)
	require.NotNil(tb, s.Got)
	n.Deliver(c)
	table.cfg.HandOvers, table.cfg.HandOverTime = 32, time.Hour
	return table, s.Got, now
}

// following returns an attempt that waits for a lock that this process has.
func following(tb testing.TB, held *Acquisition, now clock.Instant) *Attempt {
	tb.Helper()
	a := &Attempt{Handle: held.handle, Lease: tenFirstTerms, Renewed: true}
	require.Equal(tb, Sleep, held.handle.Key.Table.Admit(a, now, new(notice.List)).Do)
	return a
}

const tenFirstTerms = 10 * wire.FirstTerm

// A process that has its turn in the line hands the lock over to a few of its own waiters. Then it is the turn of the next process.
func TestATurnInTheLineIsShort(t *testing.T) {
	t.Parallel()
	table, held, now := granted(t)
	for range contestedHandOvers {
		next := following(t, held, now)
		var n notice.List
		var x Exit
		s := table.Release(&x, held, now, &n)
		require.Equal(t, Ask, s.Do)
		require.Equal(t, wire.Plain.HandOver, s.Call.Script)
		require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{}, now, &n).Do)
		s = table.Wake(next, ByNews, now, &n)
		require.NotNil(t, s.Got)
		held = s.Got
	}
	following(t, held, now)
	s := table.Release(new(Exit), held, now, new(notice.List))
	require.Equal(t, wire.Plain.Line.Release, s.Call.Script)
	require.NotNil(t, s.Call.Args.Other, "it names the head")
}
