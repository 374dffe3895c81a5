package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-rlock/rlock"
)

// Three parts of a job run anywhere. The last step begins when all of them are done.
func ExampleCountDownLatch() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	done := locks.NewCountDownLatch("job:42:parts")
	if _, err := done.TrySetCount(ctx, 3); err != nil { // before any part begins
		log.Fatal(err)
	}
	for range 3 {
		go func() { // on another machine
			if _, err := done.CountDown(ctx); err != nil {
				log.Print(err)
			}
		}()
	}
	fmt.Println(done.Await(ctx, rlock.Wait(time.Minute)))
	// Output: <nil>
}

// A single question, without waiting: are all parts done?
func ExampleCountDownLatch_Await() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	done := locks.NewCountDownLatch("job:43:parts")
	if _, err := done.TrySetCount(ctx, 2); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		fmt.Println(errors.Is(done.Await(ctx, rlock.Wait(0)), rlock.ErrNotAcquired))
		left, err := done.CountDown(ctx)
		fmt.Println(left, err)
	}
	fmt.Println(done.Await(ctx, rlock.Wait(0)))
	// Output:
	// true
	// 1 <nil>
	// true
	// 0 <nil>
	// <nil>
}
