package rlockrueidis

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// panicky is a client in a wrapper whose methods panic while it is told to, as a hook with a bug does. The clients of nodes and those of
// subscriptions are wrapped, too.
type panicky struct {
	rueidis.Client

	on    *atomic.Bool
	count *atomic.Int64
}

func (p panicky) panics() {
	if p.on.Load() {
		p.count.Add(1)
		panic("a bug in a hook")
	}
}

func (p panicky) Unwrap() rueidis.Client { return p.Client }

func (p panicky) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	p.panics()
	return p.Client.Do(ctx, cmd)
}

func (p panicky) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	p.panics()
	return p.Client.DoMulti(ctx, cmds...)
}

func (p panicky) Nodes() map[string]rueidis.Client {
	nodes := p.Client.Nodes()
	for addr, node := range nodes {
		nodes[addr] = panicky{node, p.on, p.count}
	}
	return nodes
}

func (p panicky) Dedicate() (rueidis.DedicatedClient, func()) {
	p.panics()
	c, cancel := p.Client.Dedicate()
	return panickyDedicated{c, p}, cancel
}

// panickyDedicated is the client of a subscription.
type panickyDedicated struct {
	rueidis.DedicatedClient

	of panicky
}

func (p panickyDedicated) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	p.of.panics()
	return p.DedicatedClient.Do(ctx, cmd)
}

func (p panickyDedicated) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	p.of.panics()
	return p.DedicatedClient.DoMulti(ctx, cmds...)
}

func (p panickyDedicated) Close() {
	defer p.of.panics()
	p.DedicatedClient.Close()
}

// A wrapper that panics ends neither the process nor a hold, wherever it runs: in the goroutine of the caller, on a worker, in a pipeline
// to each node, while the topology is loaded, while a waiter subscribes or unsubscribes. Afterwards everything works.
func TestAWrapperThatPanics(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) rueidis.ClientOption{
		"single": func(t *testing.T) rueidis.ClientOption {
			t.Helper()
			return rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr}, ForceSingleClient: true, BlockingPoolSize: 6}
		},
		"cluster": func(t *testing.T) rueidis.ClientOption {
			t.Helper()
			return rueidis.ClientOption{InitAddress: redistest.StartCluster(t).Options().Addrs, BlockingPoolSize: 6}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt := open(t)
			rival, err := New(client(t, opt), rlock.WithPollInterval(100*time.Millisecond))
			require.NoError(t, err)
			defer func() { require.NoError(t, rival.Close()) }()
			p := panicky{client(t, opt), new(atomic.Bool), new(atomic.Int64)}
			p.on.Store(true) // from the first question on, which is for the topology
			locks, err := New(p, rlock.WithWatchdogTimeout(3*time.Second), rlock.WithPollInterval(100*time.Millisecond),
				rlock.WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			defer func() { require.NoError(t, locks.Close()) }()
			_, err = locks.NewLock("a").TryLock(t.Context())
			require.ErrorIs(t, err, rlock.ErrUnavailable)
			p.on.Store(false)

			var kept []*rlock.Hold
			for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // on all nodes: renewals are pipelines to several
				hold, err := locks.NewLock(key).Acquire(t.Context())
				require.NoError(t, err)
				kept = append(kept, hold)
			}
			taken, err := rival.NewLock("waited for").Acquire(t.Context())
			require.NoError(t, err)
			got := make(chan error, 1)
			waited := locks.NewLock("waited for")
			go func() { got <- waited.Lock(context.Background()) }()
			waits := func() bool { return locks.Stats().Waiting == 1 }
			require.Eventually(t, waits, 10*time.Second, time.Millisecond)

			p.on.Store(true)
			for range 20 { // more than there are connections
				_, err = locks.NewLock("x").TryLock(t.Context())
				require.ErrorIs(t, err, rlock.ErrUnavailable)
				require.ErrorContains(t, err, "a bug in a hook")
			}
			renewed := func() bool { return locks.Stats().RenewalFailures > 0 }
			require.Eventually(t, renewed, 10*time.Second, time.Millisecond)
			p.on.Store(false)
			require.NotZero(t, p.count.Load())

			require.NoError(t, taken.Unlock(t.Context()))
			require.NoError(t, <-got, "it listens or asks again")
			require.NoError(t, waited.Unlock(t.Context()))
			for _, hold := range kept {
				require.NoError(t, hold.Err())
				require.NoError(t, hold.Unlock(t.Context()))
			}
			settled := func() bool { return locks.Stats().InDoubt == 0 }
			require.Eventually(t, settled, 20*time.Second, time.Millisecond)
		})
	}
}

// unwraps is a wrapper that has its client in a field of another name.
type unwraps struct {
	methods // so that it is one
	of      rueidis.Client
}

// methods are those of a client, by another name.
type methods interface{ rueidis.Client }

func (u unwraps) Unwrap() rueidis.Client { return u.of }

func TestUnwrap(t *testing.T) {
	t.Parallel()
	opt := rueidis.ClientOption{InitAddress: []string{redistest.Embedded(t).Options().Addr}, ConnLifetime: time.Hour}
	c := client(t, opt)
	for _, in := range []rueidis.Client{unwraps{of: c}, &unwraps{of: &unwraps{of: c}}} {
		_, err := New(in)
		require.ErrorIs(t, err, rlock.ErrInvalidOption)
		require.ErrorContains(t, err, "ConnLifetime")
	}
}
