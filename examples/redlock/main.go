// Redlock holds one lock on three Redis servers that share nothing, while one of them dies. It always uses embedded
// servers, because it stops one.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

func main() {
	redis.SetLogger(quiet{})
	demo.Main(run)
}

// quiet drops the messages that go-redis logs about the server that dies on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func run(ctx context.Context) error {
	var servers []*redis.Client
	var stops []func()
	for range 3 {
		rdb, stop, err := demo.Embedded()
		if err != nil {
			return err
		}
		defer func() { _ = rdb.Close() }()
		servers, stops = append(servers, rdb), append(stops, stop)
	}
	defer stops[1]()
	defer stops[2]()
	mine, close1, err := redLock(servers)
	if err != nil {
		return err
	}
	defer close1()
	others, close2, err := redLock(servers)
	if err != nil {
		return err
	}
	defer close2()

	hold, err := mine.Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("A majority of three servers guarantees the lock for", time.Until(hold.Deadline()).Round(time.Second))
	fmt.Println("Another process is refused:", refused(ctx, others))

	stops[0]()
	fmt.Println("One server dies. The lock is still held:", hold.Err() == nil)
	fmt.Println("Another process is refused:", refused(ctx, others))

	if err := hold.Unlock(ctx); err != nil {
		return err
	}
	err = others.Do(ctx, func(context.Context) error {
		fmt.Println("After the unlock, the other process gets the lock on the two remaining servers.")
		return nil
	})
	return err
}

// refused tells whether somebody else holds the lock.
func refused(ctx context.Context, lock *rlock.RedLock) bool {
	hold, err := lock.TryAcquire(ctx)
	if err == nil {
		_ = hold.Unlock(ctx)
	}
	return errors.Is(err, rlock.ErrNotAcquired)
}

// redLock returns what one process has: a red lock on all servers, through one client per server. The caller must call
// end.
func redLock(servers []*redis.Client) (lock *rlock.RedLock, end func(), err error) {
	var members []*rlock.Lock
	var clients []*rlock.Client
	for _, rdb := range servers {
		locks, err := rlock.New(rdb, rlock.WithCommandTimeout(500*time.Millisecond)) // Close waits this long for the dead server
		if err != nil {
			return nil, nil, err
		}
		clients = append(clients, locks)
		members = append(members, locks.NewLock("leader"))
	}
	return rlock.NewRedLock(members...), func() {
		for _, locks := range clients {
			_ = locks.Close()
		}
	}, nil
}
