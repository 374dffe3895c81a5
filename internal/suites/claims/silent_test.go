package claims

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestOrdinaryUseLogsNothing has goroutines that share a context wait for each other, for a minute of virtual time. A log that warns of what is
// in order is read by nobody.
func TestOrdinaryUseLogsNothing(t *testing.T) {
	t.Parallel()
	long := 5 * time.Second
	if host.Virtual {
		long = time.Minute
	}
	for what, use := range map[string]func(ctx context.Context, c *rlock.Client) error{
		"a worker pool": func(ctx context.Context, c *rlock.Client) error {
			return workers(4, func(int) error { return until(ctx, long, func() error { return work(ctx, c.NewLock("pool")) }) })
		},
		"a fan-out": func(ctx context.Context, c *rlock.Client) error {
			return until(ctx, long, func() error {
				group, cancel := context.WithCancel(ctx)
				defer cancel()
				return workers(8, func(i int) error { return work(group, c.NewLock([]string{"even", "odd"}[i%2])) })
			})
		},
		"a consumer loop": func(ctx context.Context, c *rlock.Client) error {
			jobs := make(chan string)
			go func() {
				defer close(jobs)
				for begun := time.Now(); time.Since(begun) < long; {
					jobs <- "job"
				}
			}()
			return workers(3, func(int) error {
				for name := range jobs {
					if err := work(ctx, c.NewRWLock(name).Writer()); err != nil {
						return err
					}
				}
				return nil
			})
		},
		"a test": func(ctx context.Context, c *rlock.Client) error { // which locks with t.Context(), everywhere
			lock := c.NewLock("test")
			return workers(2, func(int) error {
				return until(ctx, long, func() error {
					if err := lock.Lock(ctx); err != nil {
						return err
					}
					time.Sleep(1200 * time.Millisecond)
					return lock.Unlock(ctx)
				})
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			log := &testkit.Recorder{}
			handler := slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 10})
			client := testkit.NewClient(t, redistest.Embedded(t), rlock.WithLogger(slog.New(handler)), rlock.WithKeyPrefix(testkit.NewName()+":"))
			require.NoError(t, use(t.Context(), client))
			require.Empty(t, log.String())
		})
	}
}

// work is 1.2 s of work that needs a lock.
func work(ctx context.Context, lock *rlock.Lock) error {
	return lock.Do(ctx, func(context.Context) error {
		time.Sleep(1200 * time.Millisecond)
		return nil
	})
}

// until repeats a function until a time is over, or it returns an error.
func until(ctx context.Context, long time.Duration, do func() error) error {
	for begun := time.Now(); time.Since(begun) < long && ctx.Err() == nil; {
		if err := do(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// workers runs a function in n goroutines, and returns one of their errors.
func workers(n int, do func(i int) error) error {
	failed := make(chan error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { failed <- do(i) })
	}
	all.Wait()
	for range n {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}
