// Config reads a configuration of two parts much more often than it changes them. The parts must fit together. Readers
// share the read lock. Nobody reads while the holder of the write lock changes one part after the other.
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

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

	if err := write(ctx, rdb, host, port, 0); err != nil {
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
				_ = rw.Reader().Do(ctx, func(ctx context.Context) error {
					if n := side.Add(1); n > most.Load() {
						most.Store(n)
					}
					defer side.Add(-1)
					fits, err := read(ctx, rdb, host, port)
					if err == nil && !fits {
						torn.Add(1)
					}
					reads.Add(1)
					return err
				})
			}
		})
	}
	for version := range 20 {
		err := rw.Writer().Do(ctx, func(ctx context.Context) error { return write(ctx, rdb, host, port, version+1) })
		if err != nil {
			return err
		}
	}
	close(stop)
	wg.Wait()
	fmt.Printf("In %s: 20 changes, %d reads, up to %d at the same time. %d of them saw parts that do not fit.\n",
		where, reads.Load(), most.Load(), torn.Load())
	if torn.Load() > 0 {
		return fmt.Errorf("%d reads were torn", torn.Load())
	}
	return nil
}

// write changes one part after the other.
func write(ctx context.Context, rdb *redis.Client, host, port string, version int) error {
	if err := rdb.Set(ctx, host, version, time.Minute).Err(); err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond) // a reader now would see one part of each version
	return rdb.Set(ctx, port, version, time.Minute).Err()
}

// read reads one part after the other and reports whether they fit together.
func read(ctx context.Context, rdb *redis.Client, host, port string) (bool, error) {
	first, err := rdb.Get(ctx, host).Result()
	if err != nil {
		return false, err
	}
	second, err := rdb.Get(ctx, port).Result()
	return first == second, err
}
