package main

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/go-rlock/rlock"
)

// schedule runs the scheduler on one process out of all that call it, until ctx ends. When that one ends, or dies, or loses Redis, another
// one goes on. A scheduler that was shut down cannot be started again, so each term has its own.
func schedule(ctx context.Context, election *rlock.Election, newScheduler func() (*asynq.Scheduler, error)) error {
	return election.Run(ctx, func(ctx context.Context, _ rlock.Token) error {
		scheduler, err := newScheduler()
		if err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil { // not Run, which would wait for a signal
			return err
		}
		<-ctx.Done() // it does not lead any more, or the service ends
		scheduler.Shutdown()
		return context.Cause(ctx)
	})
}
