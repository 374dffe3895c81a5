// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"context"
	"sync"

	"github.com/go-rlock/rlock/internal/task"
)

// background is what a driver does beside its commands.
type background struct {
	mu      sync.Mutex // held while a job begins, and while Close ends them: then no job begins any more
	closed  bool
	ends    map[*context.CancelFunc]struct{} // of the jobs that run
	running sync.WaitGroup
}

// run runs a job on another goroutine. The job must return soon after its context has ended. run reports false once Close was called:
// then the job does not run.
func (b *background) run(job func(over context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	over, end := context.WithCancel(context.Background())
	if b.ends == nil {
		b.ends = make(map[*context.CancelFunc]struct{})
	}
	b.ends[&end] = struct{}{}
	b.running.Go(func() {
		defer func() {
			end()
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.ends, &end)
		}()
		job(over)
	})
	return true
}

// close ends all jobs, and waits for them until ctx ends.
func (b *background) close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	for end := range b.ends {
		(*end)()
	}
	b.mu.Unlock()
	task.Await(ctx, &b.running)
}
