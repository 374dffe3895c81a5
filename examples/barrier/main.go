// Barrier starts the workers of a service together: none begins before all of them are warm, on whatever machine they run.
//
// The latch has the name of the deployment, so each deployment has a latch of its own. Whichever worker comes first sets the
// count. A worker that never becomes warm does not hold up the others forever: they wait for a limited time. A worker that is
// restarted later would set a new count and wait in vain: let it see from elsewhere that the others have begun.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

const (
	workers = 5
	patient = time.Minute // longer than any worker needs to become warm
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	rdb, where, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	fmt.Printf("%d workers share %s.\n\n", workers, where)

	deployment := "start:" + uuid.NewString()
	var warm, early atomic.Int32
	errs := make(chan error, workers)
	var wg sync.WaitGroup
	for worker := range workers {
		locks, err := rlock.New(rdb) // each worker is a process of its own in a real service
		if err != nil {
			return err
		}
		defer func() { _ = locks.Close() }()
		wg.Go(func() {
			errs <- start(ctx, locks.NewCountDownLatch(deployment), worker+1, &warm)
			if warm.Load() < workers {
				early.Add(1)
			}
		})
	}
	wg.Wait()
	for range workers {
		if err := <-errs; err != nil {
			return err
		}
	}
	if n := early.Load(); n > 0 {
		return fmt.Errorf("%d workers began before all were warm", n)
	}
	fmt.Println("\nNo worker began before all were warm.")
	return nil
}

// start makes one worker warm, and returns when all are.
func start(ctx context.Context, latch *rlock.CountDownLatch, worker int, warm *atomic.Int32) error {
	// Before it becomes warm, so that no latch without a count lets anybody through.
	if _, err := latch.TrySetCount(ctx, workers); err != nil {
		return err
	}
	time.Sleep(rand.N(300 * time.Millisecond)) // it fills its caches
	warm.Add(1)
	left, err := latch.CountDown(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("  worker %d is warm, %d to go\n", worker, left)
	if err := latch.Await(ctx, rlock.Wait(patient)); err != nil {
		return fmt.Errorf("some worker is not warm: %w", err)
	}
	fmt.Printf("  worker %d begins\n", worker)
	return nil
}
