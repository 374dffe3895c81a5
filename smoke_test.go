package rlock

import (
	"context"
	"testing"
	"time"
	"fmt"
	"sync"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/stretchr/testify/require"
	"github.com/redis/go-redis/v9"
)

func TestSmoke(t *testing.T) {
	for name, rdb := range map[string]func() redisU{"mini": func() redisU { return redistest.Embedded(t) }, "real": func() redisU { return redistest.Start(t).Client(t) }} {
		t.Run(name, func(t *testing.T) {
			c, err := New(rdb())
			require.NoError(t, err)
			defer c.Close()
			ctx := context.Background()
			l := c.NewLock("x")
			require.NoError(t, l.Lock(ctx))
			ok, err := l.TryLock(ctx)
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, l.Unlock(ctx))
			require.ErrorIs(t, l.Unlock(ctx), ErrNotHeld)
			var wg sync.WaitGroup
			n := 0
			start := time.Now()
			for range 32 {
				wg.Go(func() {
					for range 50 {
						if err := l.Lock(ctx); err != nil { t.Error(err); return }
						n++
						if err := l.Unlock(ctx); err != nil { t.Error(err); return }
					}
				})
			}
			wg.Wait()
			fmt.Println(name, n, time.Since(start))
			err = l.Do(ctx, func(ctx context.Context) error {
				if err := l.Lock(ctx); err != nil { return err }
				n, err := l.HoldCount(ctx)
				fmt.Println("count", n, err)
				return l.Unlock(ctx)
			}, Lease(time.Second))
			require.NoError(t, err)
			ok, err = l.IsLocked(ctx)
			require.NoError(t, err)
			require.False(t, ok)
		})
	}
}
type redisU = redis.UniversalClient
