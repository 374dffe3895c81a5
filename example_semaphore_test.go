package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-rlock/rlock"
)

// At most two exports run at a time, in all processes. The permit of a process that dies is free when its lease ends.
func ExampleSemaphore_Acquire() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	exports := locks.NewSemaphore("exports", rlock.Total(2))
	for range 2 {
		permit, err := exports.Acquire(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer permit.Unlock(ctx)
	}
	_, err := exports.TryAcquire(ctx)
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired))
	fmt.Println(exports.AvailablePermits(ctx))
	// Output:
	// true
	// 0 <nil>
}

// Two workers at a time, beside Redisson's getSemaphore. Whoever has acquired calls Release once: nothing else gives the permit back.
func ExamplePlainSemaphore_Acquire() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	workers := locks.NewPlainSemaphore("workers", rlock.Total(2))
	if err := workers.Acquire(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(workers.AvailablePermits(ctx))
	if err := workers.Release(ctx, 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(workers.AvailablePermits(ctx))
	// Output:
	// 1 <nil>
	// 2 <nil>
}

// A signal for each order that is to be shipped: one side releases, the other one acquires, and does not give the permit back.
func ExamplePlainSemaphore_Release() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	orders := locks.NewPlainSemaphore("orders")
	if err := orders.Release(ctx, 2); err != nil { // two orders have come
		log.Fatal(err)
	}
	fmt.Println(orders.AvailablePermits(ctx))
	fmt.Println(orders.DrainPermits(ctx)) // takes them all
	// Output:
	// 2 <nil>
	// 2 <nil>
}
