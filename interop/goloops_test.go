package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// The loops of loops_test.go in Go processes.

// goCount holds the arguments of countInGo.
type goCount struct {
	Addr string
	count
}

// goCounted adds the longest wait to counted.
type goCounted struct {
	counted
	Longest time.Duration
}

func countInGo(c goCount, told <-chan string) error {
	rdb := redis.NewClient(&redis.Options{Addr: c.Addr})
	locks, err := rlock.New(rdb, rlock.WithWatchdogTimeout(soakWatchdog))
	if err != nil {
		return err
	}
	lock, readLock := kindNamed(c.Kind).newLock(locks, c.Names[0]), newReadLock(locks, c.Names[0])
	fmt.Println("ready")
	<-told
	var longest, reads atomic.Int64
	increments, errs := make([]int64, c.Threads), make([]error, c.Threads+c.Readers)
	end := time.Now().Add(c.For)
	loop := func(l *rlock.Lock, critical func(context.Context) error) error {
		ctx := context.Background()
		for start := time.Now(); start.Before(end); start = time.Now() {
			if err := l.Lock(ctx); err != nil {
				return err
			}
			for waited := int64(time.Since(start)); ; {
				if most := longest.Load(); waited <= most || longest.CompareAndSwap(most, waited) {
					break
				}
			}
			if err := errors.Join(critical(ctx), l.Unlock(ctx)); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for i := range c.Threads {
		wg.Go(func() {
			errs[i] = loop(lock, func(ctx context.Context) error {
				before, err := number(ctx, rdb, c.Counter)
				if err != nil {
					return err
				}
				increments[i]++
				return rdb.Set(ctx, c.Counter, before+1, 0).Err()
			})
		})
	}
	for i := range c.Readers {
		wg.Go(func() {
			errs[c.Threads+i] = loop(readLock, func(ctx context.Context) error {
				first, err := number(ctx, rdb, c.Counter)
				second, err2 := number(ctx, rdb, c.Counter)
				if first != second {
					return fmt.Errorf("read %d and then %d under the read lock", first, second)
				}
				reads.Add(1)
				return errors.Join(err, err2)
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return sayJSON(goCounted{counted{increments, reads.Load()}, time.Duration(longest.Load())})
}

// number returns the number at a key, or zero if there is none.
func number(ctx context.Context, rdb *redis.Client, key string) (int64, error) {
	n, err := rdb.Get(ctx, key).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}

// goBench holds the arguments of benchInGo.
type goBench struct {
	Addr string
	bench
}

// benchInGo runs a bench for each line that it receives.
func benchInGo(b goBench, told <-chan string) error {
	rdb := redis.NewClient(&redis.Options{Addr: b.Addr})
	locks, err := rlock.New(rdb)
	if err != nil {
		return err
	}
	for text := range told {
		if err := json.Unmarshal([]byte(text), &b.bench); err != nil {
			return err
		}
		done, err := benchOnce(pairOf(locks, b.bench), b.bench)
		if err != nil {
			return err
		}
		if err := sayJSON(done); err != nil {
			return err
		}
	}
	return nil
}

// pairOf returns what begins a pair of a loop, which returns what ends it.
func pairOf(locks *rlock.Client, b bench) func(context.Context) (end func(context.Context) error, err error) {
	acquire := func(hold *rlock.Hold, err error) (func(context.Context) error, error) {
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
	switch b.Kind {
	case "semaphore":
		s := locks.NewSemaphore(b.Names[0])
		return func(ctx context.Context) (func(context.Context) error, error) { return acquire(s.Acquire(ctx)) }
	case "plain semaphore":
		s := locks.NewPlainSemaphore(b.Names[0])
		release := func(ctx context.Context) error { return s.Release(ctx, 1) }
		return func(ctx context.Context) (func(context.Context) error, error) { return release, s.Acquire(ctx) }
	}
	lock := kindNamed(b.Kind).newLock(locks, b.Names[0])
	unlock := lock.Unlock // made once, so that it does not count
	return func(ctx context.Context) (func(context.Context) error, error) { return unlock, lock.Lock(ctx) }
}

func benchOnce(begin func(context.Context) (func(context.Context) error, error), b bench) (benched, error) {
	var counting, over atomic.Bool
	var last, handOffs atomic.Int64 // the goroutine that began last
	last.Store(-1)
	done := benched{Pairs: make([]int64, b.Threads)}
	errs := make([]error, b.Threads)
	var wg sync.WaitGroup
	for i := range b.Threads {
		wg.Go(func() {
			ctx := context.Background()
			for !over.Load() && errs[i] == nil {
				end, err := begin(ctx)
				if errs[i] = err; err != nil {
					return
				}
				counts := counting.Load()
				if last.Swap(int64(i)) != int64(i) && counts {
					handOffs.Add(1)
				}
				errs[i] = end(ctx)
				if counts {
					done.Pairs[i]++
				}
			}
		})
	}
	time.Sleep(b.Warmup)
	counting.Store(true)
	start := time.Now()
	time.Sleep(b.For)
	counting.Store(false)
	done.Elapsed = time.Since(start)
	over.Store(true)
	wg.Wait()
	done.HandOffs = handOffs.Load()
	return done, errors.Join(errs...)
}

func sayJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}
