package trouble

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestHandOverUnderFire has owners in two processes hammer one lock of each kind while replies are lost. It checks that at
// most one owner is inside at a time.
func TestHandOverUnderFire(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind string) {
		t.Helper()
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr)
		var locks []*rlock.Lock
		name := testkit.NewName()
		for range 2 {
			rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 250 * time.Millisecond})
			client := testkit.NewClient(t, rdb, rlock.WithLogger(testkit.Discard), tune.PollInterval(200*time.Millisecond))
			locks = append(locks, testkit.MakeLock(kind, client, name))
		}
		stop, over := make(chan struct{}), time.Now().Add(2*time.Second)
		var faulting, working sync.WaitGroup
		faulting.Go(func() {
			for n := 0; ; n++ {
				fault := testkit.Lossy["broken"]
				if n%5 == 0 {
					fault = testkit.Lossy["silent"]
				}
				select {
				case <-stop:
					return
				case <-fault(proxy, 1, testkit.Runs([]string{"handOver", "release", "acquire"}[n%3])).Met():
				}
				<-time.After(20 * time.Millisecond)
			}
		})
		var inside, served atomic.Int32
		for i := range 16 {
			working.Go(func() {
				for time.Now().Before(over) {
					ctx, cancel := context.WithCancel(t.Context())
					if i%4 == 0 {
						ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
					}
					hold, err := locks[i%2].Acquire(ctx)
					if err == nil {
						if inside.Add(1) != 1 && hold.Err() == nil {
							t.Error("two are inside")
						}
						served.Add(1)
						<-time.After(time.Millisecond)
						inside.Add(-1)
						err = hold.Unlock(t.Context())
					}
					cancel()
					if errors.Is(err, rlock.ErrLost) {
						t.Error(err)
					}
				}
			})
		}
		working.Wait()
		close(stop)
		faulting.Wait()
		require.Greater(t, int(served.Load()), 10)
		t.Logf("%d acquisitions", served.Load())
		testkit.Eventually(t, "the lock is free", func() bool {
			locked, err := locks[0].IsLocked(t.Context()) // the network is still slow
			return err == nil && !locked
		})
	})
}
