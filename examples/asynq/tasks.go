package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/go-rlock/rlock"
)

// errNotRun means that the handler was not called, because its lock could not be had.
var errNotRun = errors.New("the task was not run")

// onePerKey has one task of a key run at a time, on all servers: the key's lock is held while the handler runs. The handler's context ends if
// the lock is lost. A task without a key has no lock.
//
// A task whose key is taken waits for a moment, on its worker. Then it goes back to be retried, with errNotRun: see isFailure and retryDelay.
// A task that has no retry left would be archived by that, so it waits for its turn, until its timeout.
func onePerKey(locks *rlock.Client, key func(*asynq.Task) string, wait time.Duration) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			name := key(task)
			if name == "" {
				return next.ProcessTask(ctx, task)
			}
			began := false
			handle := func(ctx context.Context) error {
				began = true
				return next.ProcessTask(ctx, task)
			}
			lock := locks.NewLock("task:" + name)
			var err error
			if lastAttempt(ctx) {
				err = lock.Do(ctx, handle)
			} else {
				_, err = lock.TryDo(ctx, handle, rlock.Wait(wait))
			}
			switch {
			case began:
				return err
			case err != nil:
				return fmt.Errorf("%w: %w", errNotRun, err)
			}
			return fmt.Errorf("%w: another task of %q is running", errNotRun, name)
		})
	}
}

// noOverlap drops a task while another one of its key runs, as is right for a task that comes every minute. The handler's context ends if the
// lock is lost.
func noOverlap(locks *rlock.Client, key func(*asynq.Task) string) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			ran, err := locks.NewLock("task:"+key(task)).TryDo(ctx, func(ctx context.Context) error { return next.ProcessTask(ctx, task) })
			if !ran && err == nil {
				return fmt.Errorf("another task of %q is running: %w", key(task), asynq.RevokeTask)
			}
			return err
		})
	}
}

// lastAttempt reports whether an error, of whatever kind, would archive the task.
func lastAttempt(ctx context.Context) bool {
	retried, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return retried >= most
}

// isFailure is for [asynq.Config]: a task that was not run has used none of its retries.
func isFailure(err error) bool { return !errors.Is(err, errNotRun) }

// retryDelay is for [asynq.Config]: a task that was not run comes back soon. The delay of asynq is at least 15 s.
func retryDelay(n int, err error, task *asynq.Task) time.Duration {
	if errors.Is(err, errNotRun) {
		return time.Second
	}
	return asynq.DefaultRetryDelayFunc(n, err, task)
}
