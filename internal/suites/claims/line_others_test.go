package claims

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
	"github.com/go-rlock/rlock/observe"
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

// TestALockThatTheOthersHoldIsWatched has the process that was asked to watch close or give up, before Redisson has the lock. The waiter that
// nobody asked watches in its place, as soon as Redis does not count that process any more. When Redisson releases the lock, the waiter
// has it by a message, not by a poll.
func TestALockThatTheOthersHoldIsWatched(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		t.Run(fmt.Sprintf("closes: %v", closes), func(t *testing.T) {
			t.Parallel()
			for !testOthersAreWatched(t, closes) { // Redisson was too slow
			}
		})
	}
}

func testOthersAreWatched(t *testing.T, closes bool) bool {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(t)
	first := testkit.NewClient(t, server.Client(t))
	holder := first.NewLock(testkit.NewName())
	hold := testkit.Must(holder.Acquire(t.Context(), rlock.Lease(testkit.Never)))
	channel := testkit.Channel(holder)
	watching := testkit.NewClient(t, server.Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := testkit.Async(func() error { return watching.NewLock(holder.Name()).Lock(ctx) })
	testkit.Eventually(t, "it watches", func() bool { return watchers(t, rdb, channel) == 1 })
	w := newLonelyWaiter(t, server, rdb, holder.Name())
	testkit.AwaitSleepers(t, rdb, 3, w.lock)
	if closes {
		require.NoError(t, watching.Close())
	}
	left := time.Now()
	cancel()
	require.Error(t, testkit.Within(t, "it leaves", gone))

	java := rdb.Subscribe(t.Context(), channel)
	defer func() { _ = java.Close() }()
	require.NoError(t, testkit.Second(java.Receive(t.Context())))
	acquire, _ := testkit.Script("lock", "acquire")
	keys := testkit.Keys(holder)
	unlocked := testkit.Async(func() error { return hold.Unlock(t.Context()) })
	for testkit.Must(rdb.Eval(t.Context(), acquire, keys, testkit.Stranger, 60_000, 1, channel, "", "", "").Int()) < 0 {
		if len(w.got) > 0 {
			return false
		}
	}
	require.NoError(t, testkit.Within(t, "it is released", unlocked))
	require.NoError(t, first.Close())              // it has looked whether anybody took the lock
	w.watchesSince(t, left, 1500*time.Millisecond) // a process stays subscribed for a second
	return true
}

// lonelyWaiter waits for a lock that Redisson has, and does not poll.
type lonelyWaiter struct {
	rdb  redis.UniversalClient
	lock *rlock.Lock
	got  <-chan error
	seen *testkit.Observed
}

func newLonelyWaiter(t *testing.T, server *redistest.Server, rdb redis.UniversalClient, name string) *lonelyWaiter {
	t.Helper()
	seen, observing := testkit.Observe(t)
	lock := testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never), observing).NewLock(name)
	return &lonelyWaiter{rdb, lock, testkit.Async(func() error { return lock.Lock(t.Context()) }), seen}
}

// watchesSince checks that the waiter watches after the only watcher has left at a moment, within a time that ends before its next poll. When
// Redisson releases the lock, the waiter has it by a message.
func (w *lonelyWaiter) watchesSince(t *testing.T, left time.Time, within time.Duration) {
	t.Helper()
	channel := testkit.Channel(w.lock)
	testkit.Eventually(t, "the waiter watches in its place", func() bool {
		own := testkit.Must(w.rdb.PubSubChannels(t.Context(), channel+":*").Result()) // the twin, and that of the waiter
		return len(own) == 2 && watchers(t, w.rdb, channel) == 1
	})
	if host.Virtual {
		require.Less(t, time.Since(left), within, "its poll comes later")
	}
	release, _ := testkit.Script("lock", "release")
	require.Positive(t, testkit.Must(w.rdb.Eval(t.Context(), release, testkit.Keys(w.lock), testkit.Stranger, 0, 1, channel, "PUBLISH", "").Int()))
	released := time.Now()
	require.NoError(t, testkit.Within(t, "the waiter has it", w.got))
	if host.Virtual {
		require.Less(t, time.Since(released), 10*time.Millisecond)
	}
	require.Equal(t, observe.ViaRemote, w.seen.Last().End.Via, "it has not found the lock by a poll")
	require.NoError(t, w.lock.Unlock(t.Context()))
}

// watchers returns how many processes watch Redisson's channel of a lock.
func watchers(t *testing.T, rdb redis.UniversalClient, channel string) int64 {
	t.Helper()
	twin := channel + ":rlock-twin"
	return testkit.Must(rdb.PubSubNumSub(t.Context(), twin).Result())[twin]
}

// TestAWatcherThatClosesWhileTheOthersHoldHasASuccessor has the only watcher of a lock that Redisson has close, or shut down just after
// its waiter has left. Nobody asks Redis anything until Redisson releases the lock. The waiter then has it by a message.
func TestAWatcherThatClosesWhileTheOthersHoldHasASuccessor(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(c *rlock.Client, stops func()){
		"close": func(c *rlock.Client, _ func()) { _ = c.Close() },
		"shutdown after its waiter": func(c *rlock.Client, stops func()) {
			stops()
			_ = c.Shutdown(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := server.Client(t)
			watching := testkit.NewClient(t, server.Client(t))
			lock := watching.NewLock(testkit.NewName())
			keys, channel := testkit.Keys(lock), testkit.Channel(lock)
			java := rdb.Subscribe(t.Context(), channel)
			defer func() { _ = java.Close() }()
			require.NoError(t, testkit.Second(java.Receive(t.Context())))
			acquire, _ := testkit.Script("lock", "acquire")
			require.Zero(t, testkit.Must(rdb.Eval(t.Context(), acquire, keys, testkit.Stranger, 60_000, 1, channel, "", "", "").Int()))

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gone := testkit.Async(func() error { return lock.Lock(ctx) })
			testkit.Eventually(t, "it watches", func() bool { return watchers(t, rdb, channel) == 1 })
			w := newLonelyWaiter(t, server, rdb, lock.Name())
			testkit.AwaitSleepers(t, rdb, 2, w.lock)
			leave(watching, func() {
				cancel()
				require.Error(t, testkit.Within(t, "it leaves", gone))
			})
			w.watchesSince(t, time.Now(), 100*time.Millisecond)
		})
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
