package client

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/goredis"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestCallsCountOnceOnABadNetwork: a fifth of the commands are executed and their replies are lost, and a fifth are delivered
// late, many of them after their callers have sent the call again or have given up. Each call that got a reply has counted
// once, and each other one once or never: the marks say which.
func TestCallsCountOnceOnABadNetwork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	redis.SetLogger(quiet{})
	const callers, calls, count = 12, 40, 1_000_000
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	direct := server.Client(t)
	rdb := redistest.Open(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: 150 * time.Millisecond})
	const timeout = 500 * time.Millisecond
	d, err := goredis.New(rdb, driver.Config{CommandTimeout: timeout})
	require.NoError(t, err)
	cfg := testConfig()
	cfg.Table.CommandTimeout = timeout
	c := New(cfg, d)
	t.Cleanup(c.Close)
	latch := wire.NewLatch(name, cfg.Table.ClientID)
	down := wire.Others["count down"]
	require.NoError(t, direct.ScriptLoad(t.Context(), down.Source).Err())
	require.NoError(t, direct.Set(t.Context(), name, count, 0).Err())

	counts := func(c redistest.Command) bool { return c[0] == "evalsha" && c[1] == down.Digest }
	proxy.DropReply(-1, func(c redistest.Command) bool { return counts(c) && rand.N(5) == 0 })
	ctx, stop := context.WithCancel(t.Context())
	var late sync.WaitGroup
	delivered := 0
	late.Go(func() {
		for ctx.Err() == nil {
			fault := proxy.HoldRequest(-1, func(c redistest.Command) bool { return counts(c) && rand.N(4) == 0 })
			timer := time.NewTimer(rand.N(2 * timeout)) // many of the calls are over by then
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			delivered += len(fault.Met())
			fault.Release()
		}
	})

	var answered sync.Map // what was left -> the call's number
	var unknown sync.Map  // the numbers of the other calls
	var all sync.WaitGroup
	call := func(atMost time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), atMost)
		defer cancel()
		number := c.table.Number()
		require.True(t, c.tasks.Begin())
		defer c.tasks.End()
		r := c.once(ctx, latch.CountDown(number), latch.Mark(number), &Wait{client: c, brief: true})
		if r.Err != nil {
			unknown.Store(number, true)
			return
		}
		_, twice := answered.LoadOrStore(r.N, number)
		require.False(t, twice, "two calls got the same answer")
	}
	for range callers {
		all.Go(func() {
			for range calls {
				call(20*time.Millisecond + rand.N(timeout))
			}
		})
	}
	all.Wait()
	stop()
	late.Wait()
	last := proxy.HoldRequest(-1, counts)
	for range callers {
		all.Go(func() { call(20 * time.Millisecond) })
	}
	all.Wait()
	redistest.Eventually(t, "the marks are over", func() bool { return c.tasks.Count() == 0 })

	marks, left := latchState(t, direct, cfg.Table.ClientID)
	executed, held := evalshas(t, direct), len(last.Met())
	require.Positive(t, held)
	last.Release()
	redistest.Eventually(t, "the last commands arrive", func() bool { return evalshas(t, direct) >= executed+held })
	after, leftAfter := latchState(t, direct, cfg.Table.ClientID)
	require.True(t, maps.Equal(marks, after), "no late command counts")
	require.Equal(t, left, leftAfter)
	replied := 0
	answered.Range(func(left, number any) bool {
		replied++
		mark, there := marks[fmt.Sprint(number)] // of a call that needed more than one command
		require.True(t, !there || strings.HasSuffix(mark, fmt.Sprintf(".0%d", left)), "call %v", number)
		return true
	})
	counted := replied
	unknown.Range(func(number, _ any) bool {
		if strings.Contains(marks[fmt.Sprint(number)], ".") {
			counted++
		}
		return true
	})
	require.Equal(t, count-counted, left)
	sent := proxy.Count(counts)
	lost := callers*(calls+1) - replied
	t.Logf("%d calls in %d commands: %d replied, %d unknown of which %d counted; %d delivered late; %d marks",
		callers*(calls+1), sent, replied, lost, counted-replied, delivered, len(marks))
	require.Greater(t, sent, callers*calls, "commands were sent again")
	require.Positive(t, lost)
	require.Greater(t, delivered, sent/20)
}

// latchState returns the marks of a client, and the count of the tests' latch.
func latchState(t *testing.T, rdb *redis.Client, clientID string) (marks map[string]string, left int) {
	t.Helper()
	marks, err := rdb.HGetAll(t.Context(), fmt.Sprintf("redisson_unlock_latch:{%s}:%s", name, clientID)).Result()
	require.NoError(t, err)
	left, err = rdb.Get(t.Context(), name).Int()
	require.NoError(t, err)
	return marks, left
}

// evalshas returns how many scripts Redis has run.
func evalshas(t *testing.T, rdb *redis.Client) (n int) {
	t.Helper()
	info := rdb.Info(t.Context(), "commandstats").Val()
	_, after, found := strings.Cut(info, "cmdstat_evalsha:calls=")
	require.True(t, found)
	_, err := fmt.Sscanf(after, "%d", &n)
	require.NoError(t, err)
	return n
}

// quiet discards the log lines of go-redis about connections that the test breaks.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
