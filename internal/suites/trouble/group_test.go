package trouble

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// The command timeout of these tests is 5 s, so a member is silent for 1 s before that is an outage. A call that waits for
// the command timeout is too late.
const (
	silence = time.Second
	tooLate = 4 * time.Second
)

// groupsOf returns a multi lock and a red lock of the same name on three masters.
func groupsOf(m *testkit.Masters, opts ...rlock.Option) map[string]handles.Any {
	m.Helper()
	opts = append([]rlock.Option{rlock.WithLogger(testkit.Discard)}, opts...)
	red, members := m.LockOf(m.Clients(redis.Options{MaxRetries: -1}, opts...))
	multi := rlock.NewMultiLock(members[0], members[1], members[2])
	for _, lock := range []handles.Any{red, multi} { // connects, and loads the scripts
		require.NoError(m, testkit.Must(lock.Acquire(m.Context())).Unlock(m.Context()))
	}
	return map[string]handles.Any{"multi": multi, "red": red}
}

func TestASilentMemberIsAnOutageAndTheCallIsBounded(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	groups := groupsOf(m)
	for what, lock := range groups {
		for _, server := range m.Servers[1:] {
			server.Pause()
		}
		class := func(err error, how string) {
			t.Helper()
			require.ErrorIs(t, err, rlock.ErrUnavailable, "%s, %s", what, how)
			require.NotErrorIs(t, err, rlock.ErrNotAcquired, "%s, %s", what, how)
		}
		// A member that is still held by the call before would refuse the next call.
		released := func() {
			t.Helper()
			testkit.Eventually(t, "the member that answers is released", func() bool {
				n, err := m.Direct[0].Exists(t.Context(), m.LockName).Result()
				return err == nil && n == 0
			})
		}
		passed := redistest.Stopwatch(t)
		class(testkit.Second(lock.Acquire(t.Context(), rlock.Wait(300*time.Millisecond))), "a short wait")
		require.Less(t, passed(), tooLate, what)

		released()
		passed = redistest.Stopwatch(t)
		_, err := lock.TryAcquire(t.Context())
		class(err, "one attempt")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, passed(), tooLate, what)

		released()
		ctx, cancel := context.WithTimeout(t.Context(), silence/2)
		_, err = lock.Acquire(ctx)
		cancel()
		class(err, "a deadline")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		released()
		because := errors.New("because")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(silence/20, func() { stop(because) })
		_, err = lock.Acquire(ctx)
		require.ErrorIs(t, err, because)
		require.NotErrorIs(t, err, rlock.ErrUnavailable, "%s: a client that hangs up is no outage", what)
		require.NotErrorIs(t, err, rlock.ErrNotAcquired, what)

		for _, server := range m.Servers[1:] {
			server.Resume()
		}
		testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
	}
}

func TestUnlockWaitsForNoLostMember(t *testing.T) {
	t.Parallel()
	m := testkit.NewMasters(t)
	lock := groupsOf(m, rlock.WithWatchdogTimeout(time.Second))["multi"]
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	m.Servers[2].Pause()
	testkit.Within(t, "the member that hangs is lost", hold.Done())
	require.Equal(t, [2]bool{true, true}, held(m))
	passed := redistest.Stopwatch(t)
	err = hold.Unlock(t.Context())
	require.Less(t, passed(), tooLate)
	require.ErrorIs(t, err, rlock.ErrLost)
	require.NotErrorIs(t, err, rlock.ErrUnavailable)
	require.Equal(t, [2]bool{}, held(m), "the others are released first")
	m.Servers[2].Resume()
	testkit.Eventually(t, "nothing is left", func() bool { return m.Has() == [3]bool{} })
}

// held reports which of the first two servers have the lock.
func held(m *testkit.Masters) (held [2]bool) {
	m.Helper()
	for i := range held {
		held[i] = testkit.Must(m.Direct[i].Exists(m.Context(), m.LockName).Result()) == 1
	}
	return held
}
