package claims

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestForceUnlockFromFreesOnlyTheseHolders of every kind: the next holder keeps its lock, and a waiter is woken.
func TestForceUnlockFromFreesOnlyTheseHolders(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for kind, k := range testkit.Kinds {
			if k.Groups {
				continue
			}
			t.Run(kind, func(t *testing.T) {
				client, operator := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
				lock := testkit.MakeLock(kind, client, testkit.NewName())
				asked := testkit.MakeLock(kind, operator, lock.Name())
				require.False(t, testkit.Must(asked.ForceUnlockFrom(t.Context(), client.ID()+":1")), "nobody holds it")
				first := testkit.Must(lock.Acquire(t.Context()))
				shown := holders(t, asked)
				require.NoError(t, first.Unlock(t.Context()))
				second := testkit.Must(lock.Acquire(t.Context()))
				require.False(t, testkit.Must(asked.ForceUnlockFrom(t.Context(), shown...)), "another owner holds it")
				require.NoError(t, second.Extend(t.Context(), time.Minute), "it still does")

				rival := testkit.NewClient(t, rdb, tune.PollInterval(time.Hour))
				writes := testkit.MakeLock(kind, rival, lock.Name())
				if kind == "read" {
					writes = rival.NewRWLock(lock.Name()).Writer()
				}
				waiting := testkit.Async(func() error {
					return writes.Do(t.Context(), func(context.Context) error { return nil })
				})
				testkit.Eventually(t, "a waiter waits", func() bool { return rival.Stats().Waiting == 1 })
				require.True(t, testkit.Must(asked.ForceUnlockFrom(t.Context(), append(shown, holders(t, asked)...)...)))
				require.NoError(t, testkit.Within(t, "the waiter is woken", waiting))
				require.ErrorIs(t, second.Extend(t.Context(), time.Minute), rlock.ErrLost)
				require.ErrorIs(t, second.Unlock(t.Context()), rlock.ErrLost)
			})
		}
	})
}

// TestForceUnlockFromReaders frees no reader that was not shown, and all if some have left since.
func TestForceUnlockFromReaders(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		lock := testkit.NewClient(t, rdb).NewRWLock(testkit.NewName())
		leaves := testkit.Must(lock.Reader().Acquire(t.Context()))
		stays := testkit.Must(lock.Reader().Acquire(t.Context()))
		shown := holders(t, lock.Writer())
		require.Len(t, shown, 2)
		for _, some := range shown {
			require.False(t, testkit.Must(lock.Reader().ForceUnlockFrom(t.Context(), some)))
		}
		require.False(t, testkit.Must(lock.Writer().ForceUnlockFrom(t.Context(), shown...)), "nobody writes")
		require.NoError(t, leaves.Unlock(t.Context()))
		require.True(t, testkit.Must(lock.Reader().ForceUnlockFrom(t.Context(), shown...)))
		require.ErrorIs(t, stays.Unlock(t.Context()), rlock.ErrLost)
	})
}

func TestForceUnlockFromRefusesBadHolders(t *testing.T) {
	t.Parallel()
	lock := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: "127.0.0.1:1"})).NewLock("name")
	for _, holders := range [][]string{nil, {""}, {"mode"}, {"a:1", "b\nc"}, strings.Split(strings.Repeat("a", 101), "")} {
		_, err := lock.ForceUnlockFrom(t.Context(), holders...)
		require.ErrorIs(t, err, rlock.ErrInvalidOption, "%q", holders)
	}
	_, err := (*rlock.Lock)(nil).ForceUnlockFrom(t.Context(), "a:1")
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
}

// holders returns the holders of a lock, as Inspect shows them.
func holders(t *testing.T, lock *rlock.Lock) (fields []string) {
	t.Helper()
	for _, h := range testkit.Must(lock.Inspect(t.Context())).Holders {
		fields = append(fields, h.Holder)
	}
	return fields
}
