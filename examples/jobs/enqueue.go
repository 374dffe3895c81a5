package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock"
)

// enqueue enqueues a job together with the lock of its video, as the handler of a request would. From the moment in which it gets the lock
// to the end of the job, nobody else has that lock, although this process ends long before. If no worker takes the job within the
// delay, the lock is free again.
func enqueue(ctx context.Context, q *queue, locks *rlock.Client, video, format string, delay time.Duration) error {
	lock := locks.NewLock(video, rlock.Fenced())
	hold, err := lock.TryAcquire(ctx)
	switch {
	case errors.Is(err, rlock.ErrNotAcquired):
		return fmt.Errorf("%s is in use, or has a job: %w", video, err)
	case err != nil:
		return err
	}
	defer func() { _ = hold.Unlock(ctx) }() // does nothing after Export

	// Here a handler looks at the video, and decides whether there is something to do.

	ticket, err := hold.Export(ctx, rlock.Lease(delay))
	if err != nil {
		return err
	}
	if err = q.add(ctx, video, format, ticket, hold.Token()); err != nil {
		// Nobody else has the ticket, so the lock would be taken until the delay is over.
		if back, failed := lock.Adopt(context.WithoutCancel(ctx), ticket); failed == nil {
			_ = back.Unlock(ctx)
		}
	}
	return err
}
