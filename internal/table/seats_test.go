package table

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// inQueue returns a held fair lock, and two attempts of the same process that queue for it.
func inQueue(tb testing.TB) (*Table, *Acquisition, [2]*Attempt, *lineClient) {
	tb.Helper()
	c := &lineClient{epoch: 1}
	t := New(config.Config{
		ClientID: "c", WatchdogTimeout: modelWatchdog, CommandTimeout: modelCommand, PollInterval: modelPoll,
		FairWait: 10 * time.Second, BatchSize: 10, StandBack: time.Millisecond,
	}, task.New(), c, c)
	h := &Handle{Key: t.Key("name", wire.FairFamily), Kind: wire.Fair, Name: "name"}
	held := acquire(tb, h)
	var waiters [2]*Attempt
	for i := range waiters {
		var n notice.List
		a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
		s := t.Admit(a, start, &n)
		require.Equal(tb, Ask, s.Do)
		require.Equal(tb, "c:-"+string(rune('1'+i)), s.Call.Args.Other, "each has a seat of its own")
		s = t.Settle(a, wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 0, 0}}, start, &n)
		require.Equal(tb, Sleep, s.Do)
		require.Equal(tb, a.seat.Channel, s.Listen)
		require.EqualValues(tb, 1, s.Since, "it was subscribed when it asked")
		waiters[i] = a
	}
	return t, held, waiters, c
}

// hereNow is the reply of a release that gave the lock to a waiter of the same client.
func hereNow(a *Attempt) wire.Reply {
	return wire.Reply{N: 1, List: []int64{1, a.grant.holder.Number, 1_000_000, 3000, 0}}
}

func TestAReleaseGivesAFairLockToAWaiterOfItsProcess(t *testing.T) {
	t.Parallel()
	table, held, waiters, _ := inQueue(t)
	var n notice.List
	var x Exit
	require.Equal(t, Ask, table.Release(&x, held, start, &n).Do)
	require.Equal(t, Done, table.SettleRelease(&x, hereNow(waiters[0]), start, &n).Do)
	s := table.Wake(waiters[0], ByNews, start, &n)
	require.Equal(t, Done, s.Do)
	require.NotNil(t, s.Got)
	require.LessOrEqual(t, s.Got.grant.term.Ends(), start.Add(3*time.Second), "the first term")
	require.Equal(t, Sleep, table.Wake(waiters[1], ByNews, start, &n).Do, "the other one has nothing to do")

	again := &Attempt{Handle: waiters[0].Handle, Lease: modelWatchdog, Renewed: true}
	s = table.Admit(again, start, &n)
	require.Equal(t, "c:-1", s.Call.Args.Other, "the seat is free again")
	call, _ := waiters[1].way.question(table, waiters[1], asking, start)
	require.Equal(t, "c:-2", call.Args.Other)
}

// Nobody tells which waiter has the lock, if any. The release may have been carried out before its repetition.
func TestAfterAReleaseWithoutAReplyAllItsFairWaitersAsk(t *testing.T) {
	t.Parallel()
	table, held, waiters, _ := inQueue(t)
	asks := func(want Do) {
		t.Helper()
		var n notice.List
		for _, a := range waiters {
			s := table.Wake(a, ByNews, start, &n)
			require.Equal(t, want, s.Do)
			if s.Do == Ask {
				require.Equal(t, Sleep, table.Settle(a, wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 0, 0}}, start, &n).Do)
			}
		}
	}
	asks(Sleep)
	var n notice.List
	var x Exit
	require.Equal(t, Ask, table.Release(&x, held, start, &n).Do)
	require.Equal(t, Sleep, table.SettleRelease(&x, wire.Reply{N: -1, Err: errDoubt}, start, &n).Do)
	asks(Ask)
	asks(Sleep)
	require.Equal(t, Ask, table.ResumeRelease(&x, start, &n).Do)
	require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{}, start, &n).Do)
	asks(Ask)
	asks(Sleep)
}

// A waiter that leaves says which seat it had. The next one may have it at once.
func TestAFairWaiterLeavesItsSeat(t *testing.T) {
	t.Parallel()
	table, _, waiters, _ := inQueue(t)
	var n notice.List
	s := table.Wake(waiters[1], Ended, start, &n)
	require.Equal(t, Done, s.Do)
	_, exits := table.Due(start, false, &n)
	require.Len(t, exits, 1)
	next := &Attempt{Handle: waiters[1].Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, "c:-2", table.Admit(next, start, &n).Call.Args.Other)
	s = table.ResumeRelease(exits[0], start, &n)
	require.Equal(t, "c:-2", s.Call.Args.Extra)
	require.NotEqual(t, next.grant.holder.Number, s.Call.Args.Number)
}

// A failover may bring back the past: then a release names a waiter of its client that has left, or had its turn, before. The lock
// is freed again.
func TestAFailoverBringsBackAPastFairWaiter(t *testing.T) {
	t.Parallel()
	table, held, waiters, _ := inQueue(t)
	channel := waiters[0].seat.Channel
	var n notice.List
	var x Exit
	require.Equal(t, Ask, table.Release(&x, held, start, &n).Do)
	require.Equal(t, Done, table.SettleRelease(&x, hereNow(waiters[0]), start, &n).Do)
	first := table.Wake(waiters[0], ByNews, start, &n).Got
	require.NotNil(t, first)

	late := wire.Message{Subject: wire.Granted, Number: first.grant.holder.Number, At: 1_000_000, Term: wire.FirstTerm}
	table.Hear(channel, late, start, &n)
	_, exits := table.Due(start, false, &n)
	require.Empty(t, exits, "it has the lock")
	x = Exit{}
	require.Equal(t, Ask, table.Release(&x, first, start, &n).Do)
	table.Hear(channel, late, start, &n)
	_, exits = table.Due(start, false, &n)
	require.Empty(t, exits, "its release is under way")

	require.Equal(t, Done, table.SettleRelease(&x, hereNow(waiters[1]), start, &n).Do)
	second := table.Wake(waiters[1], ByNews, start, &n).Got
	require.NotNil(t, second)
	next := &Attempt{Handle: waiters[0].Handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Ask, table.Admit(next, start, &n).Do)
	require.Equal(t, Sleep, table.Settle(next, wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 0, 0}}, start, &n).Do)
	x = Exit{}
	require.Equal(t, Ask, table.Release(&x, second, start, &n).Do)
	gone := wire.Reply{N: 1, List: []int64{1, first.grant.holder.Number, 1_000_000, 3000, 0}}
	require.Equal(t, Done, table.SettleRelease(&x, gone, start, &n).Do)
	_, exits = table.Due(start, false, &n)
	require.Len(t, exits, 1, "it had its turn before")
	s := table.ResumeRelease(exits[0], start, &n)
	require.Equal(t, first.grant.holder.Number, s.Call.Args.Number)
	require.Equal(t, Done, table.SettleRelease(exits[0], hereNow(next), start, &n).Do)
	require.NotNil(t, table.Wake(next, ByNews, start, &n).Got)
}

// No script would give the lock to a waiter that none sees, so after a while it asks to be woken. That may reach it all the same.
// The reply to a simple question does not tell whether it is heard.
func TestAFairWaiterWhoseSubscriptionIsHiddenIsWoken(t *testing.T) {
	t.Parallel()
	table, _, waiters, c := inQueue(t)
	var n notice.List
	for at := time.Duration(0); at < unheardFor; at += time.Second {
		for i, heard := range [2]int64{2, 0} {
			s := table.Wake(waiters[i], ByTime, start.Add(at), &n)
			require.Equal(t, Ask, s.Do)
			require.EqualValues(t, 3000, s.Call.Args.NextMillis, "a script may give it the lock")
			s = table.Settle(waiters[i], wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, heard, 0}}, start.Add(at), &n)
			require.Equal(t, Sleep, s.Do)
		}
		require.Len(t, c.unheard, int(at/time.Second)+1)
	}
	late := start.Add(unheardFor)
	require.Equal(t, Ask, table.Wake(waiters[0], ByTime, late, &n).Do)
	s := table.Settle(waiters[0], wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 2, 0}}, late, &n)
	require.Equal(t, Ask, s.Do, "it says that it wants to be woken")
	require.Zero(t, s.Call.Args.NextMillis)
	s = table.Wake(waiters[1], ByNews, late, &n)
	require.Equal(t, Ask, s.Do)
	require.Zero(t, s.Call.Args.NextMillis)
	require.True(t, table.hidden, "the log says so")
}

// repeats reports whether the process of an attempt will soon repeat a release that may have given it the lock. The reply to that
// makes the attempt ask.
func (w *world) repeats(v *verb, soon time.Duration) bool {
	return slices.ContainsFunc(v.proc.table.heap.All(), func(g *Grant) bool {
		return g.handle.Key.Name == v.name.text && g.stage == retiring && g.failures > 0 && g.DueAt() <= w.now.Add(soon)
	})
}

// A waiter may find that it was taken for dead. One whose first question was lost was never in the queue.
func TestAFairWaiterThatLostItsPlaceIsReported(t *testing.T) {
	t.Parallel()
	missed := wire.Reply{N: -3001, List: []int64{-3001, 1_000_000, 16, 0}}
	table, held, waiters, c := inQueue(t)
	var n notice.List
	require.Equal(t, Ask, table.Wake(waiters[0], ByTime, start.Add(modelPoll), &n).Do)
	require.Equal(t, Sleep, table.Settle(waiters[0], missed, start.Add(modelPoll), &n).Do)
	n.Deliver(c)
	reports := func() int { return strings.Count(strings.Join(c.told, "\n"), notice.LogPlaceLost.Text+" name") }
	require.Equal(t, 1, reports(), c.told)

	a := &Attempt{Handle: held.handle, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Ask, table.Admit(a, start, &n).Do)
	require.Equal(t, Sleep, table.Settle(a, wire.Reply{N: -1, Err: errSilence}, start, &n).Do)
	require.Equal(t, Ask, table.Wake(a, ByTime, start.Add(modelPoll), &n).Do)
	require.Equal(t, Sleep, table.Settle(a, missed, start.Add(modelPoll), &n).Do)
	n.Deliver(c)
	require.Equal(t, 1, reports(), c.told)
}

// checkSeats checks that no waiter loses its place in the queue of a fair lock unless it left, got the lock, or was judged dead,
// and that none overtakes another one.
func (w *world) checkSeats() {
	for _, n := range w.names {
		s, last := n.server, -1
		for _, p := range n.places {
			i := slices.IndexFunc(s.queue, func(q seated) bool { return q.field == p.field })
			b, granted := s.born[p.field]
			g := w.grants[p.field]
			switch {
			case p.epoch != s.epoch || p.state != asked || !s.counts:
			case i >= 0 && i < last:
				w.failf("Turns: %s was overtaken", p.field)
			case i >= 0:
				last = i
			case granted && b.lastly >= p.at:
			case g != nil && g.stage == pending && g.inRedis().Field == p.field:
				w.failf("Turns: %s loses its place", p.field)
			}
		}
		n.places = n.places[:0]
		for _, p := range s.queue {
			p.at = s.world()
			n.places = append(n.places, p)
		}
	}
}
