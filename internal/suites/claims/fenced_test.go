package claims

import (
	"context"
	"fmt"
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

// sorts has the kinds with tokens, and for each the kinds without tokens that an owner may hold instead.
var sorts = map[string][]string{"fenced": {"lock", "spin"}, "fenced fair": {"fair"}, "fenced write": {"write"}}

// tokenKey returns the key that has the latest token of a lock.
func tokenKey(t *testing.T, lock *rlock.Lock) string {
	t.Helper()
	for _, key := range testkit.Keys(lock) {
		if strings.HasPrefix(key, "redisson_lock_token:") {
			return key
		}
	}
	t.Fatal("the lock has no tokens")
	return ""
}

// eachSort runs a test for each kind with tokens, on the embedded server and on a real one.
func eachSort(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient, kind string)) {
	t.Helper()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for kind := range sorts {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				test(t, rdb, kind)
			})
		}
	})
}

func TestAFencedHandleDoesNotReenterAHoldWithoutAToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, admin := server.Client(t), server.Client(t)
	client := testkit.NewClient(t, rdb, rlock.WithWatchdogTimeout(time.Hour))
	for kind, others := range sorts {
		for _, other := range others {
			bare := testkit.MakeLock(other, client, testkit.NewName())
			fenced := testkit.MakeLock(kind, client, bare.Name())
			what := other + ", then " + kind
			ctx := rlock.WithOwner(t.Context())
			hold := testkit.Must(bare.Acquire(ctx))
			require.Zero(t, hold.Token(), what)
			require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
			for _, ctx := range []context.Context{ctx, hold.Context()} {
				err := fenced.Lock(ctx)
				require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
				require.NotErrorIs(t, err, rlock.ErrNotAcquired)
				require.EqualError(t, err, fmt.Sprintf("rlock: lock %q: invalid option: this owner holds the lock without a fencing token", bare.Name()))
				ok, err := fenced.TryLock(ctx, rlock.Wait(time.Second))
				require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
				require.False(t, ok)
				require.ErrorIs(t, testkit.Second(fenced.Acquire(ctx)), rlock.ErrInvalidOption, what)
				require.ErrorIs(t, testkit.Second(fenced.TryAcquire(ctx)), rlock.ErrInvalidOption, what)
				require.ErrorIs(t, fenced.Do(ctx, func(context.Context) error {
					t.Error("runs without a token")
					return nil
				}), rlock.ErrInvalidOption, what)
			}
			require.Zero(t, testkit.Stats(t, admin)["evalsha"], "nothing is sent")
			require.NoError(t, hold.Err(), "the hold is unharmed")
			require.NoError(t, hold.Unlock(ctx))

			require.NoError(t, fenced.Lock(ctx), "the owner may begin with a token")
			outer := testkit.Must(fenced.Acquire(ctx))
			inner := testkit.Must(bare.Acquire(ctx))
			require.Positive(t, inner.Token(), "the hold keeps its token")
			require.Equal(t, outer.Token(), inner.Token())
			require.NoError(t, outer.Unlock(ctx))
			require.NoError(t, fenced.Lock(ctx), "the hold is still fenced")
			require.NoError(t, inner.Unlock(ctx))
			require.NoError(t, fenced.Unlock(ctx))
			require.NoError(t, fenced.Unlock(ctx))
		}
	}
}

// Another goroutine of the owner may acquire meanwhile, through a handle without tokens. A fenced handle that waits for it
// is refused then.
func TestAFencedHandleThatWaitedForItsOwnerIsRefused(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb, tune.PollInterval(testkit.Never))
	holder := testkit.NewClient(t, rdb).NewLock(testkit.NewName())
	bare, fenced := client.NewLock(holder.Name()), client.NewLock(holder.Name(), rlock.Fenced())
	ctx := rlock.WithOwner(t.Context())
	require.NoError(t, holder.Lock(t.Context()))
	first := testkit.Async(func() error { return bare.Lock(ctx) })
	testkit.Eventually(t, "the first goroutine waits", func() bool { return testkit.Listens(bare) })
	second := testkit.Async(func() error { return fenced.Lock(ctx) })
	testkit.Stays(t, "the second goroutine waits", func() bool { return len(second) == 0 })
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "the first goroutine has the lock", first))
	require.ErrorIs(t, testkit.Within(t, "the second goroutine is refused", second), rlock.ErrInvalidOption)
	require.NoError(t, bare.Unlock(ctx))
}

func TestReadHoldsHaveNoToken(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		rw := testkit.NewClient(t, rdb).NewRWLock(testkit.NewName(), rlock.Fenced())
		ctx := rlock.WithOwner(t.Context())
		read := testkit.Must(rw.Reader().Acquire(ctx))
		require.Zero(t, read.Token())
		require.ErrorIs(t, rw.Writer().Lock(ctx), rlock.ErrUpgrade)
		require.NoError(t, read.Unlock(ctx))

		write := testkit.Must(rw.Writer().Acquire(ctx))
		require.Positive(t, write.Token())
		read = testkit.Must(rw.Reader().Acquire(ctx))
		require.Zero(t, read.Token(), "also under the owner's own write hold")
		require.False(t, testkit.Must(rw.Reader().TryLock(t.Context())), "the writer excludes other readers")
		require.NoError(t, write.Unlock(ctx))
		require.NoError(t, read.Unlock(ctx))
	})
}

func TestFencedIsForLocksThatTokensCanOrder(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb)
	name, fenced, backoff := testkit.NewName(), rlock.Fenced(), rlock.Backoff(time.Millisecond, time.Second)
	const misplaced = "invalid option: Fenced is for plain, fair and read-write locks"
	for what, refused := range map[string]struct {
		acquire func(context.Context, ...rlock.AcquireOption) error
		text    string
	}{
		"spin":                {client.NewSpinLock(name, fenced).Lock, misplaced},
		"spin, with delays":   {client.NewSpinLock(name, backoff, fenced).Lock, misplaced},
		"plain, with delays":  {client.NewLock(name, fenced, backoff).Lock, "invalid option: Backoff is for spin locks"},
		"semaphore":           {acquiring(client.NewSemaphore(name, rlock.Total(1), fenced)), misplaced},
		"plain semaphore":     {client.NewPlainSemaphore(name, rlock.Total(1), fenced).Acquire, misplaced},
		"plain, with permits": {client.NewLock(name, fenced, rlock.Permits(1)).Lock, "invalid option: "},
	} {
		err := refused.acquire(t.Context())
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
		require.ErrorContains(t, err, refused.text, what)
	}
	require.Empty(t, rdb.Keys(t.Context(), "*").Val())

	for what, lock := range map[string]*rlock.Lock{
		"an option":             client.NewLock(name, rlock.Fenced()),
		"the same option twice": client.NewLock(name, rlock.Fenced(), rlock.Fenced()),
		"with another option":   client.NewLock(name, rlock.NonReentrant(), rlock.Fenced()),
		"fair, twice":           client.NewFairLock(testkit.NewName(), rlock.Fenced(), rlock.Fenced()),
		"write, twice":          client.NewRWLock(testkit.NewName(), rlock.Fenced(), rlock.Fenced()).Writer(),
	} {
		require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
			_, err := rdb.Get(ctx, tokenKey(t, lock)).Int64()
			require.NoError(t, err, what)
			return nil
		}), what)
	}
}

func acquiring(s *rlock.Semaphore) func(context.Context, ...rlock.AcquireOption) error {
	return func(ctx context.Context, opts ...rlock.AcquireOption) error {
		_, err := s.Acquire(ctx, opts...)
		return err
	}
}

const mixed = "lock acquired without a fencing token"

func TestTheSecondSortOfHandleIsLoggedOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	for kind, others := range sorts {
		for _, other := range others {
			option, log := testkit.Recording()
			client := testkit.NewClient(t, rdb, option)
			use := func(kind, name string) {
				require.NoError(t, testkit.MakeLock(kind, client, name).Do(t.Context(), func(context.Context) error { return nil }))
			}
			name, quiet := testkit.NewName(), testkit.NewName()
			use(other, name)
			use(kind, name)
			use(kind, name)
			use(other, quiet)
			require.NotContains(t, log.String(), mixed, "only a name that was acquired with a token")
			for range 3 {
				use(other, name)
				testkit.Eventually(t, "a log line: "+other+" after "+kind, func() bool { return log.Contains(mixed) })
				use(kind, name)
			}
			require.Equal(t, 1, strings.Count(log.String(), mixed), "once for a name: %s", log)
			require.Contains(t, log.String(), name)

			second := testkit.NewName()
			use(kind, second)
			use(other, second)
			testkit.Eventually(t, "another name is another line", func() bool { return strings.Count(log.String(), mixed) == 2 })
		}
	}
	option, log := testkit.Recording()
	rw := testkit.NewClient(t, rdb, option).NewRWLock(testkit.NewName(), rlock.Fenced())
	for range 3 {
		for _, side := range []*rlock.Lock{rw.Writer(), rw.Reader()} {
			require.NoError(t, side.Do(t.Context(), func(context.Context) error { return nil }))
		}
	}
	require.NotContains(t, log.String(), mixed, "readers write nothing")
}
