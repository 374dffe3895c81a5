package task

import (
	"context"
	"sync"
	"time"
)

// Job is work for a worker.
type Job interface{ Run() }

// Func is a function as a [Job].
type Func func()

// Run calls the function.
func (f Func) Run() { f() }

// workers are goroutines that stay for a second after their last job, because a new one would first have to grow its
// stack for the client library.
type workers struct {
	jobs    chan Job
	stopped chan struct{}

	// mu is held to start and to stop workers. Otherwise Stop could miss a new worker, or its wait could panic.
	mu      sync.Mutex
	running sync.WaitGroup
	ended   bool
}

const workerLinger = time.Second

// Run runs a job on a worker. The caller must have begun an operation or duty for it, unless Close need not wait for the
// job, such as a log line. Run does not end that operation or duty.
func (g *Group) Run(job Job) {
	w := &g.workers
	select {
	case w.jobs <- job:
		return
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended { // Stop does not wait for a late log line
		go w.work(job)
		return
	}
	w.running.Go(func() { w.work(job) })
}

// Background runs a function on a worker that Close waits for. Once Close no longer waits, it runs the function in place.
func (g *Group) Background(job func()) {
	if !g.Keep() {
		job()
		return
	}
	g.Run(Func(func() {
		defer g.End()
		job()
	}))
}

// Stop ends the workers, and waits for them until ctx ends. A worker that hangs in a command ends with that command.
func (g *Group) Stop(ctx context.Context) {
	w := &g.workers
	w.mu.Lock()
	w.ended = true
	close(w.stopped)
	w.mu.Unlock()
	Await(ctx, &w.running)
}

// Stopped returns a channel that Stop closes. A job that is waiting must return when it is closed.
func (g *Group) Stopped() <-chan struct{} { return g.workers.stopped }

func (w *workers) work(job Job) {
	idle := time.NewTimer(workerLinger)
	defer idle.Stop()
	for {
		job.Run()
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
