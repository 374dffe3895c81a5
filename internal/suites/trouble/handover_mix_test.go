package trouble

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestHandOverMix has owners with one or two goroutines, in two processes, use and force locks of several kinds under the same
// names in every way. No owner may wait for long or hold a lock at the same time as another, and nothing may be left at the
// end.
func TestHandOverMix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	direct := server.Client(t)
	mk := func() *rlock.Client {
		return testkit.NewClient(t, server.Client(t), rlock.WithLogger(testkit.Discard), tune.PollInterval(time.Hour), rlock.WithWatchdogTimeout(time.Hour))
	}
	clients := []*rlock.Client{mk(), mk()}
	type group struct {
		kinds   []string
		clients int
		name    string
		c       contested
	}
	groups := []*group{
		{kinds: []string{"lock", "fenced"}, clients: 1},
		{kinds: []string{"lock", "fenced"}, clients: 2},
		{kinds: []string{"write", "read", "write"}, clients: 2},
		{kinds: []string{"write", "read", "fenced write"}, clients: 2},
		{kinds: []string{"write"}, clients: 2},
		{kinds: []string{"spin"}, clients: 2},
	}
	for _, g := range groups {
		g.name = testkit.NewName()
		g.c.kind, g.c.name = strings.Join(g.kinds, ", "), g.name
	}
	var turns, longest atomic.Int64
	stop := time.Now().Add(time.Second / 2)
	var wg sync.WaitGroup
	for gi, g := range groups {
		for i := range 6 {
			shared := rlock.WithOwner(context.Background()) // of two goroutines
			for half := range 2 {
				wg.Go(func() {
					random := rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))
					for time.Now().Before(stop) {
						kind := g.kinds[random.IntN(len(g.kinds))]
						lock := testkit.MakeLock(kind, clients[i%g.clients], g.name)
						ctx, cancel := context.Background(), context.CancelFunc(func() {})
						if i%2 == 0 {
							ctx = shared
						}
						switch random.IntN(4) {
						case 0:
							ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(3000))*time.Microsecond)
						case 1:
							ctx, cancel = context.WithCancel(ctx)
							time.AfterFunc(time.Duration(random.IntN(3000))*time.Microsecond, cancel)
						}
						var opts []rlock.AcquireOption
						switch random.IntN(8) {
						case 0:
							opts = append(opts, rlock.Wait(time.Duration(random.IntN(2000))*time.Microsecond))
						case 1:
							opts = append(opts, rlock.Lease(time.Duration(20+random.IntN(20))*time.Millisecond))
						}
						if random.IntN(150) == 0 && kind != "spin" {
							g.c.force(lock)
						}
						start := time.Now()
						over := time.AfterFunc(testkit.ALongTime, func() {
							f, _ := direct.HGetAll(context.Background(), g.name).Result()
							t.Errorf("group %d, %s: has waited for too long; %v half %d", gi, kind, f, half)
						})
						entrance := g.c.entrance(testkit.Reads(lock))
						hold, err := lock.Acquire(ctx, opts...)
						over.Stop()
						took := time.Since(start)
						cancel()
						if err != nil {
							// A hold without a token is not re-entered.
							tokenless := errors.Is(err, rlock.ErrInvalidOption) && i%2 == 0 && testkit.Kinds[kind].Tokens
							slow := strings.Contains(err.Error(), "no answer") || strings.Contains(err.Error(), "too late")
							if !tokenless && !slow && !slices.ContainsFunc([]error{
								rlock.ErrNotAcquired, rlock.ErrLost, rlock.ErrUpgrade, context.Canceled, context.DeadlineExceeded,
							}, func(expected error) bool { return errors.Is(err, expected) }) {
								t.Errorf("%s: %v", kind, err)
							}
							continue
						}
						longest.Store(max(longest.Load(), int64(took)))
						turns.Add(1)
						if i%2 == 1 { // different owners exclude each other
							g.c.enters(t, hold, entrance)
							<-time.After(time.Duration(random.IntN(1000)) * time.Microsecond)
							g.c.holders.Delete(hold)
						}
						if err := hold.Unlock(ctx); err != nil && !errors.Is(err, rlock.ErrLost) {
							t.Errorf("unlock: %v", err)
						}
					}
				})
			}
		}
	}
	wg.Wait()
	t.Logf("%d acquisitions, longest wait %v", turns.Load(), time.Duration(longest.Load()))
	for _, c := range clients {
		testkit.Eventually(t, "nothing is left", func() bool { return testkit.Remains(c) == 0 })
	}
	for _, g := range groups {
		for _, kind := range g.kinds {
			lock := testkit.MakeLock(kind, clients[0], g.name)
			require.False(t, testkit.LeftIn(t, direct, testkit.Keys(lock)), kind)
		}
	}
}
