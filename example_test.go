package rlock_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// exampleLocks returns a client for a Redis that belongs to the example, and a function that closes both. Your code begins
// with
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	locks, err := rlock.New(rdb)
func exampleLocks() (locks *rlock.Client, rdb *redis.Client, end func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	// miniredis has no clock: its keys expire only when the example moves its time forward.
	tick, done := time.NewTicker(time.Millisecond), make(chan struct{})
	go func() {
		for last := time.Now(); ; {
			select {
			case now := <-tick.C:
				server.FastForward(min(now.Sub(last), 2*time.Millisecond)) // a program that stood still must not cost a lock
				last = now
			case <-done:
				return
			}
		}
	}()
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	locks, err = rlock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	return locks, rdb, func() {
		_ = locks.Close()
		_ = rdb.Close()
		tick.Stop()
		close(done)
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

// Lock waits as long as its context and the option Wait allow.
func ExampleLock_Lock() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("invoice:42")
	if err := lock.Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	err := lock.Lock(ctx) // another caller
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded))

	err = lock.Lock(context.Background(), rlock.Wait(50*time.Millisecond))
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true
	// true false
}

// TryLock returns false and no error when another owner holds the lock.
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

// Do unlocks by itself. The context of its function ends when the lock is lost.
func ExampleLock_Do() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("report:daily")

	err := lock.Do(context.Background(), func(ctx context.Context) error {
		again := lock.Do(context.Background(), func(context.Context) error {
			fmt.Println("never reached")
			return nil
		}, rlock.Wait(0)) // returns at once if another owner holds the lock
		fmt.Println("another at the same time:", errors.Is(again, rlock.ErrNotAcquired))
		return nil
	})
	fmt.Println(err)
	// Output:
	// another at the same time: true
	// <nil>
}

// The context plays the role of a thread. The context of a hold re-enters its lock. A context made by WithOwner re-enters
// every lock.
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
		transfer(ctx)   // the same owner, because it is the same context
		transfer(plain) // a different owner
		return nil
	})

	owner := rlock.WithOwner(plain) // once per goroutine or request
	_ = lock.Lock(owner)
	defer lock.Unlock(owner)
	transfer(owner)
	transfer(rlock.WithOwner(plain)) // a different owner
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
	// false <nil>
}

// A fair lock is granted in the order of the requests, across all processes.
func ExampleClient_NewFairLock() {
	locks, rdb, end := exampleLocks()
	defer end()
	ctx := context.Background()
	lock := locks.NewFairLock("printer")
	_ = lock.Lock(ctx)

	var printing sync.WaitGroup
	for i := range int64(3) {
		printing.Go(func() {
			_ = lock.Do(ctx, func(context.Context) error {
				fmt.Println("document", i+1)
				return nil
			})
		})
		for rdb.LLen(ctx, "redisson_lock_queue:{printer}").Val() <= i { // until the goroutine queues
			time.Sleep(time.Millisecond)
		}
	}
	_ = lock.Unlock(ctx)
	printing.Wait()
	// Output:
	// document 1
	// document 2
	// document 3
}

// Many owners may read at the same time, or one may write.
func ExampleClient_NewRWLock() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	rw := locks.NewRWLock("config")

	_ = rw.Reader().Lock(ctx)
	second, _ := rw.Reader().TryLock(ctx)
	writer, _ := rw.Writer().TryLock(ctx)
	fmt.Println("a second reader:", second, "- a writer:", writer)
	_ = rw.Reader().Unlock(ctx)
	_ = rw.Reader().Unlock(ctx)

	// A writer may keep reading after it has unlocked the write lock. A reader cannot become a writer.
	owner := rlock.WithOwner(ctx)
	_ = rw.Writer().Lock(owner)
	_ = rw.Reader().Lock(owner)
	_ = rw.Writer().Unlock(owner)
	err := rw.Writer().Lock(owner)
	fmt.Println("from reading to writing:", errors.Is(err, rlock.ErrUpgrade))
	_ = rw.Reader().Unlock(owner)
	// Output:
	// a second reader: true - a writer: false
	// from reading to writing: true
}

// store is a resource that takes part in fencing: it refuses the writes of a holder that came before another one.
type store struct {
	token int64
	body  string
}

// write stands for UPDATE documents SET body = $2, token = $1 WHERE token <= $1. A database driver calls Value of the token
// in the same way.
func (s *store) write(token driver.Valuer, body string) error {
	value, err := token.Value()
	if err != nil {
		return err
	}
	if value.(int64) < s.token {
		return errors.New("stale token")
	}
	s.token, s.body = value.(int64), body
	return nil
}

// With Fenced, each holder has a greater token than all before it. The resource remembers the greatest token that it has
// seen, and refuses lower ones.
func ExampleFenced() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	lock := locks.NewFairLock("document:7", rlock.Fenced())
	document := &store{}

	slow, err := lock.Acquire(ctx, rlock.Lease(20*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	next, err := lock.Acquire(ctx) // succeeds when the slow holder's lease ends
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock(ctx)
	fmt.Println("the next holder:", document.write(next.Token(), "new"))
	fmt.Println("the slow holder, which does not know yet:", document.write(slow.Token(), "old"))
	fmt.Println("a holder without a token:", document.write(rlock.Token(0), "unfenced"))
	fmt.Println("the document is", document.body)
	// Output:
	// the next holder: <nil>
	// the slow holder, which does not know yet: stale token
	// a holder without a token: rlock: the fencing token is 0: the hold has no token
	// the document is new
}

// A spin lock uses no pub/sub: a waiter polls.
func ExampleClient_NewSpinLock() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewSpinLock("short", rlock.Backoff(time.Millisecond, 64*time.Millisecond))
	err := lock.Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

// A multi lock takes all of its locks or none. The order in which they are named does not matter.
func ExampleNewMultiLock() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	alice, bob := locks.NewLock("account:alice"), locks.NewLock("account:bob")

	err := rlock.NewMultiLock(bob, alice).Do(ctx, func(ctx context.Context) error {
		fmt.Println("both accounts are locked")
		_, err := rlock.NewMultiLock(alice).TryAcquire(context.Background()) // a different owner
		fmt.Println("another gets one of them:", err == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// both accounts are locked
	// another gets one of them: false
	// <nil>
}

// A red lock is held while a majority of independent servers confirms it.
func ExampleNewRedLock() {
	ctx := context.Background()
	var members []*rlock.Lock
	for range 3 {
		locks, _, end := exampleLocks() // in production, three servers that share nothing
		defer end()
		members = append(members, locks.NewLock("leader"))
	}
	leader := rlock.NewRedLock(members...)
	hold, err := leader.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	_, err = rlock.NewRedLock(members...).TryAcquire(ctx)
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired))
	// Output: true
}

// With NonReentrant, locking twice by mistake is an error instead of a re-entry.
func ExampleNonReentrant() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("import", rlock.NonReentrant())
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		return lock.Lock(ctx)
	})
	fmt.Println(errors.Is(err, rlock.ErrReentered))
	// Output: true
}

// A Hold reports when its lock is lost. In this example, the lock is deleted from Redis.
func ExampleHold() {
	locks, rdb, end := exampleLocks()
	defer end()
	ctx := context.Background()

	hold, err := locks.NewLock("import").Acquire(ctx, rlock.RenewedLease(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	rdb.Del(ctx, "import")
	<-hold.Context().Done() // the next renewal finds that the lock is gone, and work under this context stops
	fmt.Println(errors.Is(context.Cause(hold.Context()), rlock.ErrLost))
	fmt.Println(errors.Is(hold.Unlock(ctx), rlock.ErrLost))
	// Output:
	// true
	// true
}

// A fixed lease is lengthened while the work makes progress. If it gets stuck, the lock becomes free.
func ExampleHold_Extend() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	hold, err := locks.NewLock("import").Acquire(ctx, rlock.Lease(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	for batch := range 3 {
		if err := hold.Extend(ctx, time.Duration(batch+1)*time.Minute); err != nil {
			log.Fatal(err) // errors.Is(err, rlock.ErrLost): another owner may have the lock
		}
	}
	fmt.Println(time.Until(hold.Deadline()).Round(time.Minute))
	fmt.Println(hold.Unlock(ctx))
	// Output:
	// 3m0s
	// <nil>
}
