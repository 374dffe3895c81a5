package claims

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestEveryKindOfReleaseServesTheLine has a waiter of each kind behind a holder of each kind that excludes it. No poll wakes it.
func TestEveryKindOfReleaseServesTheLine(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][2]string{
		{"lock", "fenced"},
		{"fenced", "lock"},
		{"spin", "lock"},
		{"spin", "fenced"},
		{"write", "fenced write"},
		{"fenced write", "write"},
		{"read", "write"},
		{"read", "fenced write"},
		{"write", "read"},
		{"fair", "fenced fair"},
		{"fenced fair", "fair"},
	} {
		t.Run(kinds[0]+" before "+kinds[1], func(t *testing.T) {
			t.Parallel()
			server, name := redistest.Start(t), testkit.NewName()
			rdb := server.Client(t)
			holder := testkit.MakeLock(kinds[0], testkit.NewClient(t, server.Client(t)), name)
			hold := testkit.Must(holder.Acquire(t.Context(), rlock.Lease(testkit.Never)))
			waiter := testkit.MakeLock(kinds[1], testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)), name)
			got := testkit.Async(func() error { return waiter.Lock(t.Context()) })
			if strings.Contains(kinds[1], "fair") {
				awaitQueued(t, rdb, waiter, 1)
			} else {
				testkit.AwaitSleepers(t, rdb, 3, waiter) // it asks again after it subscribed
			}
			passed := redistest.Stopwatch(t)
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "the waiter has the lock", got))
			require.Less(t, passed(), slack)
			require.NoError(t, waiter.Unlock(t.Context()))
		})
	}
}

// TestADowngradeLeavesTheLineToTheReaders has a writer keep its read lock when it releases the write lock. The next writer has its
// turn when the last of the readers leaves.
func TestADowngradeLeavesTheLineToTheReaders(t *testing.T) {
	t.Parallel()
	server, name := redistest.Start(t), testkit.NewName()
	rdb := server.Client(t)
	open := func() *rlock.RWLock {
		return testkit.NewClient(t, server.Client(t), tune.PollInterval(testkit.Never)).NewRWLock(name)
	}
	first, second, third := open(), open(), open()
	owner := rlock.WithOwner(t.Context())
	require.NoError(t, first.Writer().Lock(owner))
	require.NoError(t, first.Reader().Lock(owner))
	writing := testkit.Async(func() error { return second.Writer().Lock(t.Context()) })
	testkit.AwaitSleepers(t, rdb, 4, second.Writer())
	reading := testkit.Async(func() error { return third.Reader().Lock(t.Context()) })
	testkit.AwaitSleepers(t, rdb, 6, third.Reader())
	require.NoError(t, first.Writer().Unlock(owner))
	require.NoError(t, testkit.Within(t, "the reader joins the first", reading))
	require.NoError(t, first.Reader().Unlock(owner))
	require.Empty(t, writing)
	require.NoError(t, third.Reader().Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the writer has the lock", writing))
	require.NoError(t, second.Writer().Unlock(t.Context()))
}
