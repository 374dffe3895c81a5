package claims

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestTheLineBesideRedisson has a process that knows of no line wait and release as Redisson does.
func TestTheLineBesideRedisson(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	lock, hold, _, got := queueing(t, server, "lock", 1)
	acquire, _ := testkit.Script("lock", "acquire")
	release, _ := testkit.Script("lock", "release")
	keys, channel := testkit.Keys(lock), testkit.Channel(lock)
	others := rdb.Subscribe(t.Context(), channel)
	defer func() { _ = others.Close() }()
	require.NoError(t, testkit.Second(others.Receive(t.Context())))
	taken := make(chan struct{})
	go func() {
		for range others.Channel() {
			if n, err := rdb.Eval(t.Context(), acquire, keys, testkit.Stranger, 60_000, 1, channel, "", "", "").Int(); err == nil && n >= 0 {
				close(taken)
				return
			}
		}
	}()
	require.NoError(t, hold.Unlock(t.Context()))
	select {
	case <-taken: // its turn came first
		require.Positive(t, testkit.Must(rdb.Eval(t.Context(), release, keys, testkit.Stranger, 0, 1, channel, "PUBLISH", "").Int()))
		passed := redistest.Stopwatch(t)
		next := testkit.Within(t, "its release gives the lock to the line", got)
		require.NoError(t, next.err)
		require.Less(t, passed(), slack)
		require.NoError(t, next.hold.Unlock(t.Context()))
	case next := <-got: // it was slow, and the line went on
		require.NoError(t, next.err)
		require.NoError(t, next.hold.Unlock(t.Context()))
		testkit.Within(t, "then it is its turn", taken)
		require.NoError(t, rdb.Del(t.Context(), keys[0]).Err())
	}
}

// TestAPublicReleaseThatNobodyTakesUpIsFollowedUp has four processes with eight goroutines each take turns beside a listener that
// never takes the lock. Most public releases are those of a process that watches the channel itself, while its head is being
// named: it must not leave the lock to that head, which sleeps on.
func TestAPublicReleaseThatNobodyTakesUpIsFollowedUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const clients, goroutines, turns = 4, 8, 20
	name := testkit.NewName()
	var locks []*rlock.Lock
	for range clients {
		locks = append(locks, testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewLock(name))
	}
	deaf := server.Client(t).Subscribe(t.Context(), testkit.Channel(locks[0]))
	defer func() { _ = deaf.Close() }()
	require.NoError(t, testkit.Second(deaf.Receive(t.Context())))
	var longest, last time.Duration // guarded by the lock
	start := time.Now()
	var all sync.WaitGroup
	for _, lock := range locks {
		for range goroutines {
			all.Go(func() {
				for range turns {
					if err := lock.Do(t.Context(), func(context.Context) error {
						now := time.Since(start)
						longest, last = max(longest, now-last), now
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	require.Less(t, longest, slack)
}
