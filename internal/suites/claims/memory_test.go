package claims

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

type requestKey struct{}

// TestAHoldThatIsOverKeepsNoContext has a client wait in the line, and drop the context with which it did. The client remembers
// who stood in the line, but a context may have a whole request in it.
func TestAHoldThatIsOverKeepsNoContext(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lock", "fair", "write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, name := redistest.Start(t), testkit.NewName()
			first := testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), name)
			next := testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), name)
			hold := testkit.Must(first.Acquire(t.Context()))
			over := make(chan error, 1)
			seen := waitWithARequest(t.Context(), func(ctx context.Context) {
				over <- next.Do(ctx, func(context.Context) error { return nil })
			})
			testkit.Eventually(t, "it waits", func() bool { return testkit.Waiting(next) == 1 })
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "it has had the lock", over))
			testkit.Eventually(t, "nobody has the request", func() bool {
				runtime.GC()
				return seen.Value() == nil
			})
		})
	}
}

// waitWithARequest runs a function on a goroutine, with a context that has a request, and returns a weak pointer to that.
func waitWithARequest(ctx context.Context, wait func(context.Context)) weak.Pointer[[1 << 20]byte] {
	request := new([1 << 20]byte)
	go wait(context.WithValue(ctx, requestKey{}, request))
	return weak.Make(request)
}

// TestAllocationsOfAPair locks and unlocks with a handle that is made for one use, as for a request. The floor of go-redis, two
// scripts without a lock, is 14.
func TestAllocationsOfAPair(t *testing.T) { // not parallel: it counts allocations
	redistest.NeedsRealServer(t, "the allocations of one process")
	locks := testkit.NewClient(t, redistest.Start(t).Client(t))
	names := make([]string, 2000)
	for i := range names {
		names[i] = testkit.NewName()
	}
	ending, cancel := context.WithCancel(t.Context())
	defer cancel()
	for what, c := range map[string]struct {
		ctx  context.Context
		most float64
	}{
		"plain context":        {context.Background(), 25},
		"context that can end": {ending, 27},
	} {
		i := 0
		pair := func() {
			lock := locks.NewLock(names[i%len(names)])
			i++
			if lock.Lock(c.ctx) != nil || lock.Unlock(c.ctx) != nil {
				t.Error("it is free")
			}
		}
		for range 300 { // leaves the numbers that Go boxes for nothing behind, and starts a worker
			pair()
		}
		// The collector counts, too, when it clears away what earlier tests left: the least of three is what a pair takes.
		got := min(testing.AllocsPerRun(1000, pair), testing.AllocsPerRun(1000, pair), testing.AllocsPerRun(1000, pair))
		t.Log(what, got)
		require.LessOrEqual(t, got, c.most, what)
	}
}
