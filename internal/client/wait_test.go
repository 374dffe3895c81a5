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
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// traced is a driver that keeps what the context of each command has of the observer.
type traced struct {
	*client

	mu   sync.Mutex
	seen []any
}

func (d *traced) Run(ctx context.Context, at driver.Node, c wire.Call) wire.Reply {
	d.mu.Lock()
	d.seen = append(d.seen, ctx.Value(spanKey{}))
	d.mu.Unlock()
	return d.client.Run(ctx, at, c)
}

// spans returns what the contexts of the commands so far had.
func (d *traced) spans() []any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

// span is an observer that adds a value to the contexts of acquisitions, and keeps how they ended.
type span struct {
	observe.Base

	ended []observe.AcquireEnd
}

type spanKey struct{}

func (s *span) AcquireStart(ctx context.Context, _ observe.AcquireStart) context.Context {
	return context.WithValue(ctx, spanKey{}, s)
}
func (s *span) AcquireEnd(_ context.Context, r observe.AcquireEnd) { s.ended = append(s.ended, r) }

// everyWait runs a test for each method that waits for Redis: of a lock, of a semaphore that the method sets up, and of a latch.
func everyWait(t *testing.T, test func(f *fixture, d *traced, s *span, call func(ctx context.Context, t Terms) error)) {
	t.Helper()
	for what, method := range map[string]func(m *Client) func(ctx context.Context, t Terms) error{
		"lock": func(m *Client) func(ctx context.Context, t Terms) error {
			l := new(Lock)
			tabled(l, m, wire.Plain, name, name)
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
		require.NotEmpty(f, d.spans())
		for _, of := range d.spans() {
			require.Same(f, s, of)
		}
	})
}

// Once a semaphore is set up, a failure of before that says nothing about the call.
func TestAFailureBeforeTheSetUpIsForgotten(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		s := new(Semaphore)
		s.Init(f.client(), wire.Permit, name, name)
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
