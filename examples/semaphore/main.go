// Semaphore lets each tenant of a service have at most three exports at a time, on all machines together.
//
// There is one semaphore for each tenant. A long export keeps its permit: the client renews it. If the machine dies, the permit is
// free again when its lease is over. A caller that waits too long learns that the tenant is busy.
package main

import (
	"context"
	"errors"
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
	machines = 4
	exports  = 5 // that each machine wants to run for the tenant
	allowed  = 3
	patient  = 10 * time.Second
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	rdb, where, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	fmt.Printf("%d machines share %s. The tenant may have %d exports at a time.\n\n", machines, where, allowed)

	name := "exports:" + uuid.NewString() // of the tenant
	var running, most atomic.Int32
	errs := make(chan error, machines*exports)
	var wg sync.WaitGroup
	for machine := range machines {
		locks, err := rlock.New(rdb) // each machine is a process of its own in a real service
		if err != nil {
			return err
		}
		defer func() { _ = locks.Close() }()
		slots := locks.NewSemaphore(name, rlock.Total(allowed)) // kept, not made for each use
		for export := range exports {
			wg.Go(func() {
				errs <- slots.Do(ctx, func(ctx context.Context) error {
					now := running.Add(1)
					defer running.Add(-1)
					for high := most.Load(); now > high && !most.CompareAndSwap(high, now); high = most.Load() {
					}
					fmt.Printf("  machine %d runs export %d; %d are running\n", machine+1, export+1, now)
					return work(ctx)
				}, rlock.Wait(patient))
			})
		}
	}
	wg.Wait()
	for range machines * exports {
		switch err := <-errs; {
		case errors.Is(err, rlock.ErrNotAcquired):
			return fmt.Errorf("the tenant is busy: %w", err)
		case err != nil:
			return err
		}
	}
	if n := most.Load(); n > allowed {
		return fmt.Errorf("%d exports ran at a time", n)
	}
	fmt.Printf("\n%d exports, and never more than %d at a time.\n", machines*exports, allowed)
	return nil
}

// work runs one export. It stops when the permit is lost.
func work(ctx context.Context) error {
	select {
	case <-time.After(rand.N(100 * time.Millisecond)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
