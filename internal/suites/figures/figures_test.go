package figures

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

func TestAnUncontendedPairIsTwoCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	lock := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
	pair := func() {
		require.NoError(t, lock.Lock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	pair()
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	const n = 100
	for range n {
		pair()
	}
	calls := testkit.Stats(t, admin)
	require.Equal(t, 2*n, calls["evalsha"])
	// The acquire calls TIME, EXISTS for the lock and its line, HSET and PEXPIRE. The release calls TIME, HDEL, EXISTS and PUBLISH.
	require.Equal(t, map[string]int{
		"evalsha": 2 * n, "time": 2 * n, "exists": 2 * n, "hset": n, "pexpire": n, "hdel": n, "publish": n,
	}, without(calls, "info", "config", "config|resetstat"))
}

func TestScriptCallsOfAnUncontendedPair(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	const n = 50
	for kind, scripts := range map[string]int{
		"lock": 2, "fair": 2, "fenced": 2, "spin": 2, "read": 2, "write": 2, "fenced fair": 2, "fenced write": 2, // every single lock
		"multi": 2 * 2, "red": 2 * 3, // for each member
	} {
		lock := testkit.Kinds[kind].Make(testkit.NewClient(t, rdb), testkit.NewName())
		pair := func() {
			require.NoError(t, lock.Lock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
		}
		// Loading the scripts first keeps EVALSHA and EVAL from both counting for a first call.
		for _, source := range testkit.Sources() {
			require.NoError(t, admin.ScriptLoad(t.Context(), source).Err())
		}
		// A red lock may ask and release its last member a moment later. Until then that member refuses the next pair.
		asked := func(pairs int) map[string]int {
			var calls map[string]int
			testkit.Eventually(t, "all members of "+kind, func() bool {
				calls = testkit.Stats(t, admin)
				return calls["evalsha"]+calls["eval"] >= scripts*pairs
			})
			return calls
		}
		require.NoError(t, admin.ConfigResetStat(t.Context()).Err())

		var calls map[string]int
		for i := range n {
			pair()
			calls = asked(i + 1)
		}
		require.Equal(t, scripts*n, calls["evalsha"]+calls["eval"], kind)
		require.Zero(t, calls["subscribe"], kind)
	}
}

func without(calls map[string]int, names ...string) map[string]int {
	for _, name := range names {
		delete(calls, name)
	}
	return calls
}

func TestThirtyTwoWaitersAreCheapAndServedEvenly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := testkit.NewClient(t, rdb)
	lock := client.NewLock(testkit.NewName())
	const workers, rounds = 32, 10
	require.NoError(t, lock.Lock(t.Context()))
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	connected := testkit.Connections(t, admin)
	var wg sync.WaitGroup
	var mu sync.Mutex
	served := make([]int, workers)
	highest, total := 0, 0
	for i := range workers {
		wg.Go(func() {
			for {
				if err := lock.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served[i]++
				total++
				highest = max(highest, served[i])
				done := total >= workers*rounds
				mu.Unlock()
				<-time.After(2 * time.Millisecond)
				if err := lock.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				if done {
					return
				}
			}
		})
	}
	testkit.Eventually(t, "all wait", func() bool { return testkit.Waiting(lock) == workers })
	require.NoError(t, lock.Unlock(t.Context()))
	wg.Wait()
	calls := testkit.Stats(t, admin)
	commands := 0
	for name, n := range calls {
		if regexp.MustCompile(`^(eval|evalsha|.?subscribe|.?unsubscribe|ping)$`).MatchString(name) {
			commands += n
		}
	}
	opened := testkit.Connections(t, admin) - connected
	t.Logf("%.2f script calls and pub/sub commands, %.3f new connections per acquisition; served %d to %d times",
		float64(commands)/float64(total), float64(opened)/float64(total), slices.Min(served), highest)
	require.LessOrEqual(t, commands, 8*total)
	require.LessOrEqual(t, opened, 2+runtime.GOMAXPROCS(0)*10, "the pool and one subscription, independent of the acquisitions")
	require.LessOrEqual(t, highest, 2*slices.Min(served))
}

func TestTenThousandHoldsAreRenewedByOneGoroutine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(15*time.Second))
	const n = 10000
	goroutines := runtime.NumGoroutine()
	holds := make([]*rlock.Hold, n)
	for i := range holds {
		var err error
		holds[i], err = client.NewLock(fmt.Sprintf("held:%d", i)).Acquire(t.Context())
		require.NoError(t, err)
	}
	t.Logf("%d goroutines more than without the holds (other tests run in parallel)", runtime.NumGoroutine()-goroutines)
	awaitRenewals := func() {
		before := make([]time.Time, n)
		for i, hold := range holds {
			before[i] = hold.Deadline()
		}
		for i, hold := range holds {
			testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before[i]) })
		}
	}
	awaitRenewals() // by now the holds are renewed together, although they were not acquired together
	least := n
	for round := 0; round < 4 && least > 110; round++ { // on a loaded machine the rounds split for a while
		require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
		awaitRenewals()
		calls := testkit.Stats(t, admin)
		least = min(least, calls["evalsha"]+calls["eval"])
	}
	t.Logf("%d script calls for a round of renewals", least)
	require.LessOrEqual(t, least, 110)
	for _, hold := range holds {
		require.NoError(t, hold.Unlock(t.Context()))
	}
}

func figure(t *testing.T) {
	t.Helper()
	if os.Getenv("RLOCK_FIGURES") == "" {
		t.Skip("measures time: make figures")
	}
}

// TestFigureUncontendedPair compares Lock and Unlock with the minimum for a lock on Redis, which is two EVALSHA.
func TestFigureUncontendedPair(t *testing.T) {
	figure(t)
	ctx := context.Background()
	rdb := redistest.Start(t).Client(t)
	lock := testkit.NewClient(t, rdb).NewLock("figure:lock")
	acquire := rdb.ScriptLoad(ctx, `return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`).Val()
	release := rdb.ScriptLoad(ctx, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end`).Val()
	raw := func() {
		if err := rdb.EvalSha(ctx, acquire, []string{"figure:raw"}, "token", 30000).Err(); err != nil {
			t.Fatal(err)
		}
		if err := rdb.EvalSha(ctx, release, []string{"figure:raw"}, "token").Err(); err != nil {
			t.Fatal(err)
		}
	}
	pair := func(ctx context.Context) func() {
		return func() {
			if err := lock.Lock(ctx); err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancellable, cancel := context.WithCancel(ctx)
	defer cancel()
	runs := map[string]func(){"raw": raw, "plain context": pair(ctx), "cancellable context": pair(cancellable)}
	ratios := make(map[string][]float64)
	for range 9 {
		took := make(map[string]time.Duration)
		for name, run := range runs {
			run()
			start := time.Now()
			for range 3000 {
				run()
			}
			took[name] = time.Since(start) / 3000
		}
		for name := range runs {
			ratios[name] = append(ratios[name], float64(took[name])/float64(took["raw"]))
		}
		t.Logf("raw %v, plain context %v, cancellable context %v", took["raw"], took["plain context"], took["cancellable context"])
	}
	for name, r := range ratios {
		slices.Sort(r)
		t.Logf("%s: median of %d rounds %.2f of two raw EVALSHA", name, len(r), r[len(r)/2])
	}
	t.Logf("allocations: raw %.0f, plain context %.0f, cancellable context %.0f", testing.AllocsPerRun(1000, raw),
		testing.AllocsPerRun(1000, runs["plain context"]), testing.AllocsPerRun(1000, runs["cancellable context"]))
}

// TestFigureWakeUp measures the time from the call of Unlock to the acquisition by a waiter in another process.
func TestFigureWakeUp(t *testing.T) {
	figure(t)
	server := redistest.Start(t)
	rdb := server.Client(t)
	for _, kind := range []string{"lock", "fair", "write", "read"} {
		client := testkit.NewClient(t, rdb)
		name := testkit.NewName()
		lock := testkit.Kinds[kind].Make(client, name)
		if testkit.Kinds[kind].Rival != nil {
			lock = testkit.Kinds[kind].Rival(client, name)
		}
		waiter := testkit.StartChild(t, server.Addr, kind, name)
		var took []time.Duration
		for range 300 {
			require.NoError(t, lock.Lock(t.Context(), rlock.Lease(time.Minute)))
			tried := testkit.Stats(t, rdb)["evalsha"]
			waiter.Next()
			testkit.Eventually(t, "the waiter has tried and subscribed, and tries again", func() bool {
				return testkit.Stats(t, rdb)["evalsha"] >= tried+1 && len(rdb.PubSubChannels(t.Context(), "*"+name+"*").Val()) > 0
			})
			<-time.After(4 * time.Millisecond)
			start := time.Now()
			require.NoError(t, lock.Unlock(t.Context()))
			got, err := strconv.ParseInt(strings.TrimSpace(waiter.Answer()), 10, 64)
			require.NoError(t, err)
			took = append(took, time.Unix(0, got).Sub(start))
			waiter.Next()
			require.Equal(t, "unlocked", waiter.Answer())
		}
		slices.Sort(took)
		t.Logf("%s: unlock to acquisition in another process: p50 %v, p90 %v, p99 %v",
			kind, took[len(took)/2], took[len(took)*9/10], took[len(took)*99/100])
	}
}

// TestFigureRedLock measures acquisitions while members are slow or dead. One takes as long as the slowest member of the
// majority.
func TestFigureRedLock(t *testing.T) {
	figure(t)
	m := testkit.NewMasters(t)
	red, _ := m.Lock()
	measure := func(what string) {
		var took []time.Duration
		for range 15 {
			start := time.Now()
			hold := testkit.Must(red.Acquire(t.Context()))
			took = append(took, time.Since(start))
			require.NoError(t, hold.Unlock(t.Context()))
		}
		slices.Sort(took)
		t.Logf("%s: p50 %v, max %v", what, took[len(took)/2], took[len(took)-1])
	}
	measure("three members")
	m.Proxies[0].Delay(200 * time.Millisecond)
	measure("one of them delayed by 200 ms")
	m.Servers[1].Kill()
	measure("one delayed by 200 ms, one dead")
}

// TestFigureLateReturn measures the delay between the end of a context and the return of its call while Redis hangs.
func TestFigureLateReturn(t *testing.T) {
	figure(t)
	server := redistest.Start(t)
	lock := testkit.NewClient(t, server.Client(t)).NewLock("figure:late")
	require.NoError(t, testkit.Second(lock.TryLock(t.Context(), rlock.Lease(time.Second))))
	server.Pause()
	var mu sync.Mutex
	var late []time.Duration
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(100+i)*time.Millisecond)
			defer cancel()
			_ = lock.Lock(ctx)
			end, _ := ctx.Deadline()
			mu.Lock()
			late = append(late, time.Since(end))
			mu.Unlock()
		})
	}
	wg.Wait()
	server.Resume()
	slices.Sort(late)
	t.Logf("return after the context's end, Redis hanging: p50 %v, p99 %v, max %v",
		late[len(late)/2], late[len(late)*99/100], late[len(late)-1])
	_ = lock.Unlock(t.Context())
}
