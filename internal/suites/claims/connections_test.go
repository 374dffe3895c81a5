package claims

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAProcessNeedsItsPoolAndOneConnection counts the connections of a process whose goroutines contend for several names.
func TestAProcessNeedsItsPoolAndOneConnection(t *testing.T) {
	for _, pool := range []int{1, 4} {
		t.Run(fmt.Sprint(pool), func(t *testing.T) {
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr)
			c := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: proxy.Addr, PoolSize: pool}))
			other := testkit.NewClient(t, server.Client(t)).NewLock("name 0")
			require.NoError(t, other.Lock(t.Context()))
			var wg sync.WaitGroup
			for i := range 64 {
				lock := c.NewLock(fmt.Sprint("name ", i%8))
				wg.Go(func() {
					if err := lock.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			testkit.Eventually(t, "some wait", func() bool { return c.Stats().Waiting > 0 })
			require.NoError(t, other.Unlock(t.Context()))
			wg.Wait()
			require.LessOrEqual(t, proxy.Opened(), pool+1)
		})
	}
}
