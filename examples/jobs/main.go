// Jobs is a queue of jobs in a database. Whoever enqueues a job holds the lock of what the job is about, and the hold goes to the worker
// with the job. In between, nobody else can have the lock.
//
// The workers write behind a fence. A worker that was paused for longer than its lease, and does not know that yet, cannot overwrite what
// the next worker has written.
//
//	jobs                       shows it, with an embedded Redis
//	jobs enqueue video:7 720p  enqueues a job: to transcode a video
//	jobs work                  does jobs until it is told to end; start several, and stop or kill one
//
// The jobs are in the SQLite file of -file, or in the PostgreSQL database at DATABASE_URL. To enqueue and to work needs a Redis, at
// REDIS_URL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/examples/internal/demo"
)

func main() { demo.Main(run) }

func run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var (
		file  = flag.String("file", "jobs.db", "the SQLite `file`, unless DATABASE_URL is set")
		lease = flag.Duration("lease", 10*time.Second, "after which `time` another worker does the job of a dead one")
		takes = flag.Duration("takes", time.Second, "how `long` it takes to transcode a video")
		delay = flag.Duration("delay", time.Hour, "how `long` the lock of a job waits for a worker")
	)
	flag.Parse()
	switch command := flag.Arg(0); {
	case flag.NArg() == 0:
		return show(ctx)
	case os.Getenv("REDIS_URL") == "":
		return errors.New("set REDIS_URL: processes exclude each other only if they have the same Redis")
	case command == "enqueue" && flag.NArg() == 3:
		return with(ctx, *file, func(q *queue, locks *rlock.Client) error {
			return enqueue(ctx, q, locks, flag.Arg(1), flag.Arg(2), *delay)
		})
	case command == "work" && flag.NArg() == 1:
		return with(ctx, *file, func(q *queue, locks *rlock.Client) error {
			w := &worker{fmt.Sprintf("worker %d", os.Getpid()), q, locks, *lease, *takes}
			w.run(ctx)
			return nil
		})
	}
	return errors.New("usage: jobs [flags] [enqueue VIDEO FORMAT | work]")
}

// with connects to Redis and to the database, and calls f.
func with(ctx context.Context, file string, f func(*queue, *rlock.Client) error) error {
	rdb, _, shutdown, err := demo.Redis()
	if err != nil {
		return err
	}
	defer shutdown()
	locks, err := rlock.New(rdb)
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close() }()
	q, err := open(os.Getenv("DATABASE_URL"), file)
	if err != nil {
		return err
	}
	defer func() { _ = q.db.Close() }()
	// Databases do not like it if several processes create one table at a time.
	if err := locks.NewLock("jobs:schema").Do(ctx, q.create); err != nil {
		return err
	}
	return f(q, locks)
}

// show has two workers do three jobs.
func show(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return with(ctx, filepath.Join(dir, "jobs.db"), func(q *queue, locks *rlock.Client) error {
		for n := range 3 {
			if err := enqueue(ctx, q, locks, fmt.Sprintf("video:%d", n+1), "720p", time.Hour); err != nil {
				return err
			}
		}
		working, enough := context.WithCancel(ctx)
		var workers sync.WaitGroup
		for n := range 2 {
			w := &worker{fmt.Sprintf("worker %d", n+1), q, locks, 10 * time.Second, 100 * time.Millisecond}
			workers.Go(func() { w.run(working) })
		}
		defer workers.Wait()
		defer enough()
		for {
			if left, err := q.left(ctx); left == 0 || err != nil {
				return err
			}
			time.Sleep(pause)
		}
	})
}
