package transport

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestAStuckBatchHoldsNobodyUp has a batch hang. Others take its place as long as there are connections.
func TestAStuckBatchHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	t.Run("one slot", func(t *testing.T) { testAStuckBatch(t, 1, 5) })
	t.Run("one to spare", func(t *testing.T) { testAStuckBatch(t, 5, 1) })
}

func testAStuckBatch(t *testing.T, slots, spare int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, Config{Crowd: 0, Slots: slots}, "a", "b")
		c.spare = spare
		ctx := context.Background()
		c.ask(ctx, Question{Call: acquire("a"), Slot: WaitSlot})
		start := time.Now()
		require.Nil(t, (<-c.ask(ctx, Question{Call: acquire("c"), Slot: WaitSlot})).Err)
		require.LessOrEqual(t, time.Since(start), 2*patience)
		c.ask(ctx, Question{Call: acquire("b"), Slot: WaitSlot}) // has taken the place of the stuck one, and hangs too
		waits := c.ask(ctx, Question{Call: acquire("d"), Slot: WaitSlot})
		time.Sleep(time.Second)
		require.Empty(t, waits, "there is no connection for a third")
		c.answer("a")
		time.Sleep(2 * patience)
		synctest.Wait()
		require.Nil(t, (<-waits).Err, "the connection of a is free")
		c.answer("b")
		require.Empty(t, c.lane.slots)
		require.Empty(t, c.lane.active)
		require.Zero(t, c.lane.stuck)
		time.Sleep(2 * patience)
		require.False(t, c.lane.ticks, "nobody looks after an empty queue")
	})
}

// TestACallThatMovedIsSentAgain has the node of a batch not run a call, because another node has the key now.
func TestACallThatMovedIsSentAgain(t *testing.T) {
	t.Parallel()
	rejected := func(code string) *fault.Error {
		return &fault.Error{Fate: fault.Rejected, Code: code, Stale: true, Err: errors.New(code)}
	}
	unsent := func(transient, stale bool) *fault.Error {
		return &fault.Error{Fate: fault.NotSent, Transient: transient, Stale: stale, Err: errors.New("not sent")}
	}
	for what, test := range map[string]struct {
		err   *fault.Error
		again bool
	}{
		"MOVED":                     {rejected("MOVED"), true},
		"ASK":                       {rejected("ASK"), true},
		"READONLY":                  {rejected("READONLY"), true},
		"WRONGTYPE":                 {rejected("WRONGTYPE"), false},
		"no connection":             {unsent(true, true), true},
		"that node's client closed": {unsent(false, false), true},
		"no connection free":        {unsent(true, false), false},
	} {
		d := &stub{info: driver.Info{Bounded: true, Cluster: true, Batches: 1}, run: granted}
		d.pipe = func(at driver.Node, _ wire.Call) wire.Reply {
			if at == nil {
				return wire.Reply{N: 1}
			}
			return wire.Reply{N: -1, Err: test.err}
		}
		conn, _ := open(t, Config{Crowd: 0, Slots: 1}, d)
		q := Question{Call: acquire("a"), Slot: WaitSlot}
		require.Nil(t, conn.Ask(t.Context(), q, nil).Err)
		require.Empty(t, d.piped(), "the topology is not known yet")
		r := conn.Ask(t.Context(), q, nil)
		if test.again {
			require.Equal(t, wire.Reply{N: 1}, r, what)
			require.Len(t, d.piped(), 2, what)
		} else {
			require.Equal(t, test.err, r.Err, what)
			require.Len(t, d.piped(), 1, what)
		}
		require.Empty(t, conn.lane.slots)
	}
}

// TestCallsThatMovedLeaveConnections has a node answer MOVED to many calls, and the node that has the keys hang. Renewals there
// need a connection.
func TestCallsThatMovedLeaveConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newMoving(t, "hangs")
		c.CommandTimeout = time.Second
		var hanging atomic.Int32
		c.pipe = func(at driver.Node, call wire.Call) wire.Reply {
			if at == nil {
				hanging.Add(1)
				return c.reply(call)
			}
			return moved()
		}
		var waits []<-chan wire.Reply
		for range 3 * batchSize {
			waits = append(waits, c.ask(t.Context(), Question{Call: acquire("hangs"), Slot: WaitSlot}))
		}
		time.Sleep(10 * patience)
		require.EqualValues(t, 1, hanging.Load(), "there is one slot")
		released := c.ask(t.Context(), Question{Call: release("hangs")})
		time.Sleep(10 * patience)
		require.EqualValues(t, 2, hanging.Load(), "a release does not wait for acquisitions")
		for _, wait := range waits {
			require.True(t, (<-wait).Err.Unavailable())
		}
		require.Equal(t, fault.Left, (<-released).Err.Fate)
		c.answer("hangs")
		time.Sleep(time.Second)
		v, _ := c.lanes.Load("hangs")
		w, _ := v.(*lane)
		require.Empty(t, w.slots)
		require.Empty(t, w.active)
	})
}

// TestUrgentCallsWaitForNoAcquisition has all batches of acquisitions hang. A release goes out nevertheless, and so does a duty
// once the client is closed.
func TestUrgentCallsWaitForNoAcquisition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, Config{Crowd: 0, Slots: 1}, "a", "b", "d")
		c.ask(t.Context(), Question{Call: acquire("a"), Slot: WaitSlot})
		c.ask(t.Context(), Question{Call: acquire("b"), Slot: WaitSlot})
		time.Sleep(2 * patience) // b has the only slot
		waits := c.ask(t.Context(), Question{Call: acquire("c"), Slot: WaitSlot})
		duty := c.ask(t.Context(), Question{Call: release("duty"), Slot: DutySlot})
		start := time.Now()
		require.Nil(t, (<-c.ask(t.Context(), Question{Call: release("c")})).Err)
		require.LessOrEqual(t, time.Since(start), 2*patience)
		time.Sleep(time.Second)
		require.Empty(t, duty, "the client is open")
		hangs := c.ask(t.Context(), Question{Call: release("d")})
		time.Sleep(2 * patience)
		released := c.ask(t.Context(), Question{Call: release("e")})
		time.Sleep(2 * patience)
		require.Empty(t, released, "there is one connection for all of them")
		c.tasks.Close()
		c.answer("d")
		require.Nil(t, (<-hangs).Err)
		require.Nil(t, (<-released).Err)
		require.Nil(t, (<-duty).Err)
		require.ErrorIs(t, (<-waits).Err, fault.ErrClosed)
		require.Nil(t, c.lane.urgent)
	})
}

// TestBatchesThatMovedWaitForNoOther has two batches hang, one of them stuck with the only slot, and then the node answers MOVED
// to both.
func TestBatchesThatMovedWaitForNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newMoving(t, "moved")
		c.pipe = func(at driver.Node, call wire.Call) wire.Reply {
			if at == nil {
				return wire.Reply{N: 1}
			}
			c.reply(call)
			return moved()
		}
		first := c.ask(t.Context(), Question{Call: acquire("moved"), Slot: WaitSlot})
		second := c.ask(t.Context(), Question{Call: acquire("moved"), Slot: WaitSlot})
		time.Sleep(2 * patience) // the first is stuck, and the second beside it
		start := time.Now()
		c.answer("moved")
		require.Nil(t, (<-first).Err)
		require.Nil(t, (<-second).Err)
		require.Less(t, time.Since(start), patience)
	})
}

// TestCallsThatMovedHoldNobodyUp moves some calls to a node that hangs. Calls that did not move still get their replies.
func TestCallsThatMovedHoldNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newMoving(t, "moved")
		c.pipe = func(at driver.Node, call wire.Call) wire.Reply {
			if at == nil {
				return c.reply(call)
			}
			if call.Args.Number == 7 {
				return moved()
			}
			return wire.Reply{N: 1}
		}
		for range 3 { // one more than there may be batches, with the urgent one
			goes := Question{Call: release("moved")}
			goes.Call.Args.Number = 7
			c.ask(t.Context(), goes)
			time.Sleep(2 * patience)
		}
		start := time.Now()
		require.Nil(t, (<-c.ask(t.Context(), Question{Call: release("moved")})).Err)
		require.Less(t, time.Since(start), 2*patience)
		c.answer("moved")
	})
}

// newMoving returns a connection to a cluster with one slot at each node. All calls of the name hang.
func newMoving(t *testing.T, name string) *crowded {
	t.Helper()
	c := newCrowded(t, Config{Crowd: 0, Slots: 1}, name)
	c.cluster = true
	c.routed.Store(true)
	c.info.Cluster = true // the stub has a node for each name
	return c
}

func moved() wire.Reply {
	return wire.Reply{N: -1, Err: &fault.Error{Fate: fault.Rejected, Code: "MOVED", Transient: true, Err: errors.New("MOVED")}}
}

// TestACallDoesNotWaitForTheSlotOfABatch has a stuck batch hold the only slot.
func TestACallDoesNotWaitForTheSlotOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, Config{Crowd: 6, Slots: 1}, "x", "a")
		alone := c.ask(t.Context(), Question{Call: acquire("x"), Slot: WaitSlot})
		c.ask(t.Context(), Question{Call: acquire("a"), Slot: WaitSlot})
		queued := c.ask(t.Context(), Question{Call: acquire("b"), Slot: WaitSlot})
		c.answer("x")
		require.Nil(t, (<-alone).Err)
		require.Nil(t, (<-queued).Err, "a is stuck, and b went out beside it")
		synctest.Wait()
		start := time.Now()
		require.Nil(t, (<-c.ask(t.Context(), Question{Call: acquire("c"), Slot: WaitSlot})).Err)
		require.Less(t, time.Since(start), patience)
	})
}
