package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// Acquire returns the acquisition as a value, which can be passed on, and which knows whether the lock is still held.
func ExampleLock_Acquire() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	hold, err := locks.NewLock("invoice:42").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	if hold.Err() == nil && time.Until(hold.Deadline()) > 20*time.Second {
		fmt.Println("there is time to send the invoice")
	}
	// Output: there is time to send the invoice
}

// A request that cannot be served soon should be refused, not queued.
func ExampleWait() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	busy, err := locks.NewLock("account:7").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer busy.Unlock(ctx)

	lock := locks.NewLock("account:7", rlock.Wait(50*time.Millisecond)) // the default of this handle
	err = lock.Do(ctx, func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired))
	// Output: true
}

// A lock with a fixed lease is not renewed: it is free after that time, also if this process still works.
func ExampleLease() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	hold, err := locks.NewLock("report").Acquire(ctx, rlock.Lease(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-hold.Done()
	fmt.Println(errors.Is(hold.Unlock(ctx), rlock.ErrLost))
	// Output: true
}

// Work that runs under the context of the hold ends when the lock is lost.
func ExampleHold_Context() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	lock := locks.NewLock("import")
	hold, err := lock.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	if _, err := lock.ForceUnlock(ctx); err != nil { // an operator takes the lock away
		log.Fatal(err)
	}
	select {
	case <-hold.Context().Done():
		fmt.Println(errors.Is(context.Cause(hold.Context()), rlock.ErrLost))
	case <-time.After(time.Minute):
		fmt.Println("the import goes on")
	}
	// Output: true
}

// ForceUnlock frees a lock whose holder does not return.
func ExampleLock_ForceUnlock() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	lock := locks.NewLock("deploy")
	if err := lock.Lock(ctx); err != nil {
		log.Fatal(err)
	}

	freed, err := lock.ForceUnlock(ctx)
	fmt.Println(freed, err)
	// Output: true <nil>
}

// With acknowledgements, a failover to a replica does not lose the lock.
func ExampleWithReplicaAcks() {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
	})
	defer rdb.Close()
	locks, err := rlock.New(rdb, rlock.WithReplicaAcks(1, 500*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	// Acquisitions now fail with ErrNotReplicated unless a replica has acknowledged them within 500 ms.
	fmt.Println("nothing is sent yet")
	// Output: nothing is sent yet
}

// A handler locks an order, and the worker that gets the job goes on under the same lock.
func ExampleLock_Adopt() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	hold, err := locks.NewLock("order:42").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := hold.Export(ctx, rlock.Lease(time.Minute)) // the worker has a minute to begin
	if err != nil {
		log.Fatal(err)
	}

	adopted, err := locks.NewLock("order:42").Adopt(ctx, ticket) // in the worker, mostly another process
	if err != nil {
		log.Fatal(err)
	}
	defer adopted.Unlock(ctx)
	fmt.Println(adopted.Err() == nil)
	// Output: true
}

// A program that can keep only a text keeps the ID of the hold.
func ExampleClient_UnlockID() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	hold, err := locks.NewLock("session:9").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	token := hold.ID()

	fmt.Println(locks.UnlockID(ctx, token))
	fmt.Println(errors.Is(locks.UnlockID(ctx, token), rlock.ErrNotHeld))
	// Output:
	// <nil>
	// true
}
