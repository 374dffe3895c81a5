package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// exampleLocks returns a client on a Redis of the example's own, and what ends both. Yours begins with
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	locks, err := rlock.New(rdb)
func exampleLocks() (locks *rlock.Client, rdb *redis.Client, end func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	locks, err = rlock.New(rdb, rlock.WithWatchdogTimeout(200*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	return locks, rdb, func() {
		_ = locks.Close()
		_ = rdb.Close()
		server.Close()
	}
}

func Example() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	lock := locks.NewLock("invoice:42")
	if err := lock.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println("nobody else works on the invoice")
	// Output: nobody else works on the invoice
}

// Lock waits for as long as its context allows, or Wait says.
func ExampleLock_Lock() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("invoice:42")
	if err := lock.Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := lock.Lock(ctx) // another caller
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded))

	err = lock.Lock(context.Background(), rlock.Wait(50*time.Millisecond))
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true
	// true false
}

// TryLock returns false and no error when another holds the lock.
func ExampleLock_TryLock() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	lock := locks.NewLock("invoice:42")

	for range 2 {
		ok, err := lock.TryLock(ctx)
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// Do unlocks by itself, and its function's context ends when the lock is lost.
func ExampleLock_Do() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("report:daily")

	err := lock.Do(context.Background(), func(ctx context.Context) error {
		again := lock.Do(context.Background(), func(context.Context) error {
			fmt.Println("never reached")
			return nil
		}, rlock.Wait(0)) // run it unless another does
		fmt.Println("another at the same time:", errors.Is(again, rlock.ErrNotAcquired))
		return nil
	})
	fmt.Println(err)
	// Output:
	// another at the same time: true
	// <nil>
}

// The context is the thread. A hold's context re-enters its lock; WithOwner makes a context that re-enters every lock.
func ExampleWithOwner() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("account:7")
	plain := context.Background()

	transfer := func(ctx context.Context) {
		ok, err := lock.TryLock(ctx)
		fmt.Println(ok, err)
		if ok {
			defer lock.Unlock(ctx)
		}
	}
	_ = lock.Do(plain, func(ctx context.Context) error {
		transfer(ctx)   // the same owner, as the context says
		transfer(plain) // somebody else
		return nil
	})

	owner := rlock.WithOwner(plain) // once for a goroutine or a request
	_ = lock.Lock(owner)
	defer lock.Unlock(owner)
	transfer(owner)
	transfer(rlock.WithOwner(plain)) // another owner
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
	// false <nil>
}

// A Hold knows when its lock is lost. Here somebody deletes the lock.
func ExampleHold() {
	locks, rdb, end := exampleLocks()
	defer end()
	ctx := context.Background()

	hold, err := locks.NewLock("import").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	rdb.Del(ctx, "import")
	<-hold.Context().Done() // the next renewal finds it gone: work under this context stops
	fmt.Println(errors.Is(context.Cause(hold.Context()), rlock.ErrLost))
	fmt.Println(errors.Is(hold.Unlock(ctx), rlock.ErrLost))
	// Output:
	// true
	// true
}
