// Package guide has the code of the documents, in which nothing is to be found.
package guide

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/go-rlock/rlock"
)

func job(ctx context.Context) error                                    { return nil }
func schedule(ctx context.Context, term rlock.Token) error             { return nil }
func busy(tenant string) error                                         { return nil }
func update(ctx context.Context, token rlock.Token, body string) error { return nil }

func readme(locks *rlock.Client) {
	defer locks.Close()

	err := locks.NewLock("invoice:42").Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("paying")
		return nil
	}, rlock.Wait(3*time.Second))
	switch {
	case errors.Is(err, rlock.ErrNotAcquired):
		fmt.Println("somebody else pays")
	case err != nil:
		log.Fatal(err)
	}
}

func quickstart(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewLock("invoice:42")
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return nil
}

func semaphores(ctx context.Context, locks *rlock.Client, tenant string) error {
	exports := locks.NewSemaphore("exports:"+tenant, rlock.Total(3))
	err := exports.Do(ctx, job, rlock.Wait(time.Minute))
	if errors.Is(err, rlock.ErrNotAcquired) {
		return busy(tenant)
	}
	return err
}

func signals(ctx context.Context, signals *rlock.PlainSemaphore) error {
	if err := signals.Release(ctx, 1); err != nil {
		return err
	}
	return signals.Acquire(ctx)
}

func latches(ctx context.Context, locks *rlock.Client, deployment string) error {
	latch := locks.NewCountDownLatch("start:" + deployment)
	if _, err := latch.TrySetCount(ctx, 3); err != nil {
		return err
	}
	if _, err := latch.CountDown(ctx); err != nil {
		return err
	}
	return latch.Await(ctx, rlock.Wait(time.Minute))
}

func contexts(ctx context.Context, lock, other *rlock.Lock) {
	lock.Do(ctx, func(held context.Context) error {
		lock.TryLock(held)
		defer lock.Unlock(held)
		other.TryLock(held)
		return other.Unlock(held)
	})
	ctx = rlock.WithOwner(ctx)
	lock.Lock(ctx)
	lock.Lock(ctx)
	lock.Unlock(ctx)
	lock.Unlock(ctx)
}

func election(ctx context.Context, locks *rlock.Client) error {
	election := locks.NewElection("shop:scheduler", rlock.RenewedLease(5*time.Second))
	http.HandleFunc("/leader", func(w http.ResponseWriter, _ *http.Request) {
		if !election.IsLeader() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return election.Run(ctx, func(ctx context.Context, term rlock.Token) error {
		return schedule(ctx, term)
	})
}

func waiting(ctx context.Context, lock *rlock.Lock) error {
	hold, err := lock.TryAcquire(ctx)
	if errors.Is(err, rlock.ErrNotAcquired) {
		return nil
	}
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx)
	ran, err := lock.TryDo(ctx, job, rlock.AtLeast(50*time.Second))
	if !ran {
		return err
	}
	return lock.Do(ctx, job, rlock.Wait(0))
}

func fencing(ctx context.Context, locks *rlock.Client) error {
	lock := locks.NewFairLock("document:7", rlock.Fenced())
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx)
	return update(hold.Context(), hold.Token(), "new")
}

func carried(ctx context.Context, lock *rlock.Lock) error {
	hold, held := rlock.HoldFrom(ctx, lock)
	if !held {
		return errors.New("not under the lock")
	}
	return update(ctx, hold.Token(), "new")
}
