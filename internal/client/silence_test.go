package client

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/wire"
)

// warned requires that the silence of Redis was told so often since the logs were last read.
func (f *fixture) warned(times int) {
	f.Helper()
	synctest.Wait() // lines are logged in the background
	n := 0
	for _, message := range f.logged() {
		if strings.Contains(message, "no usable answer") {
			n++
		}
	}
	require.Equal(f, times, n)
}

// refuseConnections makes each command fail at once.
func (f *fixture) refuseConnections() {
	f.instead(func(string, func() wire.Reply) wire.Reply { return network() })
}

func TestAWaitWithoutAnAnswerIsToldOnceInEachSilence(t *testing.T) {
	for what, outage := range map[string]func(*fixture){"hang": (*fixture).hang, "no connection": (*fixture).refuseConnections} {
		t.Run(what, func(t *testing.T) {
			run(t, func(f *fixture) {
				require.True(f, f.takeForOthers(time.Hour))
				l := f.newLock()
				outage(f)
				waits := f.async(func() error { return acquire(context.Background(), l) })
				f.until(commandTimeout - time.Millisecond)
				f.warned(0)
				f.until(4 * commandTimeout)
				f.warned(1)
				require.Equal(f, name, f.attrs["lock"].String())
				require.ErrorIs(f, f.attrs["error"].Any().(error), errConnectionReset)
				f.instead(nil)
				f.until(6 * commandTimeout) // it is refused
				outage(f)
				f.until(6*commandTimeout + 2*pollInterval + 3*commandTimeout)
				f.warned(1)
				f.instead(nil)
				f.freeForOthers()
				<-waits.done
				require.NoError(f, waits.err)
				f.warned(0)
			})
		})
	}
}

func TestACallThatEndsIsNotToldToWait(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.newLock()
		f.hang()
		for _, wait := range []time.Duration{0, commandTimeout / 2, commandTimeout} {
			_, err := l.Acquire(context.Background(), Terms{Op: "lock", Limited: true, Wait: wait})
			require.Equal(f, unavailable, f.classOf(err))
		}
		f.warned(0)
		f.instead(nil)
		f.until(time.Minute)
	})
}

func TestAnAwaitWithoutAnAnswerIsTold(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		f.set(1)
		l := f.latch(f.client())
		f.refuseConnections()
		f.await(l, commandTimeout).failed(fault.ErrUnavailable, commandTimeout)
		f.warned(0)
		first, second := f.await(l), f.await(l)
		f.until(3 * commandTimeout)
		f.warned(1)
		f.instead(nil)
		f.set(0)
		<-first.done
		<-second.done
		require.NoError(f, first.err)
		require.NoError(f, second.err)
	})
}

// events is an observer that collects the sorts of events.
type events struct {
	observe.Observer

	seen []notice.Event
}

func (e *events) Event(of observe.Event)                                       { e.seen = append(e.seen, of.Event) }
func (e *events) Start(ctx context.Context, _ observe.Started) context.Context { return ctx }
func (e *events) End(context.Context, observe.Result)                          {}
func (e *events) Client(any, bool)                                             {}

// An alert counts the events of the last minutes, and must not end before the silence does.
func TestAnObserverIsToldOfASilenceEachMinute(t *testing.T) {
	run(t, func(f *fixture) {
		e := &events{}
		c := f.client(func(cfg *Config) { cfg.Observers = []observe.Observer{e} })
		l := f.lock(c, wire.Plain)
		f.refuseConnections()
		waits := f.async(func() error { return acquire(f.Context(), l) })
		f.until(commandTimeout + 10*time.Minute + 30*time.Second)
		require.Len(f, e.seen, 1+10)
		require.Equal(f, notice.Unanswered, e.seen[0])
		f.warned(1)
		f.instead(nil)
		<-waits.done
		require.NoError(f, waits.err)
	})
}
