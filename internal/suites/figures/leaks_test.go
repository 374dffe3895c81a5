package figures

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// leakAcquisitions is the number of acquisitions in TestNothingLeaks. RLOCK_LEAKS overrides it, see "make leaks".
const leakAcquisitions = 16000

// TestNothingLeaks makes many acquisitions of random names and cancels half of the waits at random moments. Nothing may be left
// of any of them.
func TestNothingLeaks(t *testing.T) { // it counts the resources of the whole process
	n := leakAcquisitions
	if s := os.Getenv("RLOCK_LEAKS"); s != "" {
		n = testkit.Must(strconv.Atoi(s))
	}
	s := newLeakSite(t)
	s.run(leakAcquisitions / 4) // opens the connections and fills the caches
	after := s.rest()
	t.Logf("warm, after %6d acquisitions: %v", leakAcquisitions/4, after)
	// A map keeps the size that it had in its busiest second, so the heap may grow once or twice. A leak grows each time.
	for round, grown := 0, true; grown; round++ {
		require.Less(t, round, 4, "the heap grows by more than 1 MiB each time")
		before := after
		s.run(n)
		after = s.rest()
		t.Logf("then, after %6d acquisitions: %v", n, after)
		grown = after.heap > before.heap+1<<20
	}
	require.LessOrEqual(t, after.sockets, 2*(sitePool+connect.Shared+1)+1, "each client has a pool and a subscription, the test one connection")
	if n > leakAcquisitions {
		redistest.EventuallyWithin(t, 3*time.Minute, "the tombstones in Redis have expired too", func() bool {
			return s.keys().tombstones == 0
		})
	}
	require.NoError(t, s.holder.Close())
	require.NoError(t, s.waiter.Close())
	testkit.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= s.goroutines })
	testkit.Eventually(t, "only the connections of the test and of the pools are left", func() bool { return s.sockets() <= 2*(sitePool+connect.Shared)+1 })
}

const (
	siteWorkers = 16
	sitePool    = 8
)

// leakSite makes acquisitions with two clients: one holds a lock while the other waits for it.
type leakSite struct {
	*testing.T
	admin          *redis.Client
	holder, waiter *rlock.Client
	goroutines     int // before the clients started
}

func newLeakSite(t *testing.T) *leakSite {
	t.Helper()
	server := redistest.Start(t)
	s := &leakSite{T: t, admin: redistest.Open(t, &redis.Options{Addr: server.Addr, PoolSize: 1})}
	require.NoError(t, s.admin.Ping(t.Context()).Err())
	s.goroutines = runtime.NumGoroutine()
	client := func() *rlock.Client {
		return testkit.NewClient(t, redistest.Open(t, &redis.Options{
			Addr: server.Addr, PoolSize: sitePool,
			// It would have a goroutine until go-redis connects, which it does not with another driver.
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}))
	}
	s.holder, s.waiter = client(), client()
	return s
}

// run makes n acquisitions.
func (s *leakSite) run(n int) {
	s.Helper()
	var left atomic.Int64
	left.Store(int64(n) / 2)
	var wg sync.WaitGroup
	for range siteWorkers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := s.turn(n); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// turn takes a lock, lets the other client wait for it, and cancels half of these waits.
func (s *leakSite) turn(names int) error {
	kind := []string{"lock", "fenced", "spin", "fair", "write", "read", "fenced fair", "fenced write"}[rand.IntN(8)]
	name := fmt.Sprintf("%s:%d", kind, rand.IntN(names))
	held, lock := testkit.Kinds[kind].Make(s.holder, name), testkit.Kinds[kind].Make(s.waiter, name)
	if testkit.Kinds[kind].Rival != nil {
		held = testkit.Kinds[kind].Rival(s.holder, name)
	}
	ctx := context.Background()
	hold, err := held.Acquire(ctx)
	if err != nil {
		return err
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := testkit.Async(func() error { return lock.Lock(wait) })
	<-time.After(rand.N(2 * time.Millisecond))
	if rand.IntN(2) == 0 {
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			return fmt.Errorf("a cancelled wait for %s: %w", name, err)
		}
		return hold.Unlock(ctx)
	}
	if err := hold.Unlock(ctx); err != nil {
		return err
	}
	if err := <-waiting; err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// remains counts the resources that are in use while nobody locks.
type remains struct {
	goroutines, sockets int
	heap                uint64
	keys                keysLeft
}

func (r remains) String() string {
	return fmt.Sprintf("%d goroutines, %d KiB of heap, %d connections, %d tombstones, %d tokens",
		r.goroutines, r.heap>>10, r.sockets, r.keys.tombstones, r.keys.tokens)
}

// rest waits until temporary state is gone and counts the remaining resources. No lock, waiter or channel may be among them.
func (s *leakSite) rest() (r remains) {
	s.Helper()
	testkit.Eventually(s, "the clients keep no state", func() bool { return testkit.Remains(s.holder)+testkit.Remains(s.waiter) == 0 })
	// Closing the connection would end the subscriptions too, so they must end before that.
	redistest.EventuallyWithin(s, 5*time.Second, "no channel is subscribed", func() bool {
		return len(s.admin.PubSubChannels(s.Context(), "*").Val()) == 0
	})
	// Each client has three goroutines: its watchdog, and a keeper and a reader of its subscriptions.
	testkit.Eventually(s, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= s.goroutines+2*3 })
	r.keys = s.keys()
	require.Zero(s, r.keys.others, "keys in Redis")
	runtime.GC()
	runtime.GC() // frees the memory that finalizers released
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.goroutines, r.heap, r.sockets = runtime.NumGoroutine()-s.goroutines, mem.HeapAlloc, s.sockets()
	return r
}

func (s *leakSite) sockets() int {
	return strings.Count(s.admin.ClientList(context.Background()).Val(), "\n")
}

// keysLeft counts the keys in Redis: tombstones, which expire, tokens, which stay forever, and others.
type keysLeft struct{ tombstones, tokens, others int }

func (s *leakSite) keys() (left keysLeft) {
	s.Helper()
	all := s.admin.Scan(s.Context(), 0, "*", 1000).Iterator()
	for all.Next(s.Context()) {
		switch key := all.Val(); {
		case strings.HasPrefix(key, "redisson_lock_token:"):
			left.tokens++
		case strings.HasPrefix(key, "redisson_unlock_latch:"):
			require.NotEqualValues(s, -1, s.admin.PTTL(s.Context(), key).Val(), "%s expires", key)
			left.tombstones++
		default:
			left.others++
		}
	}
	require.NoError(s, all.Err())
	return left
}
