// Leader is a service of which one instance leads. Start several with the same REDIS_URL, and end one by Ctrl-C, or by kill -9: another
// one leads, at once or when the lease of the dead one ends.
//
// Without REDIS_URL it has an embedded Redis of its own, and leads for a second.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

const lease = 2 * time.Second

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	rdb, where, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	locks, err := rlock.New(rdb, rlock.WithIdentity(rlock.AutoIdentity()))
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close() }()
	if os.Getenv("REDIS_URL") == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}

	fmt.Printf("process %d campaigns on %s\n", os.Getpid(), where)
	err = locks.NewElection("example:leader", rlock.RenewedLease(lease)).Run(ctx, lead)
	if ctx.Err() != nil {
		return nil // it was told to end, while it led or campaigned
	}
	return err
}

// lead does the leader's work until ctx ends: because this process is told to end, or because it does not lead any more. What it writes
// carries the term, so that a database can refuse the late writes of an earlier leader.
func lead(ctx context.Context, term rlock.Token) error {
	fmt.Printf("process %d leads, term %d\n", os.Getpid(), term)
	work := time.NewTicker(200 * time.Millisecond)
	defer work.Stop()
	for n := 1; ; n++ {
		select {
		case <-work.C:
			fmt.Println("  work", n)
		case <-ctx.Done():
			fmt.Printf("process %d does not lead any more: %v\n", os.Getpid(), context.Cause(ctx))
			return context.Cause(ctx)
		}
	}
}
