package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAQuestionWithoutAReplyDoesNotWaitBehindOthers: Redis has given its permit to a call that does not know it yet. Another call of the process waits
// for that permit, so the first one must not wait for the second.
func TestAQuestionWithoutAReplyDoesNotWaitBehindOthers(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick(), rlock.WithCommandTimeout(500*time.Millisecond))
	name := testkit.NewName()
	require.True(t, testkit.Must(testkit.NewClient(t, f.Direct).NewSemaphore(name).TrySetPermits(t.Context(), 1)))
	job := func(context.Context) error { return nil }
	swallowed := f.Proxy.SwallowReply(1, testkit.Runs("acquire permits"))
	first := testkit.Async(func() error { return f.Client.NewSemaphore(name).Do(t.Context(), job) })
	testkit.Within(t, "Redis has replied to it", swallowed.Met())
	second := testkit.Async(func() error { return f.Client.NewSemaphore(name).Do(t.Context(), job) })
	require.NoError(t, testkit.Within(t, "the first one finds its permit", first))
	require.NoError(t, testkit.Within(t, "the second one has it then", second))
}

// TestAShutdownWaitsForAnUnlockUnderWay: the permit is back when Shutdown returns.
func TestAShutdownWaitsForAnUnlockUnderWay(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick())
	direct := testkit.NewClient(t, f.Direct).NewSemaphore(testkit.NewName(), rlock.Total(1))
	require.Equal(t, 1, testkit.Must(direct.AvailablePermits(t.Context())))
	hold := testkit.Must(f.Client.NewSemaphore(direct.Name()).Acquire(t.Context()))
	held := f.Proxy.HoldRequest(1, testkit.Runs("release permits"))
	unlocked := testkit.Async(func() error { return hold.Unlock(context.Background()) })
	testkit.Within(t, "the release is sent", held.Met())
	down := testkit.Async(func() error { return f.Client.Shutdown(t.Context()) })
	testkit.Eventually(t, "it shuts down", func() bool {
		_, err := direct.AvailablePermits(t.Context())
		return err == nil && f.Client.Stats().Held == 0
	})
	held.Release()
	require.NoError(t, testkit.Within(t, "it is down", down))
	require.Equal(t, 1, testkit.Must(direct.AvailablePermits(t.Context())))
	require.NoError(t, testkit.Within(t, "the unlock has succeeded", unlocked))
}
