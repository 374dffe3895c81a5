// Package testkit has what the tests of the library share: clients that fail the test when they log, recorders, waiting for
// events, faults, users with few rights, processes of their own, and every kind of lock by its name.
package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// Main runs the tests of a package, and fails if one leaves a goroutine behind. It is the body of every TestMain: a test
// binary also runs as a child process, see [StartChild].
func Main(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	redis.SetLogger(quiet{})
	host.Main(m)
	goleak.VerifyTestMain(timed{m}, connect.Leaks()...)
}

// timed runs the tests of a package. If they fail, it prints how late the machine ran its goroutines: a lease of 300 ms is lost
// if the machine stops for as long.
type timed struct{ *testing.M }

// Run implements [goleak.TestingM].
func (m timed) Run() int {
	if host.Virtual {
		return m.M.Run()
	}
	const tick, late = 10 * time.Millisecond, 100 * time.Millisecond
	var longest time.Duration
	times := 0
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
			now := time.Now()
			if by := now.Sub(last) - tick; by > late {
				longest, times = max(longest, by), times+1
			}
			last = now
		}
	}()
	code := m.M.Run()
	close(stop)
	<-stopped
	if code != 0 {
		fmt.Printf("The machine ran a goroutine more than %v too late %d times, by %v at most.\n", late, times, longest)
	}
	return code
}

// quiet discards the log lines of go-redis about connections that the tests break.
type quiet struct{}

// Printf implements the logger of go-redis.
func (quiet) Printf(context.Context, string, ...any) {}

// ALongTime is the timeout after which a test that waits for an event fails.
const ALongTime = 20 * time.Second

// patience is the command timeout of the clients of tests. A single attempt may take a fifth of it: on a busy machine, a healthy server
// may need more than the second of the default.
const patience = ALongTime / 2

// NewClient returns a client that is closed with the test. The test fails if the client logs an unexpected line, unless an option
// sets another logger.
func NewClient(tb testing.TB, rdb redis.UniversalClient, opts ...rlock.Option) *rlock.Client {
	tb.Helper()
	log := &Recorder{}
	c, finish, err := connect.Open(rdb, append([]rlock.Option{rlock.WithLogger(log.Logger()), rlock.WithCommandTimeout(patience)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, c.Close())
		finish()
		require.Empty(tb, log.unexpected(), "nothing else should have been logged")
	})
	return c
}

// NewName returns a name that no other test uses.
func NewName() string { return "test:" + uuid.NewString() }

// Eventually waits until a condition holds, and fails the test after [ALongTime]. Tests use it for conditions that no event
// announces. The description names the condition in the failure.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	redistest.EventuallyWithin(tb, ALongTime, what, condition)
}

// Within waits for an event and returns its value. It fails the test after [ALongTime].
func Within[T any](tb testing.TB, what string, event <-chan T) T {
	tb.Helper()
	select {
	case v := <-event:
		return v
	case <-time.After(ALongTime):
		tb.Fatalf("timed out after %v: %s", ALongTime, what)
		panic("unreachable")
	}
}

// OnceGood fails the test unless one of three measurements is good. Tests use it for figures that get worse, never better, while
// the machine is busy with something else.
func OnceGood(tb testing.TB, measure func() bool) {
	tb.Helper()
	for range 3 {
		if measure() {
			return
		}
	}
	tb.Fatal("none of three measurements is good")
}

// Must returns v, and panics if err is not nil.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// SendTo returns a function that sends what a call in another goroutine returned, or writes its error to stderr. There, [Must] would
// panic when a test that has failed closes its clients, and hide why.
func SendTo[T any](to chan<- T) func(T, error) {
	return func(v T, err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "a call in the background:", err)
			return
		}
		to <- v
	}
}

// Async runs a function in a goroutine and returns a channel for its result.
func Async(fn func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	return result
}

// Never is a poll interval that rules out polling: in a test that passes with it, a message woke the waiter.
const Never = time.Hour

// Second returns the error of a call that returns something else too.
func Second[T any](_ T, err error) error { return err }

// Stays checks that a condition holds for 300 ms.
func Stays(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		require.True(tb, condition(), what)
		<-time.After(10 * time.Millisecond)
	}
}

// Repository returns the path of the repository, which is above a test of any of its modules.
func Repository() string {
	dir := "."
	for range 8 {
		if _, err := os.Stat(filepath.Join(dir, ".golangci.yml")); err == nil {
			break
		}
		dir = filepath.Join("..", dir)
	}
	return dir
}
