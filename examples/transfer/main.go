// Transfer moves money between accounts in both directions at the same time. Each transfer locks both accounts as one
// lock, and may name them in any order. No two transfers block each other, and no money is lost.
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
	accounts = 4
	opening  = 100
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

	prefix := "account:" + uuid.NewString() + ":"
	account := func(n int) string { return fmt.Sprint(prefix, n) }
	for n := range accounts {
		if err := rdb.Set(ctx, account(n)+":balance", opening, time.Minute).Err(); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	failed := make(chan error, 8)
	for range 8 {
		wg.Go(func() {
			for range 20 {
				from := rand.IntN(accounts)
				to := (from + 1 + rand.IntN(accounts-1)) % accounts
				if err := transfer(ctx, rdb, locks, account(from), account(to), 1+rand.IntN(30)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	sum := 0
	for n := range accounts {
		balance, err := rdb.Get(ctx, account(n)+":balance").Int()
		if err != nil {
			return err
		}
		fmt.Printf("  account %d: %4d\n", n, balance)
		sum += balance
	}
	fmt.Printf("After 160 transfers in %s, the sum is %d.\n", where, sum)
	if sum != accounts*opening {
		return fmt.Errorf("the sum should be %d", accounts*opening)
	}
	return nil
}

// transfer moves an amount if the first account has enough money.
func transfer(ctx context.Context, rdb *redis.Client, locks *rlock.Client, from, to string, amount int) error {
	both := rlock.NewMultiLock(locks.NewLock(from), locks.NewLock(to))
	return both.Do(ctx, func(ctx context.Context) error {
		a, err := rdb.Get(ctx, from+":balance").Int()
		if err != nil || a < amount {
			return err
		}
		b, err := rdb.Get(ctx, to+":balance").Int()
		if err != nil {
			return err
		}
		if err := rdb.Set(ctx, from+":balance", a-amount, redis.KeepTTL).Err(); err != nil {
			return err
		}
		return rdb.Set(ctx, to+":balance", b+amount, redis.KeepTTL).Err()
	})
}
