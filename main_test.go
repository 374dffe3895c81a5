package rlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	redis.SetLogger(quiet{})
	// The pool of go-redis retries a dead server once a second, and only then notices that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// quiet discards the log lines of go-redis about connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// aLongTime is the timeout after which a test that waits for an event fails.
const aLongTime = 20 * time.Second

// newClient returns a client that is closed with the test. The test fails if the client logs anything, unless an option sets
// another logger.
func newClient(tb testing.TB, rdb redis.UniversalClient, opts ...rlock.Option) *rlock.Client {
	tb.Helper()
	log := &recorder{}
	c, err := rlock.New(rdb, append([]rlock.Option{rlock.WithLogger(log.logger())}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, c.Close())
		require.Empty(tb, log.String(), "nothing should have been logged")
	})
	return c
}

// recorder keeps log output. It is safe for concurrent use.
type recorder struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func (r *recorder) Contains(text string) bool { return strings.Contains(r.String(), text) }

func (r *recorder) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

// recording returns a recorder, and the option that makes a client log to it.
func recording() (rlock.Option, *recorder) {
	r := &recorder{}
	return rlock.WithLogger(r.logger()), r
}

// discard is a logger for clients whose warnings are irrelevant to the test.
var discard = slog.New(slog.DiscardHandler)

func newName() string { return "test:" + uuid.NewString() }

func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	redistest.EventuallyWithin(tb, aLongTime, what, condition)
}

// within waits for an event and returns its value. It fails the test after aLongTime.
func within[T any](tb testing.TB, what string, event <-chan T) T {
	tb.Helper()
	select {
	case v := <-event:
		return v
	case <-time.After(aLongTime):
		tb.Fatalf("timed out after %v: %s", aLongTime, what)
		panic("unreachable")
	}
}

// must returns v, and panics if err is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// async runs a function in a goroutine and returns a channel for its result.
func async(fn func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	return result
}

// holders returns the hash of a lock in Redis: its holders with their counts. It is empty if nobody holds the lock.
func holders(tb testing.TB, rdb redis.UniversalClient, name string) map[string]string {
	tb.Helper()
	fields, err := rdb.HGetAll(context.Background(), name).Result()
	require.NoError(tb, err)
	return fields
}
