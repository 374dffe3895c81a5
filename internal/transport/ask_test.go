package transport

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestAskInPlace(t *testing.T) {
	t.Parallel()
	d := &stub{info: driver.Info{Bounded: true}, run: func(context.Context, wire.Call) wire.Reply {
		return wire.Reply{N: 7, Took: time.Millisecond}
	}}
	conn, _ := open(t, Config{Slots: 1}, d)
	r := conn.Ask(context.Background(), Question{Call: acquire("a"), Slot: WaitSlot}, nil)
	require.Nil(t, r.Err)
	require.EqualValues(t, 7, r.N)
	require.Equal(t, time.Millisecond, r.Took)
	require.Empty(t, conn.lane.slots, "the slot is free again")
}

func TestAllocationsOfAsk(t *testing.T) { // not parallel: it counts allocations
	d := &bare{}
	conn, _ := open(t, Config{Slots: 2}, d)
	q := Question{Call: acquire("a"), Slot: WaitSlot}
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(1000, func() { conn.Ask(ctx, q, nil) }), "in place")
	ending, cancel := context.WithCancel(ctx)
	defer cancel()
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { conn.Ask(ending, q, nil) }), 1.0, "aside: the job")
	const dropped = 1 // the errand and its timer, made again when the pool, under the race detector, drops one in four
	q.Within = tooLong
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { conn.Ask(ctx, q, nil) }), 1.0+dropped,
		"aside, with a bound: no more")
	q.Within = tooLong + 1
	require.Zero(t, testing.AllocsPerRun(1000, func() { conn.Ask(ctx, q, nil) }),
		"in place: the command timeout ends the call before")
}

// bare is a driver that allocates nothing.
type bare struct{ stub }

func (*bare) Info() driver.Info { return driver.Info{Bounded: true} }

func (*bare) Run(context.Context, driver.Node, wire.Call) wire.Reply { return wire.Reply{} }

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	started, reply := make(chan struct{}), make(chan wire.Reply)
	d := &stub{info: driver.Info{Bounded: true}, run: func(context.Context, wire.Call) wire.Reply {
		close(started)
		return <-reply
	}}
	conn, tasks := open(t, Config{}, d)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-started
		cancel()
	}()
	late := make(lateReplies, 2)
	r := conn.Ask(ctx, Question{Call: acquire("a")}, late)
	require.Equal(t, fault.Left, r.Err.Fate)
	require.False(t, r.Err.TimedOut())
	require.ErrorIs(t, r.Err, context.Canceled)
	require.Equal(t, 1, tasks.Count(), "Close waits for the command")
	reply <- wire.Reply{N: 3}
	require.EqualValues(t, 3, late.next(t).N)
	tasks.Close()
	tasks.Wait(context.Background())
	require.Empty(t, late, "there is one late reply")
	require.Zero(t, d.refreshed(), "a caller that leaves says nothing about the topology")
}

func TestNobodyWantsTheLateReply(t *testing.T) {
	t.Parallel()
	started, reply := make(chan struct{}), make(chan wire.Reply)
	d := &stub{info: driver.Info{Bounded: true}, run: func(context.Context, wire.Call) wire.Reply {
		close(started)
		return <-reply
	}}
	conn, _ := open(t, Config{}, d)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-started
		cancel()
	}()
	require.Equal(t, fault.Left, conn.Ask(ctx, Question{Call: acquire("a")}, nil).Err.Fate)
	reply <- wire.Reply{}
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	reply := make(chan wire.Reply)
	d := &stub{run: func(context.Context, wire.Call) wire.Reply { return <-reply }}
	conn, _ := open(t, Config{CommandTimeout: 300 * time.Millisecond}, d)
	var stale []*fault.Error
	conn.OnTopology(func(err *fault.Error) { stale = append(stale, err) })
	late := make(lateReplies, 1)
	r := conn.Ask(context.Background(), Question{Call: acquire("a")}, late)
	require.True(t, r.Err.TimedOut())
	require.True(t, r.Err.InDoubt())
	require.True(t, r.Err.Transient)
	require.Equal(t, []*fault.Error{r.Err}, stale)
	require.Equal(t, 1, d.refreshed())
	reply <- wire.Reply{N: -5}
	require.EqualValues(t, -5, late.next(t).N)
}

// TestLeaveOrReturn checks that each call has its reply exactly once, when the caller leaves at the moment of the reply.
func TestLeaveOrReturn(t *testing.T) {
	t.Parallel()
	d := &stub{info: driver.Info{Bounded: true}}
	conn, tasks := open(t, Config{}, d)
	const calls = 1000
	late := make(lateReplies, calls)
	returned := 0
	for range calls {
		ctx, cancel := context.WithCancel(context.Background())
		d.run = func(context.Context, wire.Call) wire.Reply {
			go cancel()
			return wire.Reply{}
		}
		if r := conn.Ask(ctx, Question{Call: acquire("a")}, late); r.Err == nil {
			returned++
		} else {
			require.Equal(t, fault.Left, r.Err.Fate)
			late.next(t)
			returned++
		}
		cancel()
	}
	tasks.Close()
	tasks.Wait(context.Background())
	require.Equal(t, calls, returned)
	require.Empty(t, late)
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	d := &stub{info: driver.Info{Bounded: true}, run: granted}
	conn, tasks := open(t, Config{}, d)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := conn.Ask(ctx, Question{Call: acquire("a")}, make(lateReplies))
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.ErrorIs(t, r.Err, context.Canceled)
	require.Empty(t, d.sent())

	tasks.Close()
	tasks.Wait(context.Background())
	require.Nil(t, conn.Ask(ctx, Question{Call: release("a")}, nil).Err, "an unlock after Close is sent in place")
	require.Len(t, d.sent(), 1)
}

func TestPublishIsFilledIn(t *testing.T) {
	t.Parallel()
	d := &stub{info: driver.Info{Bounded: true}, run: granted}
	conn, _ := open(t, Config{Publish: wire.PublishSharded}, d)
	for _, c := range []wire.Call{acquire("a"), release("a")} {
		require.Nil(t, conn.Ask(context.Background(), Question{Call: c}, nil).Err)
	}
	var got []wire.Publish
	for _, c := range d.sent() {
		got = append(got, c.Args.Publish)
	}
	require.Equal(t, []wire.Publish{"", wire.PublishSharded}, got)
}

// A script that judges waiters by the receivers of its messages is told that a cluster counts only those at one node, unless
// its channels are sharded.
func TestAClustersReceiversAreNotCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cluster       bool
		kind          *wire.Kind
		publish, sent wire.Publish
	}{
		{false, wire.Fair, wire.PublishPlain, wire.PublishPlain},
		{true, wire.Fair, wire.PublishPlain, wire.PublishNode},
		{true, wire.Fair, wire.PublishSharded, wire.PublishSharded},
		{true, wire.Plain, wire.PublishPlain, wire.PublishPlain},
	} {
		d := &stub{info: driver.Info{Bounded: true, Cluster: c.cluster}, run: granted}
		conn, _ := open(t, Config{Publish: c.publish}, d)
		names := wire.NewNames(c.kind, "name", "client")
		holder := wire.NewHolder(c.kind, names, "client", 1)
		conn.Ask(context.Background(), Question{Call: holder.Release(names, 0)}, nil)
		require.Equal(t, c.sent, d.sent()[0].Args.Publish)
	}
}

func TestErrorsAreNoted(t *testing.T) {
	t.Parallel()
	err := &fault.Error{Fate: fault.Rejected, Code: "CROSSSLOT", Err: errors.New("CROSSSLOT keys")}
	d := &stub{info: driver.Info{Bounded: true}, run: func(context.Context, wire.Call) wire.Reply {
		return wire.Reply{N: -1, Err: err}
	}}
	d.pipe = func(driver.Node, wire.Call) wire.Reply {
		return wire.Reply{Err: &fault.Error{Stale: true, Err: errors.New("MOVED")}}
	}
	conn, _ := open(t, Config{}, d)
	stale := 0
	conn.OnTopology(func(*fault.Error) { stale++ })
	require.False(t, conn.BySlot())
	conn.Ask(context.Background(), Question{Call: acquire("a")}, nil)
	require.True(t, conn.BySlot())
	require.Zero(t, stale)
	conn.Pipe(context.Background(), nil, []wire.Call{acquire("a")}, make([]wire.Reply, 1))
	require.Equal(t, 1, stale)
	conn.Silent()
	require.Equal(t, 2, stale)
	require.Equal(t, 2, d.refreshed())
}

func TestManyCallers(t *testing.T) {
	t.Parallel()
	d := &stub{info: driver.Info{Bounded: true}, run: granted}
	conn, _ := open(t, Config{Slots: 2}, d)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 100 {
				if r := conn.Ask(ctx, Question{Call: acquire("a"), Slot: WaitSlot}, nil); r.Err != nil {
					t.Error(r.Err)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, d.sent(), 1600)
}

// TestWithin has a caller leave before the command timeout, also where the driver would run its call in place. The command
// goes on.
func TestWithin(t *testing.T) {
	t.Parallel()
	for _, bounded := range []bool{true, false} {
		reply := make(chan wire.Reply)
		d := &stub{info: driver.Info{Bounded: bounded}, run: func(context.Context, wire.Call) wire.Reply { return <-reply }}
		conn, _ := open(t, Config{}, d)
		late := make(lateReplies, 1)
		r := conn.Ask(context.Background(), Question{Call: acquire("a"), Within: 300 * time.Millisecond}, late)
		require.True(t, r.Err.TimedOut())
		require.True(t, r.Err.InDoubt(), "the release needs a tombstone")
		require.True(t, r.Err.Unavailable())
		reply <- wire.Reply{N: 4}
		require.EqualValues(t, 4, late.next(t).N)
	}
}
