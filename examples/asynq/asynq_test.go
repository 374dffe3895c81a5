package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

func TestMain(m *testing.M) {
	program.Run(main)
	os.Exit(m.Run())
}

// site is a Redis with the tasks of a test.
type site struct {
	*testing.T
	server    *redistest.Server
	rdb       *redis.Client
	inspector *asynq.Inspector
	client    *asynq.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(t)
	return &site{t, server, rdb, asynq.NewInspectorFromRedisClient(rdb), asynq.NewClientFromRedisClient(rdb)}
}

// work starts a server of tasks, one of each key at a time, with a client of rlock of its own. It ends with the test.
func (s *site) work(handler asynq.HandlerFunc, opts ...rlock.Option) {
	s.Helper()
	s.workWith(func(locks *rlock.Client) asynq.MiddlewareFunc { return onePerKey(locks, account, 10*time.Millisecond) }, handler, opts...)
}

func (s *site) workWith(middleware func(*rlock.Client) asynq.MiddlewareFunc, handler asynq.HandlerFunc, opts ...rlock.Option) {
	s.Helper()
	locks := testkit.Must(rlock.New(s.server.Client(s), append(opts, rlock.WithLogger(testkit.Discard))...))
	mux := asynq.NewServeMux()
	mux.Use(middleware(locks))
	mux.Handle("task", handler)
	soon := func(n int, err error, task *asynq.Task) time.Duration {
		if delay := retryDelay(n, err, task); delay > time.Second { // a failure of the handler
			return 10 * time.Millisecond
		}
		return 50 * time.Millisecond
	}
	server := asynq.NewServerFromRedisClient(s.rdb, asynq.Config{
		Concurrency: 4, IsFailure: isFailure, RetryDelayFunc: soon, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 20 * time.Millisecond,
	})
	require.NoError(s, server.Start(mux))
	s.Cleanup(func() { server.Shutdown(); _ = locks.Close() })
}

func (s *site) enqueue(key string, opts ...asynq.Option) (id string) {
	s.Helper()
	info, err := s.client.Enqueue(asynq.NewTask("task", []byte(key)), opts...)
	require.NoError(s, err)
	return info.ID
}

// in waits until a task is in a state.
func (s *site) in(state asynq.TaskState, id string) (info *asynq.TaskInfo) {
	s.Helper()
	redistest.EventuallyWithin(s, 30*time.Second, "the task is "+state.String(), func() bool {
		info, _ = s.inspector.GetTaskInfo("default", id)
		return info != nil && info.State == state
	})
	return info
}

// TestOneTaskPerKey has two servers work on tasks of two keys. The first task of each key runs until all others have found their key taken:
// those with retries left have been sent back, and the others wait on their workers.
func TestOneTaskPerKey(t *testing.T) {
	t.Parallel()
	sentBack := func(s *site, ids []string) (n int) {
		for _, id := range ids {
			if strings.Contains(testkit.Must(s.inspector.GetTaskInfo("default", id)).LastErr, "another task of") {
				n++
			}
		}
		return n
	}
	onWorkers := func(s *site, _ []string) int { return len(testkit.Must(s.inspector.ListActiveTasks("default"))) - 2 }
	for what, c := range map[string]struct {
		retries int
		refused func(*site, []string) int
	}{"with retries": {2, sentBack}, "at the last attempt": {0, onWorkers}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			var mu sync.Mutex
			running, most := make(map[string]int), 0
			end := make(chan struct{})
			handler := func(_ context.Context, task *asynq.Task) error {
				key := string(task.Payload())
				mu.Lock()
				running[key]++
				most = max(most, running[key])
				mu.Unlock()
				<-end
				mu.Lock()
				defer mu.Unlock()
				running[key]--
				return nil
			}
			s.work(handler)
			s.work(handler)
			var ids []string
			for range 4 {
				for _, key := range []string{"a", "b"} {
					ids = append(ids, s.enqueue(key, asynq.MaxRetry(c.retries), asynq.Retention(time.Hour)))
				}
			}
			redistest.EventuallyWithin(t, 30*time.Second, "all others are refused", func() bool { return c.refused(s, ids) == 6 })
			mu.Lock()
			require.Equal(t, map[string]int{"a": 1, "b": 1}, running)
			mu.Unlock()
			close(end)
			for _, id := range ids {
				require.Zero(t, s.in(asynq.TaskStateCompleted, id).Retried, "to find the key taken is no failure")
			}
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, 1, most)
			info := testkit.Must(s.inspector.GetQueueInfo("default"))
			require.Zero(t, info.Failed)
			require.Zero(t, info.Archived)
		})
	}
}

// TestATaskThatIsRefusedComesBack, and says why it waits.
func TestATaskThatIsRefusedComesBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := testkit.Must(rlock.New(s.server.Client(t)))
	t.Cleanup(func() { _ = other.Close() })
	hold := testkit.Must(other.NewLock("task:a").Acquire(t.Context()))
	done := make(chan struct{}, 1)
	s.work(func(context.Context, *asynq.Task) error { done <- struct{}{}; return nil })
	id := s.enqueue("a", asynq.Retention(time.Hour))
	redistest.Eventually(t, "it is refused", func() bool {
		return strings.Contains(testkit.Must(s.inspector.GetTaskInfo("default", id)).LastErr, `another task of "a" is running`)
	})
	require.Empty(t, done)
	require.NoError(t, hold.Unlock(t.Context()))
	testkit.Within(t, "it runs", done)
	require.Zero(t, s.in(asynq.TaskStateCompleted, id).Retried)
}

// TestALostLockEndsTheTask: the context of the handler says why, and the task is retried, as after any failure.
func TestALostLockEndsTheTask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	causes := make(chan error, 9)
	var again atomic.Bool
	s.work(func(ctx context.Context, _ *asynq.Task) error {
		if _, ok := asynq.GetTaskID(ctx); !ok {
			return errors.New("the context has lost the values of asynq")
		}
		if again.Swap(true) {
			return nil
		}
		if err := s.rdb.Del(ctx, "task:a").Err(); err != nil {
			return err
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return context.Cause(ctx)
	}, rlock.WithWatchdogTimeout(3*time.Second)) // so a renewal finds it soon
	id := s.enqueue("a", asynq.Retention(time.Hour))
	require.ErrorIs(t, testkit.Within(t, "it ends", causes), rlock.ErrLost)
	require.Equal(t, 1, s.in(asynq.TaskStateCompleted, id).Retried)
}

// TestNoOverlap drops what comes while another one runs, and nothing after that one has failed.
func TestNoOverlap(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	begun, end := make(chan struct{}, 9), make(chan error)
	handler := func(context.Context, *asynq.Task) error { begun <- struct{}{}; return <-end }
	s.workWith(func(locks *rlock.Client) asynq.MiddlewareFunc { return noOverlap(locks, account) }, handler)
	failed := s.enqueue("a", asynq.MaxRetry(0))
	testkit.Within(t, "it runs", begun)
	dropped := s.enqueue("a")
	redistest.Eventually(t, "it is dropped", func() bool {
		_, err := s.inspector.GetTaskInfo("default", dropped)
		return errors.Is(err, asynq.ErrTaskNotFound)
	})
	require.Empty(t, begun)
	end <- errors.New("failed")
	s.in(asynq.TaskStateArchived, failed)
	next := s.enqueue("a", asynq.Retention(time.Hour))
	testkit.Within(t, "the next one runs", begun)
	end <- nil
	s.in(asynq.TaskStateCompleted, next)
}

// TestTheGuideHasThisCode compares the code in the guide with that of this program.
func TestTheGuideHasThisCode(t *testing.T) {
	t.Parallel()
	source := ""
	for _, file := range []string{"main.go", "scheduler.go", "tasks.go"} {
		source += string(testkit.Must(os.ReadFile(file)))
	}
	page := string(testkit.Must(os.ReadFile("../../docs/guide/asynq.md")))
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	require.Len(t, blocks, 3)
	indent := regexp.MustCompile(`(?m)^\t+`)
	for _, block := range blocks {
		require.Contains(t, indent.ReplaceAllString(source, ""), indent.ReplaceAllString(block[1], ""))
	}
}

// TestTheHandlerDecides by its own errors, and a panic leaves no lock.
func TestTheHandlerDecides(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.work(func(_ context.Context, task *asynq.Task) error {
		switch key := string(task.Payload()); key {
		case "skip":
			return fmt.Errorf("it is of no use: %w", asynq.SkipRetry)
		case "inner":
			return fmt.Errorf("a lock of the handler's own: %w", rlock.ErrNotAcquired)
		case "panic":
			panic("handler")
		}
		return nil
	})
	require.Contains(t, s.in(asynq.TaskStateArchived, s.enqueue("skip")).LastErr, "of no use")
	require.Equal(t, 1, s.in(asynq.TaskStateArchived, s.enqueue("inner", asynq.MaxRetry(1))).Retried, "that is a failure")
	s.in(asynq.TaskStateArchived, s.enqueue("panic", asynq.MaxRetry(0)))
	require.Zero(t, s.rdb.Exists(t.Context(), "task:panic").Val())
	s.in(asynq.TaskStateCompleted, s.enqueue("", asynq.Retention(time.Hour))) // without a key
}

// TestOneScheduler has two candidates. At the end of the first one's context, the other one starts a scheduler after that of the first one
// has stopped.
func TestOneScheduler(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var mu sync.Mutex
	var by []int // who has enqueued
	ended := make([]chan struct{}, 2)
	resign := make([]context.CancelFunc, 2)
	terms := make(chan int, 9)
	for n := range 2 {
		locks := testkit.Must(rlock.New(s.server.Client(t)))
		t.Cleanup(func() { _ = locks.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		resign[n], ended[n] = cancel, make(chan struct{})
		election := locks.NewElection("scheduler")
		go func() {
			defer close(ended[n])
			_ = schedule(ctx, election, func() (*asynq.Scheduler, error) {
				terms <- n
				scheduler := asynq.NewScheduler(connection(s.rdb), &asynq.SchedulerOpts{
					LogLevel: asynq.FatalLevel,
					PostEnqueueFunc: func(*asynq.TaskInfo, error) {
						mu.Lock()
						defer mu.Unlock()
						by = append(by, n)
					},
				})
				_, err := scheduler.Register("@every 1s", asynq.NewTask("task", nil))
				return scheduler, err
			})
		}()
		t.Cleanup(func() { cancel(); <-ended[n] })
	}
	enqueued := func(n int) (count int) {
		mu.Lock()
		defer mu.Unlock()
		for _, who := range by {
			if who == n {
				count++
			}
		}
		return count
	}
	leader := testkit.Within(t, "one leads", terms)
	redistest.Eventually(t, "it enqueues", func() bool { return enqueued(leader) >= 2 })
	require.Zero(t, enqueued(1-leader))
	resign[leader]()
	require.Equal(t, 1-leader, testkit.Within(t, "the other one leads", terms))
	last := enqueued(leader)
	redistest.Eventually(t, "it enqueues", func() bool { return enqueued(1-leader) >= 2 })
	require.Equal(t, last, enqueued(leader), "the first one has stopped before the other one began")
	require.Empty(t, terms)
}

// TestTheProgram has a process that schedules be killed, and another one go on; and one that is told to end, end.
func TestTheProgram(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	killed := program.Start(t, addr)
	killed.Says(" schedules")
	other := program.Start(t, addr)
	redistest.EventuallyWithin(t, 30*time.Second, "tasks are done", func() bool {
		return len(regexp.MustCompile(`writes the statement`).FindAllString(killed.Out.String()+other.Out.String(), -1)) >= 2
	})
	require.False(t, other.Said(" schedules"))
	killed.Kill()
	other.Says(" schedules")
	other.Says(" writes the statement of account 7")
	other.Signal(syscall.SIGTERM)
	require.Zero(t, other.Code())
}

// TestDemonstration runs three instances in one process.
func TestDemonstration(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	require.NoError(t, run(context.Background()))
}
