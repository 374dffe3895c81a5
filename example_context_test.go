package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-rlock/rlock"
)

// A function that is called under a lock gets at the hold, and so at its token, without an argument of its own.
func ExampleHoldFrom() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("document:7", rlock.Fenced())

	save := func(ctx context.Context) {
		hold, held := rlock.HoldFrom(ctx, lock)
		if !held {
			fmt.Println("not under the lock")
			return
		}
		fmt.Println("held:", hold.Err() == nil, "- with a token:", hold.Token() > 0)
		fmt.Println("may unlock:", !errors.Is(hold.Unlock(ctx), rlock.ErrNotHeld)) // the hold is borrowed
	}
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		save(ctx)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	save(context.Background())
	// Output:
	// held: true - with a token: true
	// may unlock: false
	// not under the lock
}

// DoValue returns what its function returns.
func ExampleDoValue() {
	locks, _, end := exampleLocks()
	defer end()
	lock := locks.NewLock("invoice:number")

	next := 41
	number, err := rlock.DoValue(context.Background(), lock, func(context.Context) (int, error) {
		next++
		return next, nil
	})
	fmt.Println(number, err)
	// Output: 42 <nil>
}

// TryDo skips work that another owner is doing.
func ExampleLock_TryDo() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	lock := locks.NewLock("report:daily")

	report := func(context.Context) error {
		fmt.Println("reporting")
		ran, err := lock.TryDo(ctx, func(context.Context) error { // another process, at the same time
			fmt.Println("never reached")
			return nil
		})
		fmt.Println("the other one ran:", ran, err)
		return nil
	}
	ran, err := lock.TryDo(ctx, report)
	fmt.Println("this one ran:", ran, err)
	// Output:
	// reporting
	// the other one ran: false <nil>
	// this one ran: true <nil>
}

// TryDo with AtLeast does a job once, although several machines begin it at about the same time.
func ExampleAtLeast() {
	locks, _, end := exampleLocks()
	defer end()

	// Each minute, this runs on all machines at about the same time.
	for range 3 {
		ran, err := locks.NewLock("report:2026-11-25T12:00").TryDo(context.Background(), func(context.Context) error {
			fmt.Println("reporting")
			return nil
		}, rlock.AtLeast(50*time.Second))
		fmt.Println(ran, err)
	}
	// Output:
	// reporting
	// true <nil>
	// false <nil>
	// false <nil>
}

func ExampleElection() {
	locks, _, end := exampleLocks()
	defer end()

	ctx, stop := context.WithCancel(context.Background()) // in a program: by pubsub.NotifyContext
	election := locks.NewElection("scheduler", rlock.RenewedLease(5*time.Second))
	err := election.Run(ctx, func(ctx context.Context, term rlock.Token) error {
		fmt.Println("leading:", election.IsLeader())
		stop() // the process is told to end
		<-ctx.Done()
		fmt.Println("resigning")
		return nil
	})
	fmt.Println(err, election.IsLeader())
	// Output:
	// leading: true
	// resigning
	// <nil> false
}

// Middleware that wants an owner for its handlers must not hide a lock that its caller holds.
func ExampleEnsureOwner() {
	locks, _, end := exampleLocks()
	defer end()
	order := locks.NewLock("order:42")

	handler := func(ctx context.Context) {
		ran, err := order.TryDo(ctx, func(context.Context) error { return nil })
		fmt.Println(ran, err)
	}
	_ = order.Do(context.Background(), func(ctx context.Context) error {
		handler(rlock.EnsureOwner(ctx)) // re-enters
		handler(rlock.WithOwner(ctx))   // a different owner
		return nil
	})
	// Output:
	// true <nil>
	// false <nil>
}

// A leader that dies should be replaced sooner than the locks of long jobs, which outlast longer outages.
func ExampleRenewedLease() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()

	leader := locks.NewLock("leader")
	err := leader.Do(ctx, func(ctx context.Context) error {
		left, err := leader.TTL(ctx)
		fmt.Println(left.Round(time.Second))
		return err
	}, rlock.RenewedLease(3*time.Second))
	fmt.Println(err)
	// Output:
	// 3s
	// <nil>
}

// An exported hold is adopted by whoever has the ticket, perhaps in another process. In between, nobody else can take the lock.
func ExampleHold_Export() {
	locks, _, end := exampleLocks()
	defer end()
	ctx := context.Background()
	lock := locks.NewLock("order:42", rlock.Fenced())
	hold, err := lock.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := hold.Export(ctx, rlock.Lease(time.Minute)) // the job has a minute to begin
	if err != nil {
		log.Fatal(err)
	}

	taken, err := lock.TryLock(ctx)
	fmt.Println("somebody else gets it:", taken, err)
	adopted, err := lock.Adopt(ctx, ticket)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the token is greater:", adopted.Token() > hold.Token())
	fmt.Println("it is unlocked:", adopted.Unlock(ctx))
	_, err = lock.Adopt(ctx, ticket)
	fmt.Println("a ticket works once:", errors.Is(err, rlock.ErrNotHeld))
	// Output:
	// somebody else gets it: false <nil>
	// the token is greater: true
	// it is unlocked: <nil>
	// a ticket works once: true
}
