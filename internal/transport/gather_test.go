package transport

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// gatherer is a stub that gathers. It is its own future.
type gatherer struct {
	stub
	refuses  bool
	gathered int
	reply    chan wire.Reply
	stopped  bool
}

func (g *gatherer) Gather(context.Context, wire.Call) (driver.Future, bool) {
	if g.refuses {
		return nil, false
	}
	g.gathered++
	return g, true
}

func (g *gatherer) Wait(ctx context.Context) (wire.Reply, bool) {
	select {
	case r := <-g.reply:
		return r, true
	case <-ctx.Done():
		return wire.Reply{}, false
	}
}

func (g *gatherer) StopGathering(context.Context) { g.stopped = true }

func openGatherer(t *testing.T, timeout time.Duration) (*Conn, *gatherer) {
	t.Helper()
	g := &gatherer{stub: stub{info: driver.Info{Bounded: true}, run: granted}, reply: make(chan wire.Reply, 1)}
	conn, _ := open(t, Config{Gather: true, CommandTimeout: timeout, Acks: &driver.Acks{Replicas: 1}}, g)
	g.pipe = func(wire.Call) wire.Reply { return wire.Reply{} }
	return conn, g
}

func TestGathering(t *testing.T) {
	t.Parallel()
	conn, g := openGatherer(t, 0)
	ctx := context.Background()
	g.reply <- wire.Reply{N: 4}
	require.EqualValues(t, 4, conn.Ask(ctx, Question{Call: acquire("a")}, nil).N)
	g.reply <- wire.Reply{N: 5}
	stand := acquire("a")
	stand.Script = wire.Plain.Line.Acquire // replies a list or a number
	require.EqualValues(t, 5, conn.Ask(ctx, Question{Call: stand}, nil).N)
	require.Empty(t, g.sent())

	inspect := wire.Call{Script: wire.Plain.Inspect, Keys: []any{"a"}, Args: wire.Args{Holder: "holder"}}
	force := release("a")
	force.Script, force.Args.Holder = wire.Plain.Force, nil
	for _, q := range []Question{{Call: inspect}, {Call: force}, {Call: acquire("a"), Acked: true}} {
		require.Nil(t, conn.Ask(ctx, q, nil).Err)
	}
	require.Len(t, g.sent(), 3, "these are sent by themselves")
	g.refuses = true
	require.Nil(t, conn.Ask(ctx, Question{Call: acquire("a")}, nil).Err)
	require.Len(t, g.sent(), 4)
	conn.Stop(ctx)
	require.True(t, g.stopped)
}

func TestGatheredCallIsSentByItself(t *testing.T) {
	t.Parallel()
	conn, g := openGatherer(t, 0)
	moved := &fault.Error{Stale: true, Err: fmt.Errorf("%w: MOVED", driver.ErrNotGathered)}
	g.reply <- wire.Reply{N: -1, Err: moved}
	require.Nil(t, conn.Ask(context.Background(), Question{Call: acquire("a")}, nil).Err)
	require.Len(t, g.sent(), 1)
	require.Equal(t, 1, g.refreshed())
}

func TestCallerLeavesGatheredCall(t *testing.T) {
	t.Parallel()
	conn, g := openGatherer(t, time.Millisecond)
	late := make(lateReplies, 1)
	r := conn.Ask(context.Background(), Question{Call: acquire("a")}, late)
	require.True(t, r.Err.TimedOut())
	g.reply <- wire.Reply{N: 8}
	require.EqualValues(t, 8, late.next(t).N)

	conn.CommandTimeout = tooLong
	r = conn.Ask(context.Background(), Question{Call: acquire("a"), Within: time.Millisecond}, late)
	require.True(t, r.Err.TimedOut())
	g.reply <- wire.Reply{N: 9}
	require.EqualValues(t, 9, late.next(t).N)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r = conn.Ask(ctx, Question{Call: acquire("a")}, late)
	require.Equal(t, fault.NotSent, r.Err.Fate)
	require.Equal(t, 2, g.gathered)
}
