package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock"
)

// pause is the time between two looks at an empty queue.
const pause = 50 * time.Millisecond

// worker does jobs, one at a time.
type worker struct {
	name  string
	queue *queue
	locks *rlock.Client
	lease time.Duration // of its locks
	takes time.Duration // how long it takes to transcode a video
}

// run does jobs until ctx ends. A job that fails is delivered again.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		j, err := w.queue.next(ctx, w.lease)
		if err == nil {
			err = w.do(ctx, j)
		}
		switch {
		case errors.Is(err, sql.ErrNoRows):
			time.Sleep(pause)
		case err != nil && ctx.Err() == nil:
			fmt.Printf("%s: %s: %v\n", w.name, j.video, err)
			time.Sleep(20 * pause)
		}
	}
}

// do does a job under the lock of its video.
func (w *worker) do(ctx context.Context, j job) error {
	hold, err := w.lock(ctx, j)
	if err != nil {
		return err
	}
	defer func() { _ = hold.Unlock(ctx) }()
	if begun, err := w.queue.begin(ctx, j, hold.Token()); err != nil || !begun {
		return err
	}
	fmt.Printf("%s works on %s, token %d\n", w.name, j.video, hold.Token())
	result := w.transcode(j)

	// The lock may be lost by now. The result is good nevertheless, unless another worker has begun this job: the token decides. So the
	// context is not hold.Context(). It does not end either when this process is told to end, because the work is done.
	if err := w.queue.finish(context.WithoutCancel(ctx), j, hold.Token(), result); err != nil {
		return err
	}
	fmt.Printf("%s has written %s, token %d\n", w.name, j.video, hold.Token())
	return nil
}

// lock gets the lock of a job's video: from whoever enqueued the job, or else as anybody does.
func (w *worker) lock(ctx context.Context, j job) (*rlock.Hold, error) {
	lock := w.locks.NewLock(j.video, rlock.Fenced())
	hold, err := lock.Adopt(ctx, j.ticket, rlock.RenewedLease(w.lease))
	if !errors.Is(err, rlock.ErrNotHeld) {
		return hold, err
	}
	// The ticket waited for too long, or it was used: the job is delivered again, and the worker that had it before is dead, or paused,
	// or still at work. Then the lock is taken until that worker's lease ends. After a while it is better to do another job.
	fmt.Printf("%s locks %s without a ticket\n", w.name, j.video)
	return lock.Acquire(ctx, rlock.RenewedLease(w.lease), rlock.Wait(2*w.lease))
}

// transcode stands for a program that nobody can interrupt. Work that can be should end with hold.Context(), to save time.
func (w *worker) transcode(j job) string {
	time.Sleep(w.takes)
	return fmt.Sprintf("%s in %s, by %s", j.video, j.format, w.name)
}
