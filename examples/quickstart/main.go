// Quickstart sells twenty tickets to more buyers than there are tickets. Five workers, which share only Redis, sell them
// first without a lock and then with one.
//
//	go run ./examples/quickstart                                    # with a Redis embedded in the program
//	REDIS_URL=redis://localhost:6379/0 go run ./examples/quickstart # with your Redis
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

const (
	workers = 5
	tickets = 20
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	rdb, where, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	fmt.Printf("%d workers sell %d tickets, kept in %s.\n\n", workers, tickets, where)

	fmt.Println("Without a lock, each worker reads the stock, serves a buyer, and writes the stock back:")
	sold, err := sell(ctx, rdb, func(ctx context.Context, _ int, serve func(context.Context) error) error {
		return serve(ctx)
	})
	if err != nil {
		return err
	}
	fmt.Printf("  sold %d of %d: %d tickets do not exist.\n\n", sold, tickets, sold-tickets)

	seen := &metrics{}
	locks := make([]*rlock.Client, workers) // one per worker, as if each worker were a process
	for i := range locks {
		if locks[i], err = rlock.New(rdb, rlock.WithObserver(seen)); err != nil {
			return err
		}
		defer func() { _ = locks[i].Close() }()
	}
	name := "quickstart:" + uuid.NewString()
	fmt.Println("With a lock around the same three steps. Each worker takes it once more, and then finds no ticket:")
	sold, err = sell(ctx, rdb, func(ctx context.Context, worker int, serve func(context.Context) error) error {
		start := time.Now()
		return locks[worker].NewLock(name).Do(ctx, func(ctx context.Context) error {
			waited, got := time.Since(start), time.Now()
			defer func() {
				fmt.Printf("  worker %d waited %7s, held the lock for %7s\n",
					worker+1, round(waited), round(time.Since(got)))
			}()
			return serve(ctx)
		})
	})
	if err != nil {
		return err
	}
	fmt.Printf("  sold %d of %d: ", sold, tickets)
	if sold != tickets {
		fmt.Println("oversold!")
		return fmt.Errorf("the lock failed: sold %d of %d", sold, tickets)
	}
	fmt.Println("nothing was oversold.")
	for _, client := range locks {
		_ = client.Close() // has told the observer everything when it returns
	}
	fmt.Printf("\nMetrics: %v.\n", seen)
	return nil
}

// sell lets the workers serve buyers until no ticket is left, and returns how many tickets they sold. It calls guard
// around each sale.
func sell(
	ctx context.Context, rdb *redis.Client,
	guard func(ctx context.Context, worker int, serve func(context.Context) error) error,
) (int, error) {
	stock := "quickstart:stock:" + uuid.NewString()
	if err := rdb.Set(ctx, stock, tickets, time.Minute).Err(); err != nil {
		return 0, err
	}
	defer rdb.Del(context.WithoutCancel(ctx), stock)

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		sold  int
		first error
	)
	for worker := range workers {
		wg.Go(func() {
			for left := 1; left > 0; {
				err := guard(ctx, worker, func(ctx context.Context) error {
					var err error
					if left, err = rdb.Get(ctx, stock).Int(); err != nil || left == 0 {
						return err
					}
					time.Sleep(time.Duration(1+rand.N(4)) * time.Millisecond) // takes the payment, prints the ticket
					mu.Lock()
					sold++
					mu.Unlock()
					return rdb.Set(ctx, stock, left-1, redis.KeepTTL).Err()
				})
				if err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return sold, first
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
