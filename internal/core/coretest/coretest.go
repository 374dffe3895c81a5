// Package coretest opens clients of internal/core by themselves, for its tests and for the simulation.
package coretest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/pubsub"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/watchdog"
)

// Client is a client with all that it uses.
type Client struct {
	*core.Client

	lease    time.Duration
	tasks    *task.Group
	dog      *watchdog.Watchdog
	hub      *pubsub.Hub
	stopping chan struct{}
	closing  sync.Once
}

// Open returns a client. Its numbers count from 1.
func Open(cfg core.Config, d driver.Driver) *Client {
	c := &Client{lease: cfg.WatchdogTimeout, tasks: task.New(), stopping: make(chan struct{})}
	var numbers atomic.Int64
	cfg.Number = func() int64 { return numbers.Add(1) }
	c.hub = pubsub.New(pubsub.Config{
		ClientID: cfg.ID, OnLost: func(error) {}, OnReplaced: func() {}, OnFreed: func(string) {}, OnUnwatched: func(string) {},
		OnMessage: func(channel, payload string, _ clock.Instant) { c.Stray(channel, payload) },
	}, d, c.tasks)
	if d.Info().Cluster {
		cfg.Publish = "s"
	}
	conn := transport.New(transport.Config{CommandTimeout: cfg.CommandTimeout, Crowd: -1, Slots: d.Info().Slots}, d, c.tasks)
	c.Client = core.New(cfg, core.Parts{Conn: conn, Hub: c.hub, Tasks: c.tasks, Receiver: receiver{c}, Stopping: c.stopping})
	c.dog = watchdog.Of(watchdog.Config{CommandTimeout: cfg.CommandTimeout}, c.Client, conn, c.tasks)
	return c
}

// receiver is what a client needs of those above it.
type receiver struct{ c *Client }

// Alarm implements [notice.Receiver], as do the other methods.
func (r receiver) Alarm(at clock.Instant) { r.c.dog.Alarm(at) }

// Unlisten ends nothing: nobody listens alone.
func (receiver) Unlisten(string, chan struct{}) {}

// Watch watches nothing.
func (receiver) Watch(string, string) {}

// Unwatch ends nothing.
func (receiver) Unwatch(string, string) {}

// Pump sends nothing.
func (receiver) Pump(string, time.Duration) {}

// Log logs nothing.
func (receiver) Log(notice.Entry) {}

// Acquire takes a lock, or waits for it until ctx ends. A lease of 0 is that of the watchdog, renewed.
func (c *Client) Acquire(ctx context.Context, t core.Terms) (*core.Hold, error) {
	t.Name, t.Denied, t.Context = t.Key, func(err error) error { return err }, func(bool) context.Context { return ctx }
	if t.Kind == nil {
		t.Kind = core.Plain
	}
	if t.Lease == 0 {
		t.Lease, t.Renewed = c.lease, true
	}
	if !c.tasks.Begin() {
		return nil, fault.ErrClosed
	}
	defer c.tasks.End()
	h, out := c.Client.Acquire(&t)
	switch {
	case h != nil:
		return h, nil
	case out.Err != nil:
		return nil, out.Err
	case c.tasks.IsClosed():
		return nil, fault.ErrClosed
	case ctx.Err() != nil && out.Last.Refused:
		return nil, fmt.Errorf("%w: %w", fault.ErrRefused, ctx.Err())
	case out.Last.Refused:
		return nil, fault.ErrRefused
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", fault.ErrUnavailable, ctx.Err())
	}
	return nil, fault.ErrUnavailable
}

// Close ends all waits, and waits for the releases in the background until ctx ends.
func (c *Client) Close(ctx context.Context) {
	c.closing.Do(func() {
		var n notice.List
		c.Client.Close(&n, fault.ErrClosed)
		c.hub.Leave()
		c.tasks.Close()
		close(c.stopping)
		n.Deliver(receiver{c})
		c.tasks.Wait(ctx)
		c.dog.Stop(ctx)
		c.hub.Stop(ctx)
		c.tasks.Stop(ctx)
	})
}
