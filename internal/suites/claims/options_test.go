package claims

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

func TestNewRejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nobody listens there, which New must not notice
	defer rdb.Close()
	var typedNil *redis.Client
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	pipeliner, err := rdb.AutoPipeline()
	require.NoError(t, err)
	for what, err := range map[string]error{
		"nil":                                testkit.Second(rlock.New(nil)),
		"a typed nil":                        testkit.Second(rlock.New(typedNil)),
		"a zero client":                      testkit.Second(rlock.New(&redis.Client{})),
		"a zero cluster client":              testkit.Second(rlock.New(&redis.ClusterClient{})),
		"a struct with a zero client":        testkit.Second(rlock.New(&struct{ redis.Client }{})),
		"a ring":                             testkit.Second(rlock.New(ring)),
		"an auto-pipeliner":                  testkit.Second(rlock.New(pipeliner)),
		"a nil option":                       testkit.Second(rlock.New(rdb, nil)),
		"a watchdog timeout of 0":            testkit.Second(rlock.New(rdb, rlock.WithWatchdogTimeout(0))),
		"a watchdog timeout of 99 ms":        testkit.Second(rlock.New(rdb, rlock.WithWatchdogTimeout(99*time.Millisecond))),
		"an infinite watchdog timeout":       testkit.Second(rlock.New(rdb, rlock.WithWatchdogTimeout(math.MaxInt64))),
		"a negative command timeout":         testkit.Second(rlock.New(rdb, rlock.WithCommandTimeout(-1))),
		"a command timeout of 0":             testkit.Second(rlock.New(rdb, rlock.WithCommandTimeout(0))),
		"acks of -2 replicas":                testkit.Second(rlock.New(rdb, rlock.WithReplicaAcks(-2, time.Second))),
		"acks without a timeout":             testkit.Second(rlock.New(rdb, rlock.WithReplicaAcks(1, 0))),
		"acks for the whole command timeout": testkit.Second(rlock.New(rdb, rlock.WithReplicaAcks(1, 3*time.Second))),
		"a negative max hold":                testkit.Second(rlock.New(rdb, rlock.WithMaxHold(-time.Second))),
		"a prefix that opens a brace":        testkit.Second(rlock.New(rdb, rlock.WithKeyPrefix("{a"))),
		"a prefix with a hash tag":           testkit.Second(rlock.New(rdb, rlock.WithKeyPrefix("{a}:"))),
		"a nil logger":                       testkit.Second(rlock.New(rdb, rlock.WithLogger(nil))),
		"one valid option and one invalid":   testkit.Second(rlock.New(rdb, rlock.WithMaxHold(0), rlock.WithKeyPrefix("}"))),
	} {
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
	}
	one, err := rlock.New(rdb)
	require.NoError(t, err)
	two, err := rlock.New(rdb, rlock.WithMaxHold(0))
	require.NoError(t, err)
	require.NotEqual(t, one.ID(), two.ID())
	id, err := uuid.Parse(one.ID())
	require.NoError(t, err)
	require.EqualValues(t, 4, id.Version())
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
}

func TestBadArgumentsSendNothing(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr()}))
	prefixed := testkit.NewClient(t, redistest.Open(t, &redis.Options{Addr: server.Addr()}), rlock.WithKeyPrefix("app:"))
	lock := client.NewLock(testkit.NewName())
	ctx := t.Context()
	before := server.CommandCount()
	for what, opt := range map[string]rlock.AcquireOption{
		"a lease of 0":                               rlock.Lease(0),
		"a negative lease":                           rlock.Lease(-time.Second),
		"a lease below 1 ms":                         rlock.Lease(time.Millisecond - 1),
		"a lease that never ends":                    rlock.Lease(math.MaxInt64),
		"a renewed lease of 0":                       rlock.RenewedLease(0),
		"a renewed lease that is too short to renew": rlock.RenewedLease(100*time.Millisecond - 1),
		"a renewed lease that never ends":            rlock.RenewedLease(math.MaxInt64),
		"a negative wait":                            rlock.Wait(-1),
		"a nil option":                               nil,
	} {
		require.ErrorIs(t, lock.Lock(ctx, opt), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, lock.Do(ctx, func(context.Context) error { return nil }, opt), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, testkit.Second(lock.TryLock(ctx, opt)), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, testkit.Second(lock.Acquire(ctx, opt)), rlock.ErrInvalidOption, what)
		require.ErrorIs(t, testkit.Second(lock.TryAcquire(ctx, opt)), rlock.ErrInvalidOption, what)
	}
	require.ErrorIs(t, lock.Do(ctx, nil), rlock.ErrInvalidOption)
	for _, both := range [][]rlock.AcquireOption{
		{rlock.Lease(time.Second), rlock.RenewedLease(time.Second)}, {rlock.RenewedLease(time.Second), rlock.Lease(time.Second)},
	} {
		for _, locker := range []handles.Any{lock, rlock.NewMultiLock(lock), rlock.NewRedLock(lock)} {
			_, err := locker.Acquire(ctx, both...)
			require.ErrorIs(t, err, rlock.ErrInvalidOption)
			require.ErrorContains(t, err, "a lease and a renewed lease together")
		}
	}

	for what, name := range map[string]string{"empty": "", "too long": strings.Repeat("x", 64<<10+1)} {
		bad := client.NewLock(name)
		require.ErrorIs(t, bad.Lock(ctx), rlock.ErrInvalidName, what)
		require.ErrorIs(t, bad.Unlock(ctx), rlock.ErrInvalidName, what)
		require.ErrorIs(t, testkit.Second(bad.TryLock(ctx)), rlock.ErrInvalidName, what)
		require.ErrorIs(t, testkit.Second(bad.ForceUnlock(ctx)), rlock.ErrInvalidName, what)
		require.ErrorIs(t, testkit.Second(bad.IsLocked(ctx)), rlock.ErrInvalidName, what)
		require.Less(t, len(bad.Lock(ctx).Error()), 500, "the error truncates a long name")
	}
	require.ErrorIs(t, prefixed.NewLock("").Lock(ctx), rlock.ErrInvalidName)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.NotErrorIs(t, lock.Lock(ended), rlock.ErrNotAcquired)
	require.ErrorIs(t, testkit.Second(lock.TryAcquire(ended)), context.Canceled)
	require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld)
	require.Equal(t, before, server.CommandCount(), "no command is sent")
}

func TestNilAndZeroValuesDoNotPanic(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, lock := range []*rlock.Lock{nil, {}, (*rlock.Client)(nil).NewLock("x"), new(rlock.Client).NewLock("x")} {
		require.ErrorIs(t, lock.Lock(ctx), rlock.ErrInvalidOption)
		require.ErrorIs(t, testkit.Second(lock.TryLock(ctx)), rlock.ErrInvalidOption)
		require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrInvalidOption)
		require.ErrorIs(t, lock.Do(ctx, func(context.Context) error { return nil }), rlock.ErrInvalidOption)
		require.ErrorIs(t, testkit.Second(lock.Acquire(ctx)), rlock.ErrInvalidOption)
		require.ErrorIs(t, testkit.Second(lock.TryAcquire(ctx)), rlock.ErrInvalidOption)
		require.ErrorIs(t, testkit.Second(lock.ForceUnlock(ctx)), rlock.ErrInvalidOption)
		require.ErrorIs(t, testkit.Second(lock.IsLocked(ctx)), rlock.ErrInvalidOption)
		require.ErrorIs(t, testkit.Second(lock.HoldCount(ctx)), rlock.ErrInvalidOption)
		require.ErrorIs(t, testkit.Second(lock.TTL(ctx)), rlock.ErrInvalidOption)
		require.Empty(t, lock.Name())
	}
	for _, hold := range []*rlock.Hold{nil, {}} {
		require.ErrorIs(t, hold.Unlock(ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Extend(ctx, time.Second), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Err(), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.Zero(t, hold.Deadline())
		require.Zero(t, hold.Token())
		testkit.Within(t, "an invalid hold has ended", hold.Done())
	}
	for _, client := range []*rlock.Client{nil, {}} {
		require.NoError(t, client.Close())
		require.Empty(t, client.ID())
	}
}

func TestExtremeButValidArguments(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		for _, name := range []string{
			"a b", "a:b", "ключ", "a\r\nb", "\xff\xfe\x00", "a{b", "}{", "{}", "a{}b", "{a}b{c}", strings.Repeat("x", 64<<10),
		} {
			lock := client.NewLock(name)
			require.NoError(t, lock.Lock(ctx, rlock.Wait(math.MaxInt64)))
			require.NoError(t, lock.Unlock(ctx))
		}
		lock := client.NewLock(testkit.NewName())
		require.NoError(t, lock.Lock(ctx, rlock.Lease(100*365*24*time.Hour)))
		left, err := lock.TTL(ctx)
		require.NoError(t, err)
		require.Greater(t, left, 99*365*24*time.Hour)
		require.NoError(t, lock.Unlock(ctx))
		hold, err := lock.Acquire(ctx, rlock.Lease(1500*time.Microsecond))
		if err == nil { // on a slow machine, the reply comes after the lease
			testkit.Within(t, "the lease ends", hold.Done())
		}
	})
}

func TestTheLastOptionWins(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	ctx := t.Context()
	lock := testkit.NewClient(t, rdb, rlock.WithKeyPrefix("a:"), rlock.WithKeyPrefix("B:")).NewLock("b")
	require.NoError(t, lock.Lock(ctx, rlock.Lease(time.Second), rlock.Lease(time.Hour)))
	require.Equal(t, []string{"B:b"}, rdb.Keys(ctx, "*").Val())
	require.Equal(t, "b", lock.Name())
	left, err := lock.TTL(ctx)
	require.NoError(t, err)
	require.Greater(t, left, time.Minute)
	require.NoError(t, lock.Unlock(ctx))

	require.NoError(t, lock.Lock(ctx, rlock.RenewedLease(time.Second), rlock.RenewedLease(time.Hour)))
	require.Greater(t, testkit.Must(lock.TTL(ctx)), time.Minute)
	require.NoError(t, lock.Unlock(ctx))

	lock = testkit.NewClient(t, rdb, rlock.WithKeyPrefix("app:")).NewLock("b")
	require.NoError(t, lock.Lock(ctx))
	require.Equal(t, []string{"app:b"}, rdb.Keys(ctx, "*").Val())
	require.NoError(t, lock.Unlock(ctx))
}

func TestALeaseIsRoundedUp(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, nil)
	for lease, millis := range map[time.Duration]string{
		time.Millisecond: "1", time.Millisecond + 1: "2", 1999 * time.Microsecond: "2", time.Second: "1000",
	} {
		_ = f.Client.NewLock(testkit.NewName()).Lock(t.Context(), rlock.Lease(lease), rlock.Wait(0)) // the reply may come after the lease
		require.Positive(t, f.Proxy.Count(func(c redistest.Command) bool {
			return testkit.Runs("acquire")(c) && c[3+testkit.Must(strconv.Atoi(c[2]))+1] == millis
		}), lease)
	}
}

// TestANumberWithoutAUnitIsRefused takes each duration of the API as somebody writes it who believes that it is in seconds.
func TestANumberWithoutAUnitIsRefused(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client := testkit.NewClient(t, rdb)
	ctx, lock, name := t.Context(), client.NewLock(testkit.NewName()), testkit.NewName()
	semaphore, nothing := client.NewSemaphore(name), func(context.Context) error { return nil }
	hold, err := lock.Acquire(ctx)
	require.NoError(t, err)
	lead := func(context.Context, rlock.Token) error { return nil }
	created := func(opt rlock.Option) error { return testkit.Second(rlock.New(rdb, opt)) }
	for what, call := range map[string]func() error{
		"Wait of Lock":        func() error { return client.NewLock(name).Lock(ctx, rlock.Wait(3)) },
		"Wait of TryLock":     func() error { return testkit.Second(client.NewLock(name).TryLock(ctx, rlock.Wait(3))) },
		"Wait of Do":          func() error { return client.NewFairLock(name).Do(ctx, nothing, rlock.Wait(3)) },
		"Wait of a semaphore": func() error { return testkit.Second(semaphore.Acquire(ctx, rlock.Wait(3))) },
		"Wait of a latch":     func() error { return client.NewCountDownLatch(name).Await(ctx, rlock.Wait(3)) },
		"Wait of a group":     func() error { return testkit.Second(rlock.NewMultiLock(lock).Acquire(ctx, rlock.Wait(3))) },
		"Lease":               func() error { return client.NewLock(name).Lock(ctx, rlock.Lease(3)) },
		"RenewedLease":        func() error { return client.NewLock(name).Lock(ctx, rlock.RenewedLease(3)) },
		"AtLeast":             func() error { return testkit.Second(client.NewLock(name).Acquire(ctx, rlock.AtLeast(3))) },
		"Hold.Extend":         func() error { return hold.Extend(ctx, 3) },
		"ExpireAfter":         func() error { return testkit.Second(client.NewSemaphore(name, rlock.ExpireAfter(3)).Permits(ctx)) },
		"Backoff":             func() error { return client.NewSpinLock(name, rlock.Backoff(3, 30)).Lock(ctx) },
		"WithCommandTimeout":  func() error { return created(rlock.WithCommandTimeout(3)) },
		"WithWatchdogTimeout": func() error { return created(rlock.WithWatchdogTimeout(3)) },
		"WithMaxHold":         func() error { return created(rlock.WithMaxHold(3)) },
		"an election's lease": func() error { return client.NewElection(name, rlock.RenewedLease(3)).Run(ctx, lead) },
		"WithReplicaAcks":     func() error { return created(rlock.WithReplicaAcks(1, 3)) },
	} {
		err := call()
		require.ErrorIs(t, err, rlock.ErrInvalidOption, what)
		require.ErrorContains(t, err, "3ns", what)
		require.ErrorContains(t, err, "a number without a unit is in nanoseconds: write 3*time.Second", what)
	}
	require.NoError(t, client.NewLock(name).Lock(ctx, rlock.Wait(time.Microsecond)), "the least that is taken as meant")
	err = client.NewLock(name).Lock(ctx, rlock.Wait(-time.Second))
	require.ErrorContains(t, err, "wait -1s")
	require.NotContains(t, err.Error(), "without a unit")
}
