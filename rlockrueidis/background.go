package rlockrueidis

import (
	"context"
	"sync"

	"github.com/go-rlock/rlock/internal/task"
)

// background is what a driver does beside its commands.
type background struct {
	over    context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex // held while a job begins, and while Close ends the context: then no job begins any more
	running sync.WaitGroup
}

func newBackground() *background {
	over, end := context.WithCancel(context.Background())
	return &background{over: over, end: end}
}

// run runs a job on another goroutine. The job must return soon after its context has ended. run reports false once Close was called:
// then the job does not run.
func (b *background) run(job func(over context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over.Err() != nil {
		return false
	}
	b.running.Go(func() { job(b.over) })
	return true
}

// close ends all jobs, and waits for them until ctx ends.
func (b *background) close(ctx context.Context) {
	b.mu.Lock()
	b.end()
	b.mu.Unlock()
	task.Await(ctx, &b.running)
}
