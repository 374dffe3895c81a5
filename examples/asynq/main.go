// Asynq is a service that works on the tasks of hibiken/asynq, in any number of instances. All tasks of a key, here an account, run one after
// the other, on whichever instance. One instance runs the scheduler. Start several with the same REDIS_URL, and end one by Ctrl-C or by
// kill -9: another one schedules.
//
// Without REDIS_URL it has an embedded Redis and three instances of its own, and ends after some runs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

const (
	wait  = 200 * time.Millisecond // for a key that is taken, on a worker that does nothing else meanwhile
	lease = 5 * time.Second        // for so long nobody schedules after the scheduler has died
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	rdb, where, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	instances := 1
	if os.Getenv("REDIS_URL") == "" {
		instances = 3
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
	}
	fmt.Printf("process %d: %d instance(s), tasks on %s\n", os.Getpid(), instances, where)

	var all sync.WaitGroup
	failed := make(chan error, instances)
	for n := range instances {
		all.Go(func() { failed <- serve(ctx, rdb, fmt.Sprintf("process %d, instance %d", os.Getpid(), n+1)) })
	}
	all.Wait()
	return <-failed
}

// serve is an instance, until ctx ends.
func serve(ctx context.Context, rdb *redis.Client, name string) error {
	locks, err := rlock.New(rdb)
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close() }()
	mux := asynq.NewServeMux()
	mux.Use(onePerKey(locks, account, wait))
	mux.HandleFunc("statement", func(ctx context.Context, task *asynq.Task) error {
		fmt.Printf("%s writes the statement of account %s\n", name, task.Payload())
		return ctx.Err()
	})
	server := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: 4, IsFailure: isFailure, RetryDelayFunc: retryDelay, LogLevel: asynq.ErrorLevel,
	})
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()

	election := locks.NewElection("scheduler", rlock.RenewedLease(lease))
	err = schedule(ctx, election, func() (*asynq.Scheduler, error) {
		fmt.Printf("%s schedules\n", name)
		scheduler := asynq.NewScheduler(connection(rdb), &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
		_, err := scheduler.Register("@every 1s", asynq.NewTask("statement", []byte("7")))
		return scheduler, err
	})
	if ctx.Err() != nil { // it was told to end
		return nil
	}
	return err
}

// connection returns what a scheduler needs: it closes its connection at the end of its term, so it cannot share rdb.
func connection(rdb *redis.Client) asynq.RedisClientOpt {
	o := rdb.Options()
	return asynq.RedisClientOpt{Network: o.Network, Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig}
}

// account is the key of a task.
func account(task *asynq.Task) string { return string(task.Payload()) }
