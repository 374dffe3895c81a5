package rlock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/observe"
)

// A process that gets SIGTERM lets its critical sections wind up. The next process has their locks at once, and not after a
// lease.
func ExampleClient_Shutdown() {
	locks, _, end := exampleLocks()
	defer end()
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	var sections sync.WaitGroup
	started := make(chan struct{})
	sections.Go(func() {
		err := locks.NewLock("import").Do(context.Background(), func(ctx context.Context) error {
			close(started)
			<-ctx.Done() // the signal to wind up; the lock is still held
			fmt.Println("winds up:", context.Cause(ctx))
			return nil
		})
		fmt.Println("unlocked:", err)
	})
	<-started

	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		log.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil { // in production, the next deploy does this
		log.Fatal(err)
	}

	<-terminated.Done()
	stop()                                                                   // a second signal ends the process at once
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // the orchestrator allows 30
	defer cancel()
	if err := locks.Shutdown(ctx); err != nil {
		log.Print(err) // says how many locks are still held
	}
	sections.Wait()
	// Output:
	// winds up: rlock: client is closed
	// unlocked: <nil>
}

// waits is an observer that remembers for how long each name was waited for.
type waits struct {
	observe.Base

	longest map[string]time.Duration
}

func (w *waits) AcquireEnd(_ context.Context, d observe.AcquireEnd) {
	fmt.Println(d.Op, d.Name, d.Outcome)
	w.longest[d.Name] = max(w.longest[d.Name], d.Took) // a real one has a mutex
}

func (*waits) HoldEnd(_ context.Context, d observe.HoldEnd) {
	fmt.Println("held", d.Name, d.End)
}

// An observer is told how each acquisition went, and how each hold ended.
func ExampleWithObserver() {
	_, rdb, end := exampleLocks()
	defer end()
	locks, err := rlock.New(rdb, rlock.WithObserver(&waits{longest: make(map[string]time.Duration)}))
	if err != nil {
		log.Fatal(err)
	}
	err = locks.NewLock("import").Do(context.Background(), func(context.Context) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	_ = locks.Close() // waits until the observer was told of the end of the hold
	// Output:
	// do import acquired
	// held import unlocked
}
