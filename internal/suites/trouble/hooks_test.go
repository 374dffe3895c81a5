package trouble

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// Neither lost replies nor the hooks of the redis client keep a connection for longer than the command timeout.
func TestASilentServerGivesConnectionsBack(t *testing.T) {
	t.Parallel()
	connect.NeedsGoRedis(t)
	const timeout, lease = 300 * time.Millisecond, 12 * time.Second
	for what, opts := range map[string][]rlock.Option{"alone": {rlock.WithoutAutoPipeline()}, "gathered": {tune.Crowd(0)}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr)
			rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: -1, PoolSize: 20, MaxActiveConns: 20})
			hook := &testkit.Tally{}
			rdb.AddHook(hook)
			client := testkit.NewClient(t, rdb, append(opts, rlock.WithLogger(testkit.Discard),
				rlock.WithCommandTimeout(timeout), rlock.WithWatchdogTimeout(lease))...)
			var holds []*rlock.Hold
			for range 5 {
				holds = append(holds, testkit.Must(client.NewLock(testkit.NewName()).Acquire(t.Context())))
			}
			lost := proxy.SwallowReply(-1, func(redistest.Command) bool { return true })
			var calls sync.WaitGroup
			for range 40 {
				calls.Go(func() {
					if _, err := client.NewLock(testkit.NewName()).TryLock(context.Background()); err == nil {
						t.Error("a black hole has granted a lock")
					}
				})
			}
			testkit.Within(t, "every call returns", testkit.Async(func() error { calls.Wait(); return nil }))
			testkit.Eventually(t, "renewals are sent in vain", func() bool { return client.Stats().RenewalFailures > 0 })
			lost.Release() // for new connections; the silent ones stay silent
			back := time.Now()
			for _, hold := range holds {
				testkit.Eventually(t, "each hold is renewed", func() bool { return hold.Deadline().After(back.Add(lease)) })
				require.NoError(t, hold.Unlock(t.Context()), "each hold outlives the outage")
			}
			testkit.Eventually(t, "every connection comes back", func() bool { return busy(rdb) == 0 })
			sent := 40
			if what == "gathered" {
				sent = 1 // a call that leaves the queue is never sent
			}
			require.GreaterOrEqual(t, hook.Scripts(), int64(len(holds)+sent+len(holds)+len(holds)), "the hook saw acquisitions, renewals and releases")
		})
	}
}

// busy returns how many connections are in use.
func busy(rdb *redis.Client) int {
	stats := rdb.PoolStats()
	return int(stats.TotalConns) - int(stats.IdleConns)
}
