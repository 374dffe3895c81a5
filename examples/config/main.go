// Config reads a configuration of two parts that must fit together, much more often than it changes: readers share the
// read lock, and nobody reads while the one who holds the write lock changes the parts one after the other.
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	rdb, where, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	locks, err := rlock.New(rdb)
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close() }()
	name := "config:" + uuid.NewString()
	host, port := name+":host", name+":port"
	defer rdb.Del(context.WithoutCancel(ctx), host, port)
	rw := locks.NewRWLock(name)

	set := func(ctx context.Context, version int) error {
		if err := rdb.Set(ctx, host, version, time.Minute).Err(); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond) // a reader now would see one part of each version
		return rdb.Set(ctx, port, version, time.Minute).Err()
	}
	if err := set(ctx, 0); err != nil {
		return err
	}

	var reads, torn, side, most atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = rw.ReadLock().Do(ctx, func(ctx context.Context) error {
					if n := side.Add(1); n > most.Load() {
						most.Store(n)
					}
					defer side.Add(-1)
					parts, err := rdb.MGet(ctx, host).Result()
					if err != nil {
						return err
					}
					more, err := rdb.MGet(ctx, port).Result()
					if err == nil && parts[0] != more[0] {
						torn.Add(1)
					}
					reads.Add(1)
					return err
				})
			}
		})
	}
	for version := range 20 {
		err := rw.WriteLock().Do(ctx, func(ctx context.Context) error { return set(ctx, version+1) })
		if err != nil {
			return err
		}
	}
	close(stop)
	wg.Wait()
	fmt.Printf("In %s: 20 changes, %d reads, up to %d side by side, %d of which saw parts that do not fit.\n",
		where, reads.Load(), most.Load(), torn.Load())
	if torn.Load() > 0 {
		return fmt.Errorf("%d reads were torn", torn.Load())
	}
	return nil
}
