package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// refusedInLine is a refusal with which an attempt stands in the line.
func refusedInLine() wire.Reply { return wire.Reply{N: -1000, List: []int64{-1000, 1_000_000, 0, 0}} }

// tries returns an attempt of a client that is not subscribed, which asks for a lock that looks free. Somebody of the client waited for
// the name before.
func tries(t *testing.T) (*Table, *lineClient, *Attempt) {
	t.Helper()
	table, c := lineTable()
	table.cfg.ClientID, c.epoch = "c", 0
	h := &Handle{Key: table.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}
	var n notice.List
	before := &Attempt{Handle: h, Lease: modelWatchdog}
	require.Equal(t, Ask, table.Admit(before, start, &n).Do)
	require.Equal(t, Sleep, table.Settle(before, refusedInLine(), start, &n).Do)
	require.Equal(t, Done, table.Wake(before, Ended, start, &n).Do)
	_, release := table.Due(start, false, &n)
	require.Len(t, release, 1)
	require.Equal(t, Ask, table.ResumeRelease(release[0], start, &n).Do)
	require.Equal(t, Done, table.SettleRelease(release[0], wire.Reply{}, start, &n).Do)
	a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Ask, table.Admit(a, start, &n).Do)
	n.Deliver(c)
	c.told = nil
	return table, c, a
}

// No more is kept of it than that it tries, and nothing after it has the lock.
func TestAFreeLockNeedsNoQueue(t *testing.T) {
	t.Parallel()
	table, _, a := tries(t)
	require.Zero(t, table.queues.Len()+len(table.placed)+len(table.alive))
	var n notice.List
	require.NotNil(t, table.Settle(a, wire.Reply{}, start, &n).Got)
	require.Zero(t, table.queues.Len()+len(table.placed)+len(table.alive)+len(table.trying))
}

// Invariant 5 and rule L.4: another attempt does not ask beside it, and has its outcome.
func TestAnotherAttemptQueuesBehindTheOneThatTries(t *testing.T) {
	t.Parallel()
	table, _, a := tries(t)
	var n notice.List
	next := &Attempt{Handle: a.Handle, Lease: modelWatchdog}
	require.Equal(t, Sleep, table.Admit(next, start.Add(time.Millisecond), &n).Do)
	floor := table.cfg.Floor()
	for _, one := range []*Attempt{a, next} {
		require.False(t, table.concludes(one, start.Add(floor-1)).Known())
		require.ErrorIs(t, table.concludes(one, start.Add(floor)).Err, fault.ErrNoAnswer, "the question was sent at start")
	}
	require.Equal(t, Sleep, table.Settle(a, refusedInLine(), start, &n).Do)
	require.True(t, table.concludes(next, start).Refused)
	require.Equal(t, Done, table.Wake(a, Ended, start, &n).Do)
	require.Equal(t, Ask, table.Wake(next, ByNews, start, &n).Do, "it is the head now")
}

// The owner's other goroutine learns from the question of the attempt that tries.
func TestAnAttemptThatTriesIsAskedWhatItKnows(t *testing.T) {
	t.Parallel()
	table, _, a := tries(t)
	require.ErrorIs(t, table.concludes(a, start.Add(table.cfg.Floor())).Err, fault.ErrNoAnswer)
	var n notice.List
	require.NotNil(t, table.Settle(a, wire.Reply{}, start, &n).Got)
	require.Zero(t, table.Stats().Queues)
}

// Invariant 4: the lock may be granted to it, and the message may come, before the reply that it stands in the line.
func TestAGrantBeforeTheReplyReachesTheAttemptThatTries(t *testing.T) {
	t.Parallel()
	table, c, a := tries(t)
	c.epoch = 1 // the subscription of the attempt before is confirmed only now
	var n notice.List
	table.Hear(a.Handle.Names().Own(), wire.Message{Subject: wire.Granted, Number: a.grant.holder.Number, At: 1_001_000, Term: wire.FirstTerm}, start.Add(2*time.Millisecond), &n)
	s := table.Settle(a, refusedInLine(), start.Add(3*time.Millisecond), &n)
	require.NotNil(t, s.Got)
	_, release := table.Due(start, false, &n)
	require.Empty(t, release, "it is alive")
}

// Invariant 4: a message may have been missed before a confirmation that came during its question. So it asks again.
func TestAConfirmationDuringATryIsNotMissed(t *testing.T) {
	t.Parallel()
	for _, joined := range [2]bool{false, true} {
		table, c, a := tries(t)
		c.epoch = 1
		var n notice.List
		if joined {
			require.Equal(t, Sleep, table.Admit(&Attempt{Handle: a.Handle, Lease: modelWatchdog}, start, &n).Do)
		}
		s := table.Settle(a, refusedInLine(), start, &n)
		require.Equal(t, Sleep, s.Do)
		require.Equal(t, a.Handle.Names().Own(), s.Listen)
		require.Zero(t, s.Since, "another epoch wakes it at once")
	}
}

// Rule L.2: a late reply to an earlier question says that Redis answers, also for the attempt that tries.
func TestALateReplyEndsTheSilenceOfATry(t *testing.T) {
	t.Parallel()
	table, c := lineTable()
	c.epoch = 0
	h := &Handle{Key: table.Key("name", wire.PlainFamily), Kind: wire.Plain, Name: "name"}
	var n notice.List
	gone := &waitOver{over: true}
	left := &Attempt{Handle: h, Lease: modelWatchdog, Wait: gone, Caller: gone}
	s := table.Admit(left, start, &n)
	require.Equal(t, Done, table.Settle(left, wire.Reply{N: -1, Err: &fault.Error{Fate: fault.Left, Transient: true}}, start, &n).Do)
	a := &Attempt{Handle: h, Lease: modelWatchdog}
	require.Equal(t, Ask, table.Admit(a, start, &n).Do)
	s.Late.Late(s.Number, refusedInLine(), start.Add(time.Millisecond))
	require.False(t, table.concludes(a, start.Add(table.cfg.Floor())).Known())
}

// Rule S.9: it may be the one of the line whom Redis asks to watch.
func TestAnAttemptThatTriesWatches(t *testing.T) {
	t.Parallel()
	table, _, a := tries(t)
	names := a.Handle.Names()
	var n notice.List
	table.pump(a.Handle, 0, &n)
	require.Empty(t, table.PumpCall(names.Own()).Args.Holder, "it is not left out")
	table, c, a := tries(t)
	n = notice.List{}
	table.Hear(names.Own(), wire.Message{Subject: wire.Watch}, start, &n)
	n.Deliver(c)
	require.Equal(t, []string{"watch " + names.Base()}, c.told, "it does not pass the request on")
	require.NotNil(t, table.Settle(a, wire.Reply{}, start, &n).Got)
	n.Deliver(c)
	require.Contains(t, c.told, "unwatch "+names.Base())
}

// Rule S.14: a grant that came too late is given back.
func TestATryWhoseGrantIsTooLateIsReleased(t *testing.T) {
	t.Parallel()
	table, _, a := tries(t)
	var n notice.List
	now := start.Add(modelWatchdog)
	require.Equal(t, Sleep, table.Settle(a, wire.Reply{}, now, &n).Do, "it asks again")
	_, release := table.Due(now, false, &n)
	require.Len(t, release, 1)
}

// Nobody else is in its queue when it has the lock: then the queue is no more.
func TestATryThatJoinedItsQueueLeavesIt(t *testing.T) {
	t.Parallel()
	table, _, a := tries(t)
	var n notice.List
	next := &Attempt{Handle: a.Handle, Lease: modelWatchdog, Ends: clock.Instant(1)}
	require.Equal(t, Sleep, table.Admit(next, start, &n).Do)
	require.NotNil(t, table.Settle(a, wire.Reply{}, start, &n).Got)
	require.Equal(t, next, table.queues.Of(a.Handle.Key).Head())
	require.True(t, table.concludes(next, start).Refused, "rule L.4")
}
