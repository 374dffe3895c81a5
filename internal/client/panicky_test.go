package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// panicky is a context that panics in one of its methods, from some call of that on.
type panicky struct {
	context.Context
	method string
	calls  *atomic.Int64 // before it panics
}

func (c panicky) panics(method string) {
	if c.method == method && c.calls.Add(-1) < 0 {
		panic("a bug in a context")
	}
}

func (c panicky) Err() error            { c.panics("Err"); return c.Context.Err() }
func (c panicky) Done() <-chan struct{} { c.panics("Done"); return c.Context.Done() }
func (c panicky) Value(key any) any     { c.panics("Value"); return c.Context.Value(key) }
func (c panicky) Deadline() (time.Time, bool) {
	c.panics("Deadline")
	return c.Context.Deadline()
}

// A context that panics ends its call. Close does not wait for what the call has begun.
func TestWhatACallBeganEndsAlsoIfItsContextPanics(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, f *fixture, c *Client){
		"try": func(ctx context.Context, f *fixture, c *Client) {
			_, _ = f.lock(c, wire.Plain).Acquire(ctx, Terms{Op: "try", Limited: true})
		},
		"fair": func(ctx context.Context, f *fixture, c *Client) {
			_, _ = f.lock(c, wire.Fair).Acquire(ctx, Terms{Op: "lock", Limited: true, Wait: time.Second})
		},
		"held": func(ctx context.Context, f *fixture, c *Client) {
			_, _ = f.lock(c, wire.Plain).Acquire(ctx, Terms{Op: "lock", Limited: true, Wait: 10 * time.Second})
		},
		"query": func(ctx context.Context, f *fixture, c *Client) { _, _ = f.lock(c, wire.Plain).IsLocked(ctx) },
		"force": func(ctx context.Context, f *fixture, c *Client) { _, _ = f.lock(c, wire.Plain).ForceUnlock(ctx, nil) },
		"count down": func(ctx context.Context, _ *fixture, c *Client) {
			l := new(Latch)
			l.Init(c, "latch", "latch")
			_, _ = l.CountDown(ctx)
		},
		"await": func(ctx context.Context, _ *fixture, c *Client) {
			l := new(Latch)
			l.Init(c, "latch", "latch")
			_, _ = l.TrySetCount(context.Background(), 1)
			_ = l.Await(ctx, Terms{Op: "await", Limited: true, Wait: 10 * time.Second})
		},
		"extend": func(ctx context.Context, f *fixture, c *Client) {
			h := f.hold(context.Background(), f.lock(c, wire.Plain), Terms{})
			defer h.Unlock(context.Background())
			_ = h.Extend(ctx, time.Minute, nil)
		},
		"export": func(ctx context.Context, f *fixture, c *Client) {
			h := f.hold(context.Background(), f.lock(c, wire.Plain), Terms{})
			defer h.Unlock(context.Background())
			_, _ = h.Export(ctx, Terms{Op: "export"})
		},
		"permits": func(ctx context.Context, _ *fixture, c *Client) {
			s := new(Semaphore)
			s.Init(c, wire.PlainPermit, "permits", "permits")
			_ = s.Total(1)
			_, _ = s.Take(ctx, Terms{Op: "acquire", ByHold: true})
		},
	}
	for what, call := range calls {
		for _, method := range []string{"Err", "Done", "Value", "Deadline"} {
			for after := range int64(6) {
				t.Run(fmt.Sprint(what, "/", method, "/", after), func(t *testing.T) {
					runLine(t, func(f *fixture) {
						f.leftover = true
						c := f.client()
						var n atomic.Int64
						n.Store(after)
						if what == "held" {
							f.takeForOthers(5 * time.Second)
						}
						ctx, cancel := context.WithCancel(context.Background())
						defer cancel()
						func() {
							defer func() { _ = recover() }()
							call(panicky{ctx, method, &n}, f, c)
						}()
						f.until(20 * time.Minute)
						require.Zero(f, c.tasks.Count(), "operations under way")
					})
				})
			}
		}
	}
}
