package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestHarnessKinds checks that the fields of each kind fit together, and that a Java thread can be interrupted.
func TestHarnessKinds(t *testing.T) {
	t.Parallel()
	onKinds(t, func(t *testing.T, v version, k kindOf) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		one, two := java.thread(1).lock(k.java, name), java.thread(2).lock(k.rival, name)

		require.NoError(t, one.Lock(lease(time.Minute)))
		ttl, err := one.TTL()
		require.NoError(t, err)
		require.InDelta(t, time.Minute, ttl, float64(aLongTime))
		count, err := one.HoldCount()
		require.NoError(t, err)
		require.Equal(t, 1, count)
		ok, err := two.TryLock(wait(time.Millisecond))
		require.NoError(t, err)
		require.False(t, ok)
		ok, err = k.rivalLock(newClient(t, rdb), name).TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, ok)

		waiting := two.LockAsync(interruptibly)
		switch {
		case k.fair:
			queued(t, rdb, name, 1)
		case k.channel(name) != "":
			subscribed(t, rdb, k.channel(name), 1)
		}
		require.True(t, isInterrupted(two.thread.InterruptUntil(t, waiting)))
		freed, err := two.ForceUnlock()
		require.NoError(t, err)
		require.Equal(t, k.java != "read", freed, "a forced unlock of the write lock does not free readers")
	})
}

func TestHarnessLoops(t *testing.T) {
	t.Parallel()
	onKinds(t, func(t *testing.T, v version, k kindOf) {
		t.Helper()
		server, name, counter := redistest.Start(t), newName(), newName()
		rdb := server.Client(t)
		// Redisson before 3.28.0 may miss unlock messages, and then waits for the whole lease.
		java := sharedJVM(t, v).open(t, settings{Watchdog: time.Second}, server.Addr)

		loop := count{Kind: k.java, Names: []string{name}, Counter: counter, Threads: 2, For: 100 * time.Millisecond}
		if k.java == "write" {
			loop.Readers = 2
		}
		counted := within(t, "the loop ends", java.Count(loop))
		require.NoError(t, counted.Err)
		if k.rival == k.java {
			n, err := rdb.Get(t.Context(), counter).Int64()
			require.NoError(t, err)
			require.Equal(t, n, counted.Value.sum())
		}
		benched := within(t, "the loop ends", java.Bench(bench{
			Kind: k.java, Names: []string{name}, Threads: 2, Warmup: 10 * time.Millisecond, For: 100 * time.Millisecond,
		}))
		require.NoError(t, benched.Err)
		require.Len(t, benched.Value.Pairs, 2)
		require.GreaterOrEqual(t, benched.Value.Elapsed, 100*time.Millisecond)
	})
}

func TestHarnessTokens(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		java := sharedJVM(t, v).open(t, settings{}, server.Addr)
		one, two := java.thread(1).lock("fenced", name), java.thread(2).lock("fenced", name)

		none, err := one.Token()
		require.NoError(t, err)
		require.Zero(t, none)
		token, err := one.LockToken()
		require.NoError(t, err)
		require.Equal(t, int64(1), token)
		refused, err := two.TryLockToken(wait(time.Second)) // with a shorter wait, Redisson may fail to subscribe
		require.NoError(t, err)
		require.Nil(t, refused)
		require.NoError(t, one.Unlock())
		next, err := two.TryLockToken(wait(aLongTime))
		require.NoError(t, err)
		require.Equal(t, int64(2), *next)
	})
}

func TestHarnessCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		name := newName()
		modes := []string{""}
		if v.atLeast(3, 29) {
			modes = []string{"AUTO", "ON", "OFF"}
		}
		for _, mode := range modes {
			inJava := sharedJVM(t, v).open(t, settings{Sharded: mode}, cluster.Options().Addrs...).thread(1).lock("lock", name)
			inGo := newClient(t, rdb).NewLock(name)
			require.NoError(t, inJava.Lock())
			ok, err := inGo.TryLock(t.Context())
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, inJava.Unlock())
		}
	})
}
