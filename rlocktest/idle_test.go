package rlocktest

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/rlocktest/internal/server"
)

// TestAnIdleHourAsksForNoTime counts how often the server's clock is asked for while nobody sends a command.
func TestAnIdleHourAsksForNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		k := &kit{server.New(func() time.Time { asked.Add(1); return time.Now() }), nil}
		t.Cleanup(k.Close)
		lock := k.client(t).NewLock("invoice:42")
		hold, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
		time.Sleep(time.Minute) // what the hold has left behind ends
		before := asked.Load()
		require.Positive(t, before)
		time.Sleep(time.Hour)
		require.Equal(t, before, asked.Load())
		held, err := lock.IsLocked(t.Context())
		require.NoError(t, err)
		require.False(t, held)
		require.Greater(t, asked.Load(), before)
	})
}

// endings is an observer that is told how holds end.
type endings struct{ abandoned atomic.Int64 }

func (*endings) AcquireStart(ctx context.Context, _ rlock.AcquireStartData) context.Context {
	return ctx
}
func (*endings) AcquireEnd(context.Context, rlock.AcquireEndData) {}

func (e *endings) HoldEnd(_ context.Context, d rlock.HoldEndData) {
	if d.End == rlock.HoldAbandoned {
		e.abandoned.Add(1)
	}
}

const dropsInBubble = "RLOCKTEST_DROPS_IN_BUBBLE"

// TestADroppedHoldInABubble runs itself as a process: if the runtime's goroutine touched a channel of the bubble, that would end the process.
func TestADroppedHoldInABubble(t *testing.T) {
	t.Parallel()
	if os.Getenv(dropsInBubble) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestADroppedHoldInABubble$", "-test.timeout=1m")
		child.Env = append(os.Environ(), dropsInBubble+"=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		seen := new(endings)
		locks := New(t, rlock.WithObserver(seen))
		single, several := locks.NewLock("single"), rlock.NewMultiLock(locks.NewLock("one"), locks.NewLock("two"))
		drops := func() {
			require.NoError(t, second(single.Acquire(t.Context())))
			require.NoError(t, second(several.Acquire(t.Context())))
		}
		drops()
		for seen.abandoned.Load() < 4 { // the two members, too
			runtime.GC()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute) // nobody renews the locks
		hold, err := single.TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

// TestADroppedHoldIsNoticedBehindAnother drops a hold while the program keeps another one that is over, and was not unlocked.
func TestADroppedHoldIsNoticedBehindAnother(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(t *testing.T, kept *rlock.Hold){
		"exported": func(t *testing.T, kept *rlock.Hold) {
			t.Helper()
			_, err := kept.Export(t.Context(), rlock.Lease(time.Hour))
			require.NoError(t, err)
		},
		"lost": func(t *testing.T, kept *rlock.Hold) {
			t.Helper()
			<-kept.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := new(endings)
				locks := New(t, rlock.WithObserver(seen))
				kept, err := locks.NewLock("kept").Acquire(t.Context(), rlock.Lease(time.Second))
				require.NoError(t, err)
				ends(t, kept)
				time.Sleep(time.Minute) // the client has nothing, and looks no longer
				require.NoError(t, second(locks.NewLock("dropped").Acquire(t.Context())))
				began := time.Now()
				for seen.abandoned.Load() == 0 {
					runtime.GC()
					time.Sleep(time.Second)
				}
				require.Less(t, time.Since(began), 8*time.Second, "it is noticed before its first renewal")
				runtime.KeepAlive(kept)
				time.Sleep(time.Minute) // the leases end
			})
		})
	}
}

func second(_ *rlock.Hold, err error) error { return err }
