package client

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/wire"
)

// traced is a driver that keeps the context of each command.
type traced struct {
	*client

	mu   sync.Mutex
	seen []context.Context // these tests look at their values
}

func (d *traced) Run(ctx context.Context, at driver.Node, c wire.Call) wire.Reply {
	d.mu.Lock()
	d.seen = append(d.seen, ctx)
	d.mu.Unlock()
	return d.client.Run(ctx, at, c)
}

// contexts returns the contexts of the commands so far.
func (d *traced) contexts() []context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

// span is an observer that adds a value to the contexts of acquisitions, and keeps how they ended.
type span struct {
	events

	ended []observe.Result
}

type spanKey struct{}

func (s *span) Start(ctx context.Context, _ observe.Started) context.Context {
	return context.WithValue(ctx, spanKey{}, s)
}
func (s *span) End(_ context.Context, r observe.Result) { s.ended = append(s.ended, r) }

// everyWait runs a test for each method that waits for Redis: of a lock, of a semaphore that the method sets up, and of a latch.
func everyWait(t *testing.T, test func(f *fixture, d *traced, s *span, call func(ctx context.Context, t Terms) error)) {
	t.Helper()
	for what, method := range map[string]func(m *Client) func(ctx context.Context, t Terms) error{
		"lock": func(m *Client) func(ctx context.Context, t Terms) error {
			l := new(Lock)
			l.Init(m, wire.Plain, name, name)
			return func(ctx context.Context, t Terms) error {
				_, err := l.Take(ctx, t)
				return err
			}
		},
		"set-up": func(m *Client) func(ctx context.Context, t Terms) error {
			s := new(Semaphore)
			s.Init(m, wire.Permit, name, name)
			_ = s.Total(1)
			return func(ctx context.Context, t Terms) error {
				_, err := s.Take(ctx, t)
				return err
			}
		},
		"latch": func(m *Client) func(ctx context.Context, t Terms) error {
			l := new(Latch)
			l.Init(m, name, name)
			return l.Await
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			runLine(t, func(f *fixture) {
				f.info.Dials = new(driver.Dials)
				s, d := new(span), &traced{client: &client{server: f.server, info: f.info}}
				f.drivers = append(f.drivers, d.client)
				cfg := testConfig()
				cfg.Observers = []observe.Observer{s}
				cfg.Logger = f.client().cfg.Logger
				m := New(cfg, d)
				f.clients = append(f.clients, m)
				test(f, d, s, func(ctx context.Context, t Terms) error {
					t.Op = "lock"
					return method(m)(ctx, t)
				})
				f.instead(nil)
				f.until(time.Minute) // what goes on in the background ends
			})
		})
	}
}

func TestEveryWaitTellsASilenceInTime(t *testing.T) {
	t.Parallel()
	everyWait(t, func(f *fixture, _ *traced, _ *span, call func(ctx context.Context, t Terms) error) {
		ctx, cancel := context.WithCancel(f.Context())
		f.refuseConnections()
		waits := f.async(func() error { return call(ctx, Terms{}) })
		f.until(commandTimeout - time.Millisecond)
		f.warned(0)
		f.until(commandTimeout + time.Second + jitter) // the longest pause between two questions
		f.warned(1)
		f.until(3 * commandTimeout)
		f.warned(0)
		cancel()
		waits.failed(fault.ErrUnavailable, 3*commandTimeout)
	})
}

func TestEveryWaitIsCounted(t *testing.T) {
	t.Parallel()
	everyWait(t, func(f *fixture, _ *traced, s *span, call func(ctx context.Context, t Terms) error) {
		const most = 3 * time.Second
		f.refuseConnections()
		waits := f.async(func() error { return call(f.Context(), Terms{Limited: true, Wait: most}) })
		synctest.Wait()
		require.Equal(f, 1, f.clients[1].table.Counts().Waiting)
		waits.failed(fault.ErrUnavailable, most)
		require.Zero(f, f.clients[1].table.Counts().Waiting)
		require.Len(f, s.ended, 1)
		require.Equal(f, most, s.ended[0].Waited)
	})
}

func TestTheCommandsOfEveryWaitHaveTheValuesOfItsObservers(t *testing.T) {
	t.Parallel()
	everyWait(t, func(f *fixture, d *traced, s *span, call func(ctx context.Context, t Terms) error) {
		f.refuseConnections()
		require.ErrorIs(f, call(f.Context(), Terms{Limited: true}), fault.ErrUnavailable)
		require.NotEmpty(f, d.contexts())
		for _, ctx := range d.contexts() {
			require.Same(f, s, ctx.Value(spanKey{}))
		}
	})
}

func TestEverySingleAttemptMayConnectFirst(t *testing.T) {
	t.Parallel()
	everyWait(t, func(f *fixture, _ *traced, _ *span, call func(ctx context.Context, t Terms) error) {
		f.instead(func(string, func() wire.Reply) wire.Reply {
			f.info.Dials.Begin()(true) // a server that accepts connections, and hangs
			time.Sleep(commandTimeout)
			return network()
		})
		f.async(func() error { return call(f.Context(), Terms{Limited: true}) }).ends(unavailable, 2*floor)
		f.async(func() error { return call(f.Context(), Terms{Limited: true}) }).ends(unavailable, 3*floor)
	})
}

// Once a semaphore is set up, a failure of before that says nothing about the call.
func TestAFailureBeforeTheSetUpIsForgotten(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		s := new(Semaphore)
		s.Init(f.client(), wire.PlainPermit, name, name)
		require.NoError(f, s.Total(1))
		loads := true
		f.instead(func(command string, run func() wire.Reply) wire.Reply {
			switch {
			case command != "set up":
				time.Sleep(commandTimeout)
				return network()
			case loads:
				loads = false
				return busy()
			}
			return run()
		})
		ctx, cancel := context.WithCancel(f.Context())
		r := f.async(func() error { _, err := s.Take(ctx, Terms{Op: "acquire"}); return err })
		f.until(floor / 2)
		require.False(f, loads)
		cancel()
		<-r.done
		require.ErrorIs(f, r.err, context.Canceled)
		require.Equal(f, neither, f.classOf(r.err), "%v", r.err)
		f.instead(nil)
		f.until(time.Minute)
	})
}

// The answer to a set-up ends a silence, although the acquisition after it may meet another one.
func TestASetUpEndsASilence(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		s := new(Semaphore)
		s.Init(f.client(), wire.PlainPermit, name, name)
		require.NoError(f, s.Total(1))
		const works = 3 * time.Second
		f.instead(func(command string, run func() wire.Reply) wire.Reply {
			if command == "set up" && time.Since(f.start) >= works {
				return run()
			}
			return network()
		})
		ctx, cancel := context.WithCancel(f.Context())
		r := f.async(func() error { _, err := s.Take(ctx, Terms{Op: "acquire"}); return err })
		f.until(works + commandTimeout - time.Millisecond)
		f.warned(0)
		f.until(works + commandTimeout + 2*(time.Second+jitter)) // the longest pauses before the set-up, and between two questions
		f.warned(1)
		cancel()
		<-r.done
		f.instead(nil)
		f.until(time.Minute)
	})
}
