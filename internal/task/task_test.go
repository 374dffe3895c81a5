package task

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// isOpen reports whether a channel is open.
func isOpen(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

func TestLife(t *testing.T) {
	g := New()
	require.True(t, g.Begin())
	require.True(t, g.Keep())
	require.Equal(t, 2, g.Count())
	g.End()
	g.End()
	require.True(t, isOpen(g.quiet), "an open group without operations is not over")

	require.True(t, g.Begin())
	require.False(t, g.IsClosed())
	require.True(t, isOpen(g.Closed()))
	g.Close()
	require.True(t, g.IsClosed())
	require.False(t, isOpen(g.Closed()))
	require.False(t, g.Begin(), "a closed group refuses operations")
	require.Equal(t, 1, g.Count())

	require.True(t, g.Keep(), "but Close waits for the duty of an operation under way")
	g.End()
	require.False(t, g.Retired())
	require.True(t, isOpen(g.quiet))
	g.End()
	require.False(t, isOpen(g.quiet))
	require.True(t, g.Retired())
	require.False(t, g.Keep())
	g.Wait(t.Context())
	require.Zero(t, g.Count())
	g.Stop(t.Context())
}

func TestCloseWithoutOperations(t *testing.T) {
	g := New()
	g.Close()
	require.True(t, g.Retired())
	require.False(t, g.Keep())
	g.Wait(t.Context())
	g.Stop(t.Context())
}

// TestWaitRetires has a Wait time out: then nobody would carry out a duty, although an operation is under way.
func TestWaitRetires(t *testing.T) {
	g := New()
	require.True(t, g.Begin())
	g.Close()
	require.True(t, g.Keep())
	g.Wait(ended(t))
	require.True(t, g.Retired())
	require.False(t, g.Keep())
	require.False(t, g.Begin())
	require.Equal(t, 2, g.Count())
	g.End()
	g.End()
	require.False(t, isOpen(g.quiet), "the last operation ends the group nevertheless")
	g.Stop(t.Context())
}

// TestNothingIsMissed has operations begin and end while the group closes: Wait returns after the last one.
func TestNothingIsMissed(t *testing.T) {
	for range 200 {
		g := New()
		var all sync.WaitGroup
		var under atomic.Int64
		for range 8 {
			all.Go(func() {
				for g.Begin() {
					under.Add(1)
					if g.Keep() {
						under.Add(1)
						all.Go(func() {
							under.Add(-1)
							g.End()
						})
					}
					under.Add(-1)
					g.End()
				}
			})
		}
		g.Close()
		g.Wait(t.Context())
		require.Zero(t, under.Load())
		require.Zero(t, g.Count())
		all.Wait()
		g.Stop(t.Context())
	}
}

func TestWorkersAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		ran, hold := 0, make(chan struct{})
		g.Run(Func(func() { ran++ }))
		synctest.Wait()
		g.Run(Func(func() { ran++; <-hold }))
		synctest.Wait()
		require.Equal(t, 2, ran)
		select {
		case g.workers.jobs <- Func(nil):
			require.Fail(t, "there is one worker, and it is busy")
		default:
		}
		close(hold)
		synctest.Wait()

		time.Sleep(workerLinger - 1)
		g.Run(Func(func() { ran++ }))
		time.Sleep(workerLinger - 1)
		g.Run(Func(func() { ran++ }))
		time.Sleep(workerLinger)
		synctest.Wait()
		require.Equal(t, 4, ran)
		g.workers.running.Wait() // the idle worker has ended by itself
		g.Stop(t.Context())
	})
}

// TestStop has idle workers end at once, and one that hangs hold Stop up only until its context ends.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		hangs := make(chan struct{})
		g.Run(Func(func() { <-hangs }))
		g.Run(Func(func() {}))
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Stop(ctx)
		require.Equal(t, time.Second, time.Since(start))
		close(hangs)
		g.workers.running.Wait()
	})
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		ran := false
		g.Background(func() {
			time.Sleep(time.Minute)
			ran = true
		})
		require.Equal(t, 1, g.Count())
		g.Close()
		g.Wait(t.Context())
		require.True(t, ran, "Wait waits for it")
		ran = false
		g.Background(func() { ran = true })
		require.True(t, ran, "nobody waits any more, so it ran in place")
		g.Stop(t.Context())
	})
}
