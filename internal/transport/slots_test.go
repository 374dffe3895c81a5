package transport

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// busy returns a connection of one slot, which a call of the key "a" has until the test replies.
func busy(t *testing.T, d *stub) (*Conn, func()) {
	t.Helper()
	started, reply, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d.info.Bounded = true
	d.run = func(_ context.Context, c wire.Call) wire.Reply {
		if c.Args.Holder == "first" {
			close(started)
			<-reply
		}
		return wire.Reply{}
	}
	conn, _ := open(t, Config{Slots: 1}, d)
	first := acquire("a")
	first.Args.Holder = "first"
	go func() {
		defer close(over)
		conn.Ask(context.Background(), Question{Call: first, Slot: WaitSlot}, nil)
	}()
	<-started
	var ended bool
	end := func() {
		if !ended {
			ended = true
			close(reply)
			<-over
		}
	}
	t.Cleanup(end)
	return conn, end
}

func TestWaitForASlotEnds(t *testing.T) {
	t.Parallel()
	conn, _ := busy(t, &stub{})
	wait, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	r := conn.Ask(wait, Question{Call: acquire("b"), Slot: WaitSlot}, nil)
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.ErrorIs(t, r.Err, context.Canceled)
	require.Nil(t, conn.Ask(context.Background(), Question{Call: release("b")}, nil).Err, "a release needs no slot")
}

// TestACallerThatLeavesBeforeItHasASlotSendsNothing has no slot come free in time. Nothing is sent, also not after the caller
// has left, and nothing is in doubt.
func TestACallerThatLeavesBeforeItHasASlotSendsNothing(t *testing.T) {
	t.Parallel()
	const soon = 20 * time.Millisecond
	for what, q := range map[string]Question{
		"ctx":    {Call: acquire("b"), Slot: WaitSlot},
		"Within": {Call: acquire("b"), Slot: WaitSlot, Within: soon},
	} {
		d := &stub{}
		conn, end := busy(t, d)
		ctx := context.Background()
		if q.Within == 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, soon)
			defer cancel()
		}
		late := make(lateReplies, 1)
		r := conn.Ask(ctx, q, late)
		require.Equal(t, fault.NotSent, r.Err.Fate, what)
		require.True(t, r.Err.Unavailable(), what)
		require.ErrorContains(t, r.Err, "no free connection", what)
		end()
		conn.tasks.Close()
		conn.tasks.Wait(context.Background())
		require.Len(t, d.sent(), 1, what)
		require.Empty(t, late, what)
	}
}

// TestACallerThatLeavesBeforeTheNodeIsKnown has a cluster not say which node has the key. This is no lack of connections.
func TestACallerThatLeavesBeforeTheNodeIsKnown(t *testing.T) {
	t.Parallel()
	known := make(chan struct{})
	d := &hidden{stub: stub{info: driver.Info{Bounded: true, Cluster: true}, run: granted}, known: known}
	conn, tasks := open(t, Config{Slots: 1}, d)
	r := conn.Ask(context.Background(), Question{Call: acquire("a"), Slot: WaitSlot, Within: time.Millisecond}, nil)
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.True(t, r.Err.Unavailable())
	require.ErrorIs(t, r.Err, fault.ErrNoAnswer)
	require.NotErrorIs(t, r.Err, fault.ErrNoConnection)
	require.Equal(t, 1, d.refreshed(), "the topology may be out of date")
	close(known)
	tasks.Close()
	tasks.Wait(context.Background())
	require.Empty(t, d.sent())
}

// hidden is a driver that finds no node for a while.
type hidden struct {
	stub
	known chan struct{}
}

func (h *hidden) Node(ctx context.Context, key string) (driver.Node, *fault.Error) {
	<-h.known
	return h.stub.Node(ctx, key)
}

// TestAQueryWaitsForTheCommandTimeoutOnly has no slot come free for a query, which nothing else bounds.
func TestAQueryWaitsForTheCommandTimeoutOnly(t *testing.T) {
	t.Parallel()
	conn, _ := busy(t, &stub{})
	conn.CommandTimeout = 1
	r := conn.Ask(context.Background(), Question{Call: acquire("b"), Slot: QuerySlot}, nil)
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.True(t, r.Err.Unavailable())
	require.ErrorContains(t, r.Err, "no free connection")
}

func TestClosedIsNoOutage(t *testing.T) {
	t.Parallel()
	conn, _ := busy(t, &stub{})
	conn.tasks.Close()
	r := conn.Ask(context.Background(), Question{Call: acquire("b"), Slot: WaitSlot}, nil)
	require.ErrorIs(t, r.Err, fault.ErrClosed)
	require.NotErrorIs(t, r.Err, fault.ErrUnavailable)
}

func TestSlotAfterClose(t *testing.T) {
	t.Parallel()
	conn, _ := busy(t, &stub{})
	conn.tasks.Close()
	ctx := context.Background()
	r := conn.Ask(ctx, Question{Call: acquire("b"), Slot: WaitSlot}, nil)
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.ErrorIs(t, r.Err, fault.ErrClosed)
	require.Nil(t, conn.Ask(ctx, Question{Call: release("b"), Slot: DutySlot}, nil).Err)
}

func TestSlotIsPassedOn(t *testing.T) {
	t.Parallel()
	conn, end := busy(t, &stub{})
	got := make(chan wire.Reply)
	go func() {
		got <- conn.Ask(context.Background(), Question{Call: acquire("b"), Slot: WaitSlot}, nil)
	}()
	end()
	require.Nil(t, (<-got).Err)
}

func TestDutyWaitsForTheCommandTimeoutOnly(t *testing.T) {
	t.Parallel()
	conn, _ := busy(t, &stub{})
	conn.CommandTimeout = 1
	r := conn.Ask(context.Background(), Question{Call: release("b"), Slot: DutySlot}, nil)
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.ErrorIs(t, r.Err, context.DeadlineExceeded)
}

func TestSlotsOfACluster(t *testing.T) {
	t.Parallel()
	d := &stub{info: driver.Info{Cluster: true}}
	conn, _ := busy(t, d)
	require.True(t, conn.BySlot())
	ctx := context.Background()
	require.Nil(t, conn.Ask(ctx, Question{Call: acquire("b"), Slot: WaitSlot}, nil).Err, "another node is free")
	d.nodeErr = &fault.Error{Fate: fault.Rejected, Code: "CLUSTERDOWN", Transient: true, Stale: true, Err: errors.New("down")}
	r := conn.Ask(ctx, Question{Call: acquire("b"), Slot: WaitSlot}, nil)
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.Equal(t, "CLUSTERDOWN", r.Err.Code)
	require.True(t, r.Err.Transient)
	require.True(t, r.Err.Stale)
}

func TestAcksFollowTheSlot(t *testing.T) {
	t.Parallel()
	d := &stub{info: driver.Info{Cluster: true, Bounded: true}}
	replies := []wire.Reply{
		{N: -1, Err: &fault.Error{Fate: fault.Rejected, Code: "MOVED", Stale: true, Err: errors.New("MOVED 1 b")}},
		{N: 1, Err: &fault.Error{Fate: fault.Unreplicated, Err: fault.ErrNotReplicated}},
	}
	d.pipe = func(driver.Node, wire.Call) wire.Reply {
		r := replies[0]
		replies = replies[1:]
		return r
	}
	conn, _ := open(t, Config{Acks: &driver.Acks{Replicas: 1}}, d)
	r := conn.Ask(context.Background(), Question{Call: acquire("a"), Acked: true}, nil)
	require.True(t, r.Acquired())
	require.Equal(t, fault.Unreplicated, r.Err.Fate)
	require.Equal(t, 1, d.refreshed())
	require.Len(t, d.sent(), 2)
}
