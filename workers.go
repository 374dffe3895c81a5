package rlock

import (
	"context"
	"errors"
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

// stop ends the workers. It waits for them if they have nothing left to do; one that hangs in a command ends with it.
func (w *workers) stop(idle bool) {
	close(w.stopped)
	if idle {
		w.running.Wait()
	}
}

const (
	callRunning = iota
	callReturned
	callAbandoned
)

// exec runs a command and returns nil when it has come back. When ctx ends first it returns the context's error, and
// errNoAnswer after the command timeout; the command then goes on, and late is called when it does come back, or with
// no command at all if it was not sent. A command that nobody can walk away from runs in place.
func (c *Client) exec(ctx context.Context, command func(context.Context), late func()) error {
	background, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.commandTimeout, errNoAnswer)
	if c.bounded && ctx.Done() == nil {
		defer cancel()
		command(background)
		return nil
	}
	if err := c.begin(); err != nil {
		// Closed: only unlocks come here, and they run in the goroutine of their caller.
		defer cancel()
		command(background)
		return nil
	}
	var state atomic.Int32
	returned := make(chan struct{})
	c.workers.run(func() {
		defer c.end()
		defer cancel()
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
	case <-background.Done():
		err = errNoAnswer
	}
	if state.CompareAndSwap(callRunning, callAbandoned) {
		return err
	}
	<-returned
	return nil
}

// place takes one of the places for acquisitions, and returns the function that gives it back.
func (c *Client) place(ctx context.Context) (func(), error) {
	if c.acquiring == nil {
		return func() {}, nil
	}
	free := func() { <-c.acquiring }
	select {
	case c.acquiring <- struct{}{}:
		return free, nil
	default:
	}
	select {
	case c.acquiring <- struct{}{}:
		return free, nil
	case <-ctx.Done():
		return nil, errors.Join(errNotSent, ctx.Err())
	case <-c.done:
		return nil, errors.Join(errNotSent, ErrClosed)
	}
}
