package rlocktest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/rlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(context.Context) error { return nil }

func invoice(c *rlock.Client) *rlock.Lock { return c.NewLock("invoice:42") }

func TestHoldElsewhere(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t)
	release := rlocktest.HoldElsewhere(t, locks, invoice)
	lock := locks.NewLock("invoice:42")
	require.ErrorIs(t, lock.Do(t.Context(), nothing, rlock.Wait(0)), rlock.ErrNotAcquired)
	release()
	release()
	require.NoError(t, lock.Do(t.Context(), nothing, rlock.Wait(0)))
}

// TestWhatIsHeldElsewhereWakesItsWaiters at once, whatever its kind is.
func TestWhatIsHeldElsewhereWakesItsWaiters(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(c *rlock.Client) handles.Any{
		"lock":      func(c *rlock.Client) handles.Any { return c.NewLock("a") },
		"fenced":    func(c *rlock.Client) handles.Any { return c.NewLock("a", rlock.Fenced()) },
		"fair":      func(c *rlock.Client) handles.Any { return c.NewFairLock("a") },
		"read":      func(c *rlock.Client) handles.Any { return c.NewRWLock("a").Reader() },
		"write":     func(c *rlock.Client) handles.Any { return c.NewRWLock("a").Writer() },
		"semaphore": func(c *rlock.Client) handles.Any { return c.NewSemaphore("a", rlock.Total(1)) },
		"multi":     func(c *rlock.Client) handles.Any { return rlock.NewMultiLock(c.NewLock("a"), c.NewLock("b")) },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := rlocktest.New(t)
				waiter := open(locks)
				if kind == "read" {
					waiter = locks.NewRWLock("a").Writer()
				}
				release := rlocktest.HoldElsewhere(t, locks, open)
				waits := make(chan error, 1)
				go func() { waits <- waiter.Do(t.Context(), nothing) }()
				time.Sleep(10 * time.Second)
				require.Equal(t, 1, locks.Stats().Waiting)
				released := time.Now()
				release()
				require.NoError(t, <-waits)
				require.Less(t, time.Since(released), 100*time.Millisecond)
			})
		})
	}
	t.Run("readers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := rlocktest.New(t)
			release := rlocktest.HoldElsewhere(t, locks, func(c *rlock.Client) *rlock.Lock { return c.NewRWLock("a").Writer() })
			waits := make(chan error, 1)
			go func() { waits <- locks.NewRWLock("a").Reader().Do(t.Context(), nothing) }()
			time.Sleep(10 * time.Second)
			released := time.Now()
			release()
			require.NoError(t, <-waits)
			require.Less(t, time.Since(released), 100*time.Millisecond)
		})
	})
}

// TestHoldElsewhereOfAProcessThatDies is of one with the options of the client.
func TestHoldElsewhereOfAProcessThatDies(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t, rlock.WithKeyPrefix("app:"), rlock.WithWatchdogTimeout(time.Minute))
	rlocktest.HoldElsewhere(t, locks, invoice)
	lock := locks.NewLock("invoice:42")
	require.ErrorIs(t, lock.Do(t.Context(), nothing, rlock.Wait(0)), rlock.ErrNotAcquired)
	rlocktest.Advance(t, locks, time.Minute)
	require.NoError(t, lock.Do(t.Context(), nothing, rlock.Wait(0)))
}

func TestLose(t *testing.T) {
	t.Parallel()
	lock := rlocktest.New(t).NewLock("invoice:42")
	require.ErrorIs(t, lock.Do(t.Context(), func(ctx context.Context) error {
		rlocktest.Lose(t, lock)
		<-ctx.Done()
		return nil
	}), rlock.ErrLost)
}

func TestOutage(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t)
	lock := locks.NewLock("invoice:42")
	end := rlocktest.Outage(t, locks)
	require.ErrorIs(t, lock.Do(t.Context(), nothing, rlock.Wait(0)), rlock.ErrUnavailable)
	end()
	require.NoError(t, lock.Do(t.Context(), nothing))
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	locks, dead := rlocktest.New(t), rlocktest.New(t)
	rlocktest.Advance(t, dead, time.Hour)
	lock := locks.NewLock("invoice:42")
	hold, err := lock.Acquire(t.Context(), rlock.Lease(time.Minute))
	require.NoError(t, err)
	rlocktest.Advance(t, locks, time.Minute)
	held, err := lock.IsLocked(t.Context())
	require.NoError(t, err)
	require.False(t, held)
	require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
}

// fatal is a test that notes how it ends.
type fatal struct {
	testing.TB

	said string
}

func (*fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAdvanceByANumberWithoutAUnit(t *testing.T) {
	t.Parallel()
	locks := rlocktest.New(t)
	for _, d := range []time.Duration{30, 0, -time.Second} {
		f, over := &fatal{TB: t}, make(chan struct{})
		go func() {
			defer close(over)
			rlocktest.Advance(f, locks, d)
		}()
		<-over
		require.Contains(t, f.said, "advance by "+d.String()+", but the least is 1ms")
	}
}

// TestInABubble has a lock that is held for an hour, with its renewals, and somebody who waits for it, in no time.
func TestInABubble(t *testing.T) {
	t.Parallel()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		locks := rlocktest.New(t)
		lock, inside := locks.NewLock("invoice:42"), time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
					time.Sleep(time.Minute)
					return ctx.Err()
				}))
			})
		}
		all.Wait()
		require.GreaterOrEqual(t, time.Since(inside), 3*time.Minute)
		release := rlocktest.HoldElsewhere(t, locks, invoice)
		all.Go(func() { require.NoError(t, lock.Do(t.Context(), nothing)) })
		synctest.Wait()
		require.Equal(t, 1, locks.Stats().Waiting)
		release()
		all.Wait()
	})
	require.Less(t, time.Since(began), 3*time.Minute)
}

// TestALockThatIsLeftHeld fails the test that leaves it, and says which lock it is, and what has locked it.
func TestALockThatIsLeftHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		locks func(t *testing.T, locks *rlock.Client)
		left  []string // what the failure says of each
		count int
	}{
		"a hold": {func(t *testing.T, locks *rlock.Client) {
			t.Helper()
			unlocked, err := locks.NewLock("unlocked").Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, unlocked.Unlock(t.Context()))
			_, err = locks.NewLock("invoice:42").Acquire(t.Context()) // left
			require.NoError(t, err)
		}, []string{`"invoice:42" (lock)`}, 1},
		"a lock": {func(t *testing.T, locks *rlock.Client) {
			t.Helper()
			require.NoError(t, locks.NewFairLock("invoice:42").Lock(t.Context())) // left
		}, []string{`"invoice:42" (fair)`}, 1},
		"a re-entry": {func(t *testing.T, locks *rlock.Client) {
			t.Helper()
			lock, ctx := locks.NewLock("invoice:42"), rlock.WithOwner(t.Context())
			require.NoError(t, lock.Lock(ctx)) // left
			require.NoError(t, lock.Lock(ctx))
			require.NoError(t, lock.Unlock(ctx))
		}, []string{`"invoice:42" (lock)`}, 1},
		"a group": {func(t *testing.T, locks *rlock.Client) {
			t.Helper()
			both := rlock.NewMultiLock(locks.NewLock("one"), locks.NewLock("two"))
			_, err := both.TryAcquire(t.Context()) // left
			require.NoError(t, err)
		}, []string{`multi lock of "one", "two"`}, 2},
		"permits": {func(t *testing.T, locks *rlock.Client) {
			t.Helper()
			semaphore := locks.NewSemaphore("jobs", rlock.Total(3))
			for range 2 {
				_, err := semaphore.Acquire(t.Context()) // left
				require.NoError(t, err)
			}
		}, []string{`"jobs" (semaphore)`, `"jobs" (semaphore)`}, 2},
		"a job that never ends": {func(t *testing.T, locks *rlock.Client) {
			t.Helper()
			begun := make(chan struct{})
			go func() {
				_, _ = rlock.DoValue(context.Background(), locks.NewLock("invoice:42"), func(ctx context.Context) (int, error) { // left
					close(begun)
					<-ctx.Done()
					return 0, nil
				})
			}()
			<-begun
		}, []string{`"invoice:42" (lock)`}, 1},
		"nothing": {func(*testing.T, *rlock.Client) {}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := &recorder{TB: t}
			c.locks(t, rlocktest.New(inner))
			for _, cleanup := range slices.Backward(inner.cleanups) {
				cleanup()
			}
			if c.count == 0 {
				require.Empty(t, inner.failures)
				return
			}
			require.Len(t, inner.failures, 1)
			first, rest, _ := strings.Cut(inner.failures[0], "\n")
			require.Equal(t, fmt.Sprintf("rlocktest: still held at the end of the test, %d in all:", c.count), first)
			lines := strings.Split(rest, "\n")
			require.Len(t, lines, len(c.left))
			for i, line := range lines {
				what, where, found := strings.Cut(strings.TrimSpace(line), ", locked at ")
				require.True(t, found, line)
				require.Equal(t, c.left[i], what)
				require.Contains(t, lineOf(t, where), "// left", where)
			}
		})
	}
}

// lineOf returns the line of this file to which a place such as rlocktest_test.go:7 leads.
func lineOf(t *testing.T, place string) string {
	t.Helper()
	file, number, found := strings.Cut(place[strings.LastIndex(place, "/")+1:], ":")
	require.True(t, found, place)
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Split(string(text), "\n")[n-1]
}

// recorder is a test that fails without failing this one.
type recorder struct {
	testing.TB

	cleanups []func()
	failures []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
