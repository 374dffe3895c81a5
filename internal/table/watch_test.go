package table

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestAWatchLastsAsLongAsItsSubscription checks that a client that was asked to watch looks after the lock also while nobody
// waits here. Redis counts it as a watcher until it is unsubscribed, and asks nobody else.
func TestAWatchLastsAsLongAsItsSubscription(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	l := &lineClient{epoch: 1}
	table.messages, table.receiver = l, l
	base, own := h.Names().Base(), h.Names().Own()
	told := func() []string {
		all := l.told
		l.told = nil
		return all
	}
	freed := func() []string {
		told()
		var n notice.List
		table.Freed(base, &n)
		n.Deliver(l)
		return told()
	}
	// turn lets an attempt wait, get the lock, and release it.
	turn := func(now clock.Instant, watch int64) {
		var n notice.List
		a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
		require.Equal(t, Ask, table.Admit(a, now, &n).Do)
		table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, watch, 0}}, now, &n)
		n.Deliver(l)
		require.Equal(t, []string{"pump " + own}, freed(), "while it waits")
		table.Pumped(own, wire.Reply{}, start, &n)
		message := wire.Message{Subject: wire.Granted, Number: a.grant.holder.Number, At: 1, Term: time.Second}
		table.Hear(h.Names().Own(), message, now, &n)
		require.NotNil(t, table.Wake(a, ByMessage, now, &n).Got)
		var x Exit
		require.Equal(t, Ask, table.Unlock(&x, h, owner.Who{}, now, &n).Do)
		require.Equal(t, Done, table.SettleRelease(&x, wire.Reply{N: 1}, now, &n).Do)
		n.Deliver(l)
	}
	turn(start, 1)
	require.Contains(t, told(), "unwatch "+base)
	require.Equal(t, []string{"pump " + own}, freed(), "its subscription is still counted")
	var n notice.List
	table.Pumped(own, wire.Reply{}, start, &n)
	turn(start+1, 0) // nobody asks it to watch, but it goes on
	require.Contains(t, told(), "unwatch "+base)
	table.Unwatched(base, &n)
	n.Deliver(l)
	require.Equal(t, []string{"pump " + own}, told(), "somebody else may have to watch")
	require.Empty(t, freed())
}

// TestARequestToWatchIsPassedOn asks a client to watch whose only waiter is about to leave the line in Redis. It has another one asked, which
// is of another client, because its own waiter may still stand in the line.
func TestARequestToWatchIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []*wire.Kind{wire.Plain} {
		table, h, _ := newTable()
		h.Kind, h.Key = kind, table.Key("name", kind.Family)
		l := &lineClient{epoch: 1}
		table.messages, table.receiver = l, l
		own := h.Names().Own()
		asked := func() []string {
			l.told = nil
			var n notice.List
			table.Hear(own, wire.Message{Subject: wire.Watch}, start, &n)
			n.Deliver(l)
			return l.told
		}
		require.Empty(t, asked(), "it never waited for anything")
		waits := func() *Attempt {
			var n notice.List
			a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
			require.Equal(t, Ask, table.Admit(a, start, &n).Do)
			table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, 0, 0}}, start, &n)
			return a
		}
		leaves := func(a *Attempt) {
			var n notice.List
			table.Wake(a, Ended, start, &n)
			n.Deliver(l)
		}
		a := waits()
		leaves(a)
		require.Equal(t, []string{"pump " + own}, asked())
		require.Equal(t, "c", table.PumpCall(own).Args.Holder, "none of its waiters is to be asked")
		table.Pumped(own, wire.Reply{}, start, new(notice.List))
		a = waits()
		require.Equal(t, []string{"watch " + h.Names().Base()}, asked())
		var n notice.List
		table.Freed(h.Names().Base(), &n)
		require.Empty(t, table.PumpCall(own).Args.Holder)
		table.Pumped(own, wire.Reply{}, start, &n)
		leaves(a)
	}
}

// TestAReleaseThatAsksAnAttemptToWatchThatHasLeft has the reply to a release ask its process to watch, for the waiter that it named.
func TestAReleaseThatAsksAnAttemptToWatchThatHasLeft(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{false, true} {
		table, held, a, c := waiting(t)
		names := held.handle.Names()
		var n notice.List
		var x Exit
		require.NotNil(t, table.Release(&x, held, start, &n).Call.Args.Other, "it names the head")
		if left {
			table.Wake(a, Ended, start, &n)
		}
		reply := wire.Reply{N: 1, List: []int64{1, 1_000_000, int64(wire.ToWaiter), 0, 1, 1}}
		require.Equal(t, Done, table.SettleRelease(&x, reply, start, &n).Do)
		n.Deliver(c)
		if left {
			require.Contains(t, c.told, "pump "+names.Own(), "it has another one asked")
		} else {
			require.Contains(t, c.told, "watch "+names.Base())
		}
	}
}

// TestAClosedClientEndsWhatItOwesToTheLine has a client close while it watches, and while it follows up an offer that nobody has taken.
func TestAClosedClientEndsWhatItOwesToTheLine(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	l := &lineClient{epoch: 1}
	table.messages, table.receiver = l, l
	var n notice.List
	a := &Attempt{Handle: h, Lease: modelWatchdog, Renewed: true}
	require.Equal(t, Ask, table.Admit(a, start, &n).Do)
	table.Settle(a, wire.Reply{N: -1000, List: []int64{-1000, 1, 1, 0}}, start, &n)
	require.True(t, table.tasks.Begin(), "Close waits")
	table.tasks.Close()
	table.Close(start, &n)
	n.Deliver(l)
	base, own := h.Names().Base(), h.Names().Own()
	told := func(what func(n *notice.List)) []string {
		l.told = nil
		var n notice.List
		what(&n)
		n.Deliver(l)
		return l.told
	}
	require.Equal(t, []string{"pump " + own}, told(func(n *notice.List) { table.Unwatched(base, n) }), "although its waiter has yet to leave")
	require.Equal(t, "c", table.PumpCall(own).Args.Holder)
	require.Equal(t, []string{"pump " + own}, told(func(n *notice.List) { table.Pumped(own, wire.Reply{N: -2}, start, n) }), "it is still offered")
	transient := wire.Reply{N: -1, Err: &fault.Error{Transient: true, Err: errors.New("busy")}}
	table.PumpCall(own)
	require.Equal(t, []string{"pump " + own}, told(func(n *notice.List) { table.Pumped(own, transient, start, n) }))
	table.tasks.End()
	require.Empty(t, told(func(n *notice.List) { table.Pumped(own, transient, start, n) }), "nobody would carry it out")
	require.Equal(t, Done, table.Wake(a, Closed, start, &n).Do)
}

// TestANameIsWatchedUntilItIsUnsubscribed has local queues ask for a watch and leave it in every order.
func TestANameIsWatchedUntilItIsUnsubscribed(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	var n notice.List
	watched := func() bool { return table.watches[h.Names().Own()] != nil }
	in := func(l *localQueue) *Attempt { return &Attempt{Handle: h, course: course{queue: l}} }
	one, two, three := new(localQueue), new(localQueue), new(localQueue)
	table.Unwatched(h.Names().Base(), &n)
	require.Empty(t, table.pumps, "it never was watched")
	table.watch(h, in(one), &n)
	table.watch(h, in(two), &n)
	require.True(t, watched())
	table.unwatch(in(one), one, &n)
	table.Unwatched(h.Names().Base(), &n)
	require.True(t, watched(), "a queue still asks for it")
	table.unwatch(in(two), two, &n)
	require.True(t, watched(), "it is still subscribed")
	table.watch(h, in(three), &n)
	table.Unwatched(h.Names().Base(), &n)
	require.True(t, watched(), "a queue asked for it again before that")
	table.unwatch(in(three), three, &n)
	require.Empty(t, table.pumps)
	table.Unwatched(h.Names().Base(), &n)
	require.False(t, watched())
	require.NotEmpty(t, table.pumps, "somebody else may have to watch")
	require.Empty(t, table.watches)
}

// TestOnePumpAtATime frees a lock before and after the pump for it is sent.
func TestOnePumpAtATime(t *testing.T) {
	t.Parallel()
	table, h, _ := newTable()
	l := &lineClient{epoch: 1}
	table.messages, table.receiver = l, l
	another := &Handle{Key: table.Key("another", wire.PlainFamily), Kind: wire.Plain, Name: "another"}
	own := h.Names().Own()
	begins := func(h *Handle) bool {
		var n notice.List
		table.pump(h, 0, &n)
		l.told = nil
		n.Deliver(l)
		return len(l.told) > 0
	}
	ends := func(r wire.Reply) bool {
		var n notice.List
		table.Pumped(own, r, start, &n)
		l.told = nil
		n.Deliver(l)
		return len(l.told) > 0
	}
	require.True(t, begins(h))
	require.True(t, begins(another))
	require.False(t, begins(h))
	table.PumpCall(own)
	require.False(t, ends(wire.Reply{}), "it was sent after the lock was freed")

	require.True(t, begins(h))
	table.PumpCall(own)
	require.False(t, begins(h))
	require.True(t, ends(wire.Reply{}), "it may have been executed before the lock was freed")

	silent := wire.Reply{Err: &fault.Error{Fate: fault.InDoubt, Transient: true, Err: fault.ErrNoAnswer}}
	for failures := range maxPumps {
		require.Equal(t, failures, table.pumps[own].failures)
		require.False(t, begins(h))
		require.True(t, ends(silent))
	}
	require.False(t, begins(h))
	require.False(t, ends(silent), "and it had not been sent again")
	require.Nil(t, table.pumps[own])
	require.NotNil(t, table.pumps[another.Names().Own()])
}
