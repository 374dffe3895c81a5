package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// latch returns a new handle on the tests' latch.
func (f *fixture) latch(c *Client) *Latch {
	l := new(Latch)
	l.Init(c, name, name)
	return l
}

// await awaits the latch on a goroutine of its own.
func (f *fixture) await(l *Latch, wait ...time.Duration) *result {
	t := Terms{Op: "await"}
	if len(wait) > 0 {
		t.Limited, t.Wait = true, wait[0]
	}
	return f.async(func() error { return l.Await(f.Context(), t) })
}

// announced publishes a message of the tests' latch, and waits until it has arrived.
func (f *fixture) announced(payload string) {
	f.do("PUBLISH", wire.NewLatch(name, "").Channel, payload)
	synctest.Wait()
}

// with runs a function with the server's mutex.
func (f *fixture) with(do func()) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	do()
}

// asked returns how many questions about the count were sent since took was last called.
func (f *fixture) asked() (n int) {
	for _, command := range f.took() {
		if command == "latch count" {
			n++
		}
	}
	return n
}

func TestAnOpenLatchIsNotAwaited(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		l := f.latch(f.client())
		f.await(l).succeeded(0)
		require.Equal(f, []string{"latch count"}, f.took())
		f.await(l, 0).succeeded(0)
		f.set(-2) // as Redisson can
		f.await(l).succeeded(0)
		require.Empty(f, f.subs, "it did not listen")
	})
}

func TestAwaitReturnsWhenTheCountIsZero(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		here, there := f.latch(f.client()), f.latch(f.client())
		set, err := here.TrySetCount(f.Context(), 2)
		require.NoError(f, err)
		require.True(f, set)
		set, err = there.TrySetCount(f.Context(), 3)
		require.NoError(f, err)
		require.False(f, set)
		far := f.await(there)
		f.until(time.Second)
		for want := range 2 {
			left, err := here.CountDown(f.Context())
			require.NoError(f, err)
			require.EqualValues(f, 1-want, left)
		}
		far.succeeded(time.Second)
		left, err := here.CountDown(f.Context())
		require.NoError(f, err)
		require.Zero(f, left)
	})
}

func TestAMessageOpensForAllThatWait(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		c := f.client()
		l := f.latch(c)
		var all []*result
		for range 100 {
			all = append(all, f.await(l))
		}
		require.Equal(f, 100, c.Table().Counts().Waiting)
		f.until(time.Second)
		f.took()
		f.set(0)
		f.announced("0")
		for _, r := range all {
			r.succeeded(time.Second)
		}
		require.Equal(f, 100, f.asked(), "each asks once")
		require.Zero(f, c.Table().Counts().Waiting)
		require.Zero(f, c.hub.Listeners(""))
	})
}

func TestAwaitNoticesWithoutAMessage(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		l := f.latch(f.client())
		r := f.await(l)
		f.until(time.Second)
		f.set(0)
		<-r.done
		require.NoError(f, r.err)
		require.LessOrEqual(f, r.at, pollInterval)
		require.Greater(f, r.at, pollInterval-2*jitter)
	})
}

func TestAConnectionThatComesBackLooksAgain(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		l := f.latch(f.client())
		r := f.await(l)
		f.until(100 * time.Millisecond)
		f.cut(time.Second)
		f.set(0)
		f.announced("0") // nobody hears it
		r.succeeded(1100 * time.Millisecond)
	})
}

func TestTheWaitForALatchIsOver(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		l := f.latch(f.client())
		f.await(l, 0).failed(fault.ErrNotAcquired, 0)
		long := f.await(l)
		short := f.await(l, time.Second)
		f.await(l, 0).failed(fault.ErrNotAcquired, 0)
		ctx, cancel := context.WithCancelCause(f.Context())
		cause := errors.New("the user has left")
		canceled := f.async(func() error { return l.Await(ctx, Terms{Op: "await"}) })
		f.until(500 * time.Millisecond)
		cancel(cause)
		canceled.failed(fault.ErrNotAcquired, 500*time.Millisecond)
		require.ErrorIs(f, canceled.err, context.Canceled)
		require.ErrorIs(f, canceled.err, cause)
		short.failed(fault.ErrNotAcquired, time.Second)
		require.EqualError(f, short.err, `rlock: await "name": not acquired`)
		err := l.Await(ctx, Terms{Op: "await"})
		require.ErrorIs(f, err, cause)
		require.NotErrorIs(f, err, fault.ErrNotAcquired, "it was not asked")
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			time.Sleep(500 * time.Millisecond)
			return run()
		})
		ctx, cancel2 := context.WithCancel(f.Context())
		canceled = f.async(func() error { return l.Await(ctx, Terms{Op: "await"}) })
		cancel2()
		canceled.failed(context.Canceled, time.Second)
		require.NotErrorIs(f, canceled.err, fault.ErrNotAcquired, "what others were told before says nothing")
		f.set(0)
		f.announced("0")
		<-long.done
		require.NoError(f, long.err)
	})
}
