package claims

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// pipelines is a hook for the pipelines of a redis client. All pipelines of these tests are renewals, and each is a batch.
type pipelines struct {
	mu   sync.Mutex
	sent map[string]int       // the number of renewals sent for each name
	each func(names []string) // runs before a pipeline is sent
}

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			if name := cmd.Name(); name != "evalsha" && name != "eval" {
				return next(ctx, cmds) // the handshake of a connection
			}
			args := cmd.Args()
			for _, name := range args[3 : 3+args[2].(int)] {
				names = append(names, name.(string))
			}
		}
		h.mu.Lock()
		for _, name := range names {
			h.sent[name]++
		}
		h.mu.Unlock()
		h.each(names)
		return next(ctx, cmds)
	}
}

func (h *pipelines) count(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent[name]
}

func (h *pipelines) total() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, sent := range h.sent {
		n += sent
	}
	return n
}

// holdMany acquires n locks. The function each runs before a batch of renewals is sent. Tests that use holdMany do not run in
// parallel, because the load would disturb tests with short leases.
func holdMany(t *testing.T, n int, timeout time.Duration, each func(names []string)) (*pipelines, []*rlock.Lock, []*rlock.Hold) {
	t.Helper()
	connect.NeedsGoRedis(t)
	h := &pipelines{sent: make(map[string]int), each: each}
	rdb := redistest.Start(t).Client(t)
	rdb.AddHook(h)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(timeout), rlock.WithoutAutoPipeline()) // renewals only
	locks, holds := make([]*rlock.Lock, n), make([]*rlock.Hold, n)
	var wg sync.WaitGroup
	const workers = 8
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				locks[i] = client.NewLock(fmt.Sprintf("held:%d", i))
				var err error
				if holds[i], err = locks[i].Acquire(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	return h, locks, holds
}

// renewedAll waits until each hold is renewed once more, and fails the test if one is lost.
func renewedAll(t *testing.T, holds []*rlock.Hold) {
	t.Helper()
	before := make([]time.Time, len(holds))
	for i, hold := range holds {
		before[i] = hold.Deadline()
	}
	for i, hold := range holds {
		testkit.Eventually(t, "each hold is renewed", func() bool { return hold.Deadline().After(before[i]) || hold.Err() != nil })
		require.NoError(t, hold.Err())
	}
}

// The server needs most of the renewal interval for one round. It keeps up only if no renewal is sent twice in a round. In
// addition, each batch must count its leases from its own sending, not from the start of the round.
func TestASlowServerGetsNoDuplicateRenewals(t *testing.T) { // see holdMany
	const n, timeout = 5000, 9 * time.Second
	var busy sync.Mutex
	h, _, holds := holdMany(t, n, timeout, func(names []string) {
		busy.Lock()
		defer busy.Unlock()
		<-time.After(time.Duration(len(names)) * 450 * time.Microsecond) // 2.25 s per round, one round every 3 s
	})
	const rounds = 2
	for range rounds {
		renewedAll(t, holds)
	}
	t.Logf("%.2f renewals sent for each lock", float64(h.total())/n)
	require.LessOrEqual(t, h.total(), (2*rounds+1)*n, "rounds overlap, and a short stall of the machine costs one batch")
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(t.Context()))
	}
}

func TestAHungConnectionDelaysNoOtherRenewals(t *testing.T) { // see holdMany
	var hung atomic.Bool
	free := make(chan struct{})
	_, _, holds := holdMany(t, 3000, 4*time.Second, func([]string) {
		if hung.CompareAndSwap(false, true) {
			<-free
		}
	})
	defer close(free)
	renewedAll(t, holds)
}

func TestHoldsUnlockedBeforeTheirTurnAreNotRenewed(t *testing.T) { // see holdMany
	var hung atomic.Bool
	met, free := make(chan []string), make(chan struct{})
	// The few that are unlocked are unlocked long before the first batch is tried again, after a tenth of the lease.
	h, locks, holds := holdMany(t, 1100, 9*time.Second, func(names []string) {
		if hung.CompareAndSwap(false, true) {
			met <- names
			<-free
		}
	})
	first := make(map[string]bool)
	for _, name := range testkit.Within(t, "the first batch is in flight", met) {
		first[name] = true
	}
	require.Less(t, len(first), len(locks))
	kept := ""
	unlocked := make(map[string]bool)
	for i, lock := range locks {
		switch {
		case first[lock.Name()]:
		case kept == "":
			kept = lock.Name()
		default:
			require.NoError(t, holds[i].Unlock(t.Context()))
			unlocked[lock.Name()] = h.count(lock.Name()) == 0
		}
	}
	close(free)
	testkit.Eventually(t, "the other holds are renewed", func() bool { return h.count(kept) > 0 })
	for name, waiting := range unlocked {
		if waiting {
			require.Zero(t, h.count(name), name)
		}
	}
}
