// Cron runs a job once for each tick, although every instance of a service has the same schedule.
//
// The first instance takes the tick's lock, and AtLeast keeps it taken for longer than the clocks of the instances differ. A late instance
// therefore finds the tick taken, even if the job is already done.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

const (
	instances = 3
	ticks     = 5
	interval  = 100 * time.Millisecond
	skew      = 2 * time.Second // a generous bound on how much the clocks of the instances differ
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	rdb, where, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	fmt.Printf("%d instances have the same schedule and share %s.\n\n", instances, where)

	name := "cron:" + uuid.NewString()
	var mu sync.Mutex
	runs := make(map[int]int) // by tick
	var wg sync.WaitGroup
	for instance := range instances {
		locks, err := rlock.New(rdb)
		if err != nil {
			return err
		}
		defer func() { _ = locks.Close() }()
		wg.Go(func() {
			for tick := range ticks {
				time.Sleep(interval + rand.N(interval/2)) // the clocks differ
				lock := locks.NewLock(fmt.Sprintf("%s:%d", name, tick))
				ran, err := lock.TryDo(ctx, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					runs[tick]++
					fmt.Printf("  tick %d: instance %d sends the report\n", tick, instance+1)
					return nil
				}, rlock.AtLeast(skew))
				if !ran && err != nil { // without an error, another instance has this tick
					fmt.Println("  tick", tick, "could not be acquired:", err)
				}
			}
		})
	}
	wg.Wait()
	for tick := range ticks {
		if runs[tick] != 1 {
			return fmt.Errorf("the job of tick %d ran %d times", tick, runs[tick])
		}
	}
	fmt.Println("\nEach tick's job ran once.")
	return nil
}
