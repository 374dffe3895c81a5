package client

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

const (
	accusedSoon = "rlock: possible self-deadlock: a call waits for a hold that was acquired with the same context"
	accusedLate = "rlock: possible self-deadlock: a call has waited longer than a lease for one hold of this process"
)

func TestSelfDeadlockIsLogged(t *testing.T) {
	for what, c := range map[string]struct {
		hold, wait func(ctx context.Context) context.Context
		line       string
		after      time.Duration
	}{
		"the captured context":  {same, same, accusedSoon, time.Second},
		"a child with a value":  {same, WithOwner, accusedSoon, time.Second},
		"plain contexts":        {plain, plain, accusedLate, watchdogTimeout},
		"another context":       {same, cancelable, accusedLate, watchdogTimeout},
		"an owner":              {plain, WithOwner, accusedLate, watchdogTimeout},
		"another context's end": {cancelable, same, accusedLate, watchdogTimeout},
	} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				l := f.newLock()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				require.NoError(f, acquire(c.hold(ctx), l))
				var all []*result
				for range 3 {
					all = append(all, f.async(func() error { return acquireWithin(c.wait(ctx), l, time.Hour) }))
				}
				f.until(c.after - 1)
				require.Empty(f, f.logged())
				f.until(c.after)
				require.Equal(f, []string{c.line}, f.logged())
				f.until(time.Hour)
				require.Empty(f, f.logged(), "once for each hold")
				for _, r := range all {
					r.failed(fault.ErrRefused, time.Hour)
					require.ErrorContains(f, r.err, "not acquired: held by this process for 1h0m0s")
				}
				require.NoError(f, l.Unlock(ctx))
			})
		})
	}
}

func same(ctx context.Context) context.Context { return ctx }

func plain(context.Context) context.Context { return context.Background() }

// cancelable returns a context with a Done channel of its own, which ends with its parent.
func cancelable(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func TestNobodyIsAccusedFalsely(t *testing.T) {
	t.Run("100 goroutines with plain contexts and sections of 2 s", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			var all []*result
			for range 100 {
				all = append(all, f.async(func() error {
					if err := acquire(context.Background(), l); err != nil {
						return err
					}
					<-time.After(2 * time.Second)
					return l.Unlock(context.Background())
				}))
			}
			for i, r := range all {
				<-r.done
				require.NoError(f, r.err, "number %d", i)
			}
			require.Greater(f, time.Since(f.start), 199*time.Second)
			require.Empty(f, f.logged())
		})
	})
	t.Run("a wait that is younger than the hold", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			require.NoError(f, acquire(ctx, l))
			first := f.async(func() error { return acquire(ctx, l) })
			second := f.async(func() error { return acquire(ctx, l) })
			f.until(500 * time.Millisecond)
			require.NoError(f, l.Unlock(ctx))
			first.succeeded(500 * time.Millisecond)
			f.until(time.Hour)
			require.Empty(f, f.logged(), "the hold came after the call that waits for it, so it is not the caller's")
			require.NoError(f, l.Unlock(ctx))
			second.succeeded(time.Hour)
			require.NoError(f, l.Unlock(ctx))
		})
	})
	t.Run("a hold of another process", func(t *testing.T) {
		run(t, func(f *fixture) {
			holder, l := f.newLock(), f.newLock()
			require.NoError(f, acquire(f.Context(), holder))
			r := f.async(func() error { return acquireWithin(f.Context(), l, 2*watchdogTimeout) })
			r.failed(fault.ErrRefused, 2*watchdogTimeout)
			require.NotContains(f, r.err.Error(), "this process")
			require.Empty(f, f.logged())
			require.NoError(f, holder.Unlock(f.Context()))
		})
	})
	t.Run("a wait that is over", func(t *testing.T) {
		run(t, func(f *fixture) {
			l := f.newLock()
			require.NoError(f, acquire(f.Context(), l))
			f.async(func() error { return acquireWithin(f.Context(), l, 900*time.Millisecond) }).
				failed(fault.ErrRefused, 900*time.Millisecond)
			f.until(2 * watchdogTimeout)
			require.Empty(f, f.logged())
			require.NoError(f, l.Unlock(f.Context()))
		})
	})
}

// TestAnOutageIsLogged has the renewals of many holds fail, and then succeed again.
func TestAnOutageIsLogged(t *testing.T) {
	run(t, func(f *fixture) {
		c := f.client()
		n := 1000
		if testing.Short() {
			n = 100
		}
		for i := range n {
			l := new(Lock)
			name := fmt.Sprintf("name %d", i)
			l.Init(c, wire.Plain, name, name)
			require.NoError(f, acquire(f.Context(), l))
		}
		down := true
		f.instead(func(_ string, do func() wire.Reply) wire.Reply {
			if down {
				return network()
			}
			return do()
		})
		f.until(watchdogTimeout * 2 / 3)
		failed := f.logged()
		require.NotEmpty(f, failed)
		require.LessOrEqual(f, len(failed), 10, "a handful of lines for an outage of %d holds", n)
		for _, line := range failed {
			require.True(f, strings.HasPrefix(line, "rlock: renewal failed"), line)
		}
		f.server.mu.Lock()
		down = false
		f.server.mu.Unlock()
		f.until(watchdogTimeout*2/3 + 5*time.Second)
		recovered := f.logged()
		require.NotEmpty(f, recovered)
		require.LessOrEqual(f, len(recovered), 40)
		for _, line := range recovered {
			require.Equal(f, "rlock: renewals succeed again", line)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		require.Contains(f, f.attrs, "suppressed", "the number of the others")
	})
}

// TestAHangIsLoggedBeforeTheLoss has Redis hang for longer than a short lease. No command fails before the command timeout is over.
func TestAHangIsLoggedBeforeTheLoss(t *testing.T) {
	for _, lease := range []time.Duration{2 * time.Second, commandTimeout, watchdogTimeout} {
		run(t, func(f *fixture) {
			l := f.newLock()
			h := f.hold(f.Context(), l, Terms{Lease: lease, Renewed: true})
			f.until(lease * 4 / 5)
			require.Empty(f, f.logged(), "renewals succeed")
			f.hang()
			<-h.Done()
			synctest.Wait() // the line about the loss comes after the end of the hold
			f.instead(nil)
			logged := f.logged()
			require.Len(f, logged, 2, "%v", lease)
			require.True(f, strings.HasPrefix(logged[0], "rlock: renewal failed"), logged[0])
			require.True(f, strings.HasPrefix(logged[1], "rlock: lock lost"), logged[1])
		})
	}
}
