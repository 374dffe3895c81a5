// Cron is a service with a job for each second, by gocron. Every instance has the same schedule, and one of them runs the job. Start
// several with the same REDIS_URL, and end one by Ctrl-C or by kill -9: the others go on.
//
// The lock of a run is kept for longer than the clocks of the instances differ. So an instance that is late finds it taken, although the
// job is already done.
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

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
	"github.com/go-rlock/rlock/rlockcron"
)

const (
	interval = time.Second
	atLeast  = 700 * time.Millisecond // longer than the clocks differ, and at most nine tenths of the interval
	lease    = 5 * time.Second        // if an instance dies while it runs the job, nobody runs it for so long
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
		ctx, cancel = context.WithTimeout(ctx, 3*interval+interval/2)
		defer cancel()
	}
	fmt.Printf("process %d: %d instance(s), locks on %s\n", os.Getpid(), instances, where)

	var seen runs
	for n := range instances {
		end, err := start(rdb, func() { seen.report(n) })
		if err != nil {
			return err
		}
		defer end()
	}
	<-ctx.Done()
	return seen.twice()
}

// start starts an instance. It returns the function that ends it, which waits for a run that is under way.
func start(rdb *redis.Client, job func()) (end func(), err error) {
	locks, err := rlock.New(rdb, rlock.WithWatchdogTimeout(lease))
	if err != nil {
		return nil, err
	}
	locker, err := rlockcron.NewLocker(locks, "example:cron:", interval, atLeast)
	if err != nil {
		return nil, err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return nil, err
	}
	if _, err := scheduler.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(job), gocron.WithName("report")); err != nil {
		return nil, err
	}
	scheduler.Start()
	return func() {
		_ = scheduler.Shutdown()
		_ = locks.Close()
	}, nil
}

// runs has the seconds for which a job ran in this process.
type runs struct {
	mu     sync.Mutex
	second map[int64]int
}

// report is the job.
func (r *runs) report(instance int) {
	second := time.Now().Round(interval).Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.second == nil {
		r.second = make(map[int64]int)
	}
	r.second[second]++
	fmt.Printf("run %d: process %d, instance %d sends the report\n", second, os.Getpid(), instance+1)
}

// twice returns an error if a job ran twice for a second.
func (r *runs) twice() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for second, n := range r.second {
		if n > 1 {
			return fmt.Errorf("the job of second %d ran %d times", second, n)
		}
	}
	return nil
}
