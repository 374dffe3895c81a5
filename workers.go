package rlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// workers run the commands that their callers must be able to walk away from. They are goroutines that stay for a
// second after their last command, because a new one would first have to grow its stack for go-redis.
type workers struct {
	jobs    chan func()
	stopped chan struct{}
	running sync.WaitGroup
}

const workerLinger = time.Second

func newWorkers() *workers {
	return &workers{jobs: make(chan func()), stopped: make(chan struct{})}
}

func (w *workers) run(job func()) {
	select {
	case w.jobs <- job:
	default:
		w.running.Go(func() { w.work(job) })
	}
}

func (w *workers) work(job func()) {
	idle := time.NewTimer(workerLinger)
	defer idle.Stop()
	for {
		job()
		idle.Reset(workerLinger)
		select {
		case job = <-w.jobs:
		case <-idle.C:
			return
		case <-w.stopped:
			return
		}
	}
}

// stop ends the workers, and waits for them until ctx ends; one that hangs in a command ends with that.
func (w *workers) stop(ctx context.Context) {
	close(w.stopped)
	await(ctx, &w.running)
}

// await waits for goroutines until ctx ends.
func await(ctx context.Context, running *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

const (
	callRunning = iota
	callReturned
	callAbandoned
)

// exec runs a command and returns nil when it has come back. When ctx ends first it returns the context's error, and
// errNoAnswer after the command timeout; the command then goes on, and late is called when it does come back. A command
// that nobody can walk away from runs in place.
func (c *Client) exec(ctx context.Context, command func(context.Context), late func()) error {
	if c.inPlace(ctx) {
		command(c.bound(ctx))
		return nil
	}
	background := c.bound(context.WithoutCancel(ctx))
	c.mu.Lock()
	c.active++
	c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		defer c.end()
		return err
	}
	var expired <-chan time.Time // for a command that go-redis may not end in time
	if !c.bounded {
		timeout := time.NewTimer(c.commandTimeout)
		defer timeout.Stop()
		expired = timeout.C
	}
	var state atomic.Int32
	returned := make(chan struct{})
	c.workers.run(func() {
		defer c.end()
		command(background)
		if !state.CompareAndSwap(callRunning, callReturned) {
			late()
		}
		close(returned)
	})
	var err error
	select {
	case <-returned:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-expired:
		err = errNoAnswer
		c.sawError(err)
	}
	if state.CompareAndSwap(callRunning, callAbandoned) {
		return err
	}
	<-returned
	return nil
}

// inPlace tells whether a command runs in its caller's goroutine: nobody can walk away from it, or the client is closed, and
// then its caller's goroutine is all that is left to an unlock.
func (c *Client) inPlace(ctx context.Context) bool {
	if c.bounded && ctx.Done() == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retired()
}

// bound returns the context with which a command is sent.
func (c *Client) bound(ctx context.Context) context.Context {
	return deadlineOnly{ctx, time.Now().Add(c.commandTimeout)}
}

// background runs a job on a worker that Close waits for; in place once nobody would wait any more.
func (c *Client) background(job func()) {
	c.mu.Lock()
	inPlace := c.retired()
	if !inPlace {
		c.active++
	}
	c.mu.Unlock()
	if inPlace {
		job()
		return
	}
	c.workers.run(func() {
		defer c.end()
		job()
	})
}

// place is one of the connections that are not for renewals alone; it must be given back.
type place chan struct{}

func (p place) free() {
	if p != nil {
		<-p
	}
}

// place takes a place at the node that has a key. It returns errNotSent when ctx ends first, or the client is closed.
func (c *Client) place(ctx context.Context, key string) (place, error) {
	if c.places == 0 {
		return nil, nil
	}
	addr := ""
	if c.cluster != nil {
		node, err := c.cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		c.routed.Store(true)
		addr = node.Options().Addr
	}
	v, ok := c.taken.Load(addr)
	if !ok {
		v, _ = c.taken.LoadOrStore(addr, make(place, c.places))
	}
	taken := v.(place) //nolint:forcetypeassert // nothing else is stored
	select {
	case taken <- struct{}{}:
		return taken, nil
	default:
	}
	select {
	case taken <- struct{}{}:
		return taken, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errNotSent, ctx.Err())
	case <-c.done:
		return nil, fmt.Errorf("%w: %w", errNotSent, ErrClosed)
	}
}

// deadlineOnly is a context with a deadline that never ends: nobody waits for what it bounds. It costs no timer.
type deadlineOnly struct {
	context.Context //nolint:containedctx // it is one
	deadline        time.Time
}

// Done is nil.
func (deadlineOnly) Done() <-chan struct{} { return nil }

// Err is nil.
func (deadlineOnly) Err() error { return nil }

// Deadline is asked by whoever connects, and by go-redis where ContextTimeoutEnabled is set.
func (d deadlineOnly) Deadline() (time.Time, bool) { return d.deadline, true }
