package rlock_test

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
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// leakers is how many acquisitions TestNothingLeaks makes, unless RLOCK_LEAKS says how many: make leaks.
const leakers = 16000

// TestNothingLeaks makes many acquisitions over random names, half of whose waits are cancelled at random moments, and requires
// that nothing is left of them.
func TestNothingLeaks(t *testing.T) { //nolint:paralleltest // what it counts is the process's
	n := leakers
	if s := os.Getenv("RLOCK_LEAKS"); s != "" {
		n = must(strconv.Atoi(s))
	}
	s := newSite(t)
	s.run(leakers / 4) // until there are connections, and whatever is kept for use again
	warm := s.rest()
	s.run(n)
	after := s.rest()
	t.Logf("warm, after %6d acquisitions: %v", leakers/4, warm)
	t.Logf("then, after %6d acquisitions: %v", n, after)
	require.Less(t, after.heap, warm.heap+2<<20, "the heap may have grown by 2 MiB, whatever the number of acquisitions")
	require.LessOrEqual(t, after.sockets, 2*(sitePool+1)+1, "a pool and a subscription for each client, and ours")
	if n > leakers {
		redistest.EventuallyWithin(t, 3*time.Minute, "Redis has forgotten the abandoned numbers too", func() bool {
			return s.keys().abandoned == 0
		})
	}
	require.NoError(t, s.holder.Close())
	require.NoError(t, s.waiter.Close())
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= s.goroutines })
	eventually(t, "no connection but ours and those of the pools is left", func() bool { return s.sockets() <= 2*sitePool+1 })
}

const (
	siteWorkers = 16
	sitePool    = 8
)

// site is where the acquisitions are made: by two clients, of which the one has what the other waits for.
type site struct {
	*testing.T
	admin          *redis.Client
	holder, waiter *rlock.Client
	goroutines     int // before there was a client
}

func newSite(t *testing.T) *site {
	t.Helper()
	server := redistest.Start(t)
	s := &site{T: t, admin: redistest.Open(t, &redis.Options{Addr: server.Addr, PoolSize: 1})}
	require.NoError(t, s.admin.Ping(t.Context()).Err())
	s.goroutines = runtime.NumGoroutine()
	client := func() *rlock.Client {
		return newClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr, PoolSize: sitePool}))
	}
	s.holder, s.waiter = client(), client()
	return s
}

// run makes n acquisitions.
func (s *site) run(n int) {
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

// turn takes a lock and has the other client wait for it, in vain or not.
func (s *site) turn(names int) error {
	kind := []string{"lock", "fenced", "spin", "fair", "write", "read"}[rand.IntN(6)]
	name := fmt.Sprintf("%s:%d", kind, rand.IntN(names))
	held, lock := kinds[kind].make(s.holder, name), kinds[kind].make(s.waiter, name)
	if kinds[kind].rival != nil {
		held = kinds[kind].rival(s.holder, name)
	}
	ctx := context.Background()
	hold, err := held.Acquire(ctx)
	if err != nil {
		return err
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := async(func() error { return lock.Lock(wait) })
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

// remains is what there is when nobody locks.
type remains struct {
	goroutines, sockets int
	heap                uint64
	keys                keysLeft
}

func (r remains) String() string {
	return fmt.Sprintf("%d goroutines, %d KiB of heap, %d connections, %d abandoned numbers, %d tokens",
		r.goroutines, r.heap>>10, r.sockets, r.keys.abandoned, r.keys.tokens)
}

// rest waits until what is kept for a while is gone, and returns what remains. No lock, no waiter and no channel does.
func (s *site) rest() (r remains) {
	s.Helper()
	eventually(s, "the clients remember nothing", func() bool { return s.holder.Remains()+s.waiter.Remains() == 0 })
	// Sooner than the connection would be closed, and them with it.
	redistest.EventuallyWithin(s, 5*time.Second, "no channel is subscribed", func() bool {
		return len(s.admin.PubSubChannels(s.Context(), "*").Val()) == 0
	})
	// Each client has its watchdog, and a keeper and a reader of its subscriptions.
	eventually(s, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= s.goroutines+2*3 })
	r.keys = s.keys()
	require.Zero(s, r.keys.others, "keys in Redis")
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.goroutines, r.heap, r.sockets = runtime.NumGoroutine()-s.goroutines, mem.HeapAlloc, s.sockets()
	return r
}

func (s *site) sockets() int {
	return strings.Count(s.admin.ClientList(context.Background()).Val(), "\n")
}

// keysLeft counts the keys in Redis: abandoned numbers, which go by themselves, tokens, which stay for good, and others.
type keysLeft struct{ abandoned, tokens, others int }

func (s *site) keys() (left keysLeft) {
	s.Helper()
	all := s.admin.Scan(s.Context(), 0, "*", 1000).Iterator()
	for all.Next(s.Context()) {
		switch key := all.Val(); {
		case strings.HasPrefix(key, "redisson_lock_token:"):
			left.tokens++
		case strings.HasPrefix(key, "redisson_unlock_latch:"):
			require.NotEqualValues(s, -1, s.admin.PTTL(s.Context(), key).Val(), "%s goes by itself", key)
			left.abandoned++
		default:
			left.others++
		}
	}
	require.NoError(s, all.Err())
	return left
}
