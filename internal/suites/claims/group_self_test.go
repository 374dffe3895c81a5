package claims

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// TestTheSameNameOnTwoServers is no mistake.
func TestTheSameNameOnTwoServers(t *testing.T) {
	t.Parallel()
	name := testkit.NewName()
	one, two := testkit.NewClient(t, redistest.Embedded(t)), testkit.NewClient(t, redistest.Embedded(t))
	for _, lock := range []*rlock.MultiLock{
		rlock.NewMultiLock(one.NewLock(name), two.NewLock(name)), rlock.NewMultiLock(one.NewLock(name), two.NewFairLock(name)),
	} {
		require.NoError(t, testkit.Must(lock.Acquire(t.Context(), rlock.Wait(testkit.ALongTime))).Unlock(t.Context()))
	}
}

// TestLocksOfTwoFamiliesAreNoGroup has one client give one name to locks that do not know each other, but are one key in Redis.
func TestLocksOfTwoFamiliesAreNoGroup(t *testing.T) {
	t.Parallel()
	client, name := testkit.NewClient(t, redistest.Embedded(t)), testkit.NewName()
	plain, fair, both := client.NewLock(name), client.NewFairLock(name), client.NewRWLock(name)
	for what, lock := range map[string]handles.Any{
		"plain and fair": rlock.NewMultiLock(plain, fair), "plain and write": rlock.NewMultiLock(both.Writer(), plain),
		"fair and read": rlock.NewMultiLock(fair, both.Reader()), "of a red lock": rlock.NewRedLock(plain, fair, client.NewLock(testkit.NewName())),
	} {
		_, err := lock.TryAcquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
		require.ErrorContains(t, err, "different families", what)
	}
	lock := rlock.NewMultiLock(plain, client.NewSpinLock(name), client.NewLock(testkit.NewName(), rlock.Fenced()))
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err, "locks of one family are one lock")
	require.NoError(t, hold.Unlock(t.Context()))
}
