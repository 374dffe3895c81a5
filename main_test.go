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
	// go-redis's pool tries a dead server once a second, and only then sees that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// quiet drops what go-redis logs about the connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// aLongTime is how long tests wait for what must happen before they call it hanging.
const aLongTime = 20 * time.Second

// newClient returns a client that is closed with the test. Unless the test says otherwise, its warnings fail it.
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

// recorder keeps what is logged.
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

// recording returns the option that logs to a recorder.
func recording() (rlock.Option, *recorder) {
	r := &recorder{}
	return rlock.WithLogger(r.logger()), r
}

// discard is for clients whose warnings are no concern of the test.
var discard = slog.New(slog.DiscardHandler)

func newName() string { return "test:" + uuid.NewString() }

func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	redistest.EventuallyWithin(tb, aLongTime, what, condition)
}

// within waits for an event, and fails the test when it does not come.
func within[T any](tb testing.TB, what string, event <-chan T) T {
	tb.Helper()
	select {
	case v := <-event:
		return v
	case <-time.After(aLongTime):
		tb.Fatalf("after %v still not: %s", aLongTime, what)
		panic("unreachable")
	}
}

// must returns what came without an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// async runs a function in a goroutine and returns where its error comes.
func async(fn func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	return result
}

// holders returns the fields of a hash in Redis: who holds a lock, and the count that is shown; nobody: empty.
func holders(tb testing.TB, rdb redis.UniversalClient, name string) map[string]string {
	tb.Helper()
	fields, err := rdb.HGetAll(context.Background(), name).Result()
	require.NoError(tb, err)
	return fields
}
