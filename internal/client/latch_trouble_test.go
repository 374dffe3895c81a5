package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestAwaitDuringAnOutage(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		l := f.latch(f.client())
		up := time.Now().Add(4 * time.Second)
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			if time.Now().Before(up) {
				return network()
			}
			return run()
		})
		long := f.await(l)
		f.await(l, 0).failed(fault.ErrUnavailable, 0)
		short := f.await(l, 500*time.Millisecond)
		short.failed(fault.ErrUnavailable, commandTimeout/5)
		require.NotErrorIs(f, short.err, fault.ErrNotAcquired)
		f.set(0)
		<-long.done
		require.NoError(f, long.err)
		require.Less(f, long.at, 6*time.Second)
	})
}

// TestASilentRedisIsNotARefusal: a wait that ends without a reply says so.
func TestASilentRedisIsNotARefusal(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		l := f.latch(f.client())
		closed := f.await(l, 2*time.Second)
		f.until(time.Second)
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			time.Sleep(4 * time.Second)
			return run()
		})
		silent := f.await(l, 100*time.Millisecond)
		f.announced("1") // the first one asks again
		silent.failed(fault.ErrUnavailable, 2*time.Second)
		closed.failed(fault.ErrUnavailable, 2*time.Second)
		ctx, cancel := context.WithCancel(f.Context())
		canceled := f.async(func() error { return l.Await(ctx, Terms{Op: "await"}) })
		cancel()
		canceled.failed(context.Canceled, 2*time.Second)
		require.NotErrorIs(f, canceled.err, fault.ErrUnavailable)
		require.NotErrorIs(f, canceled.err, fault.ErrNotAcquired)
	})
}

func TestAKeyThatIsNoLatch(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		l := f.latch(f.client())
		waits := f.await(l)
		f.until(time.Second)
		f.instead(func(string, func() wire.Reply) wire.Reply { return rejected("WRONGTYPE") })
		_, err := l.Count(f.Context())
		require.EqualError(f, err, `rlock: count "name": the key "name" has a value that is not a count-down latch: WRONGTYPE says the server`)
		_, err = l.CountDown(f.Context())
		require.ErrorContains(f, err, "not a count-down latch")
		require.False(f, waits.over())
		f.announced("1")
		<-waits.done
		require.ErrorContains(f, waits.err, `await "name": the key "name" has a value that is not a count-down latch`)
		require.NotErrorIs(f, waits.err, fault.ErrUnavailable)
		f.instead(nil)
	})
}

func TestTheEndOfTheClientEndsTheWaitForALatch(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*Client){
		"close":    func(c *Client) { c.Close() },
		"shutdown": func(c *Client) { _ = c.Shutdown(context.Background()) },
	} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				f.set(1)
				c := f.client()
				l := f.latch(c)
				var all []*result
				for range 10 {
					all = append(all, f.await(l))
				}
				f.until(time.Second)
				end(c)
				for _, r := range all {
					r.failed(fault.ErrClosed, time.Second)
				}
				f.await(l).failed(fault.ErrClosed, time.Second)
				_, err := l.CountDown(f.Context())
				require.ErrorIs(f, err, fault.ErrClosed)
				_, err = l.Count(f.Context())
				require.ErrorIs(f, err, fault.ErrClosed)
				_, err = l.TrySetCount(f.Context(), 1)
				require.ErrorIs(f, err, fault.ErrClosed)
				_, err = l.Delete(f.Context())
				require.ErrorIs(f, err, fault.ErrClosed)
			})
		})
	}
}

// TestALatchWorksDuringAShutdown: a critical section that winds up may count down.
func TestALatchWorksDuringAShutdown(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(2)
		c := f.client()
		var lock Lock
		tabled(&lock, c, wire.Plain, "lock", "lock")
		l, hold := f.latch(c), f.hold(f.Context(), &lock, Terms{})
		shutdown := f.async(func() error { return c.Shutdown(f.Context()) })
		left, err := l.CountDown(f.Context())
		require.NoError(f, err)
		require.EqualValues(f, 1, left)
		require.ErrorIs(f, l.Await(f.Context(), Terms{Op: "await"}), fault.ErrClosed)
		require.NoError(f, hold.Unlock(f.Context()))
		shutdown.succeeded(0)
	})
}

func TestLatchErrorsOfTheOutcome(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		l := f.latch(f.client())
		f.refuseConnections()
		_, err := l.CountDown(f.Context())
		require.ErrorIs(f, err, fault.ErrUnavailable)
		require.EqualError(f, err, `rlock: count down "name": outcome unknown: Redis unavailable: connection reset`)
		ctx, cancel := context.WithTimeout(f.Context(), time.Millisecond)
		defer cancel()
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			time.Sleep(10 * time.Millisecond)
			return run()
		})
		_, err = l.Delete(ctx)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.ErrorContains(f, err, `delete "name": outcome unknown: `)
		_, err = l.Delete(ctx)
		require.EqualError(f, err, `rlock: delete "name": context deadline exceeded`)
		f.instead(func(string, func() wire.Reply) wire.Reply { return busy() })
		_, err = l.TrySetCount(f.Context(), 1)
		require.ErrorIs(f, err, fault.ErrUnavailable)
		require.NotContains(f, err.Error(), "unknown", "nothing was executed")
		f.instead(nil)
		for _, count := range []int64{0, -1, wire.MaxCount + 1} {
			_, err = l.TrySetCount(f.Context(), count)
			require.ErrorIs(f, err, fault.ErrInvalidOption)
			require.ErrorContains(f, err, "out of range [1, 9007199254740991]")
		}
	})
}

func TestALatchThatCannotBe(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.info = driver.Info{Bounded: true, Slots: 9, Cluster: true}
		c := f.client()
		for _, l := range []*Latch{new(Latch), {lock: Lock{client: nil}}} {
			require.ErrorIs(f, l.Await(f.Context(), Terms{Op: "await"}), fault.ErrInvalidOption)
			_, err := l.CountDown(f.Context())
			require.EqualError(f, err, "rlock: count down of a nil or zero CountDownLatch, or of a nil or zero Client: invalid option")
		}
		l := new(Latch)
		l.Init(c, "{a}b", "{a}b")
		_, err := l.Count(f.Context())
		require.ErrorIs(f, err, fault.ErrInvalidName)
		require.ErrorIs(f, l.Await(f.Context(), Terms{Op: "await"}), fault.ErrInvalidName)
		require.Empty(f, f.took())
	})
}
