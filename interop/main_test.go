package interop_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
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
	buildAll()
	// The pool of go-redis dials a dead server once a second, and only then notices that it was closed.
	goleak.VerifyTestMain(suite{m},
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// suite ends the shared JVMs before goleak counts goroutines.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	defer killShared()
	return s.m.Run()
}

// quiet is a logger that drops the messages of go-redis about connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// aLongTime is how long tests wait for an event that must happen.
const aLongTime = 30 * time.Second

// expected lists what a client may log here. Some tests use one name with and without tokens.
var expected = []string{
	"lock acquired without a fencing token", "lock lost while held", "renewal failed", "renewals succeed again",
	"place in the queue of a fair lock lost",
}

// newClient returns a Go client that is closed with the test. The test fails if the client logs an unexpected line, unless opts
// set another logger.
func newClient(tb testing.TB, rdb redis.UniversalClient, opts ...rlock.Option) *rlock.Client {
	tb.Helper()
	log := &recorder{}
	c, err := rlock.New(rdb, append([]rlock.Option{rlock.WithLogger(slog.New(slog.NewTextHandler(log, nil)))}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, c.Close())
		for line := range strings.Lines(log.String()) {
			require.True(tb, slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(line, text) }), "logged: %s", line)
		}
	})
	return c
}

// recorder is an io.Writer that keeps the text. It is safe for concurrent use.
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

func newName() string { return "interop:" + uuid.NewString() }

func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	redistest.EventuallyWithin(tb, aLongTime, what, condition)
}

// within waits for an event, and fails the test if it does not happen in time.
func within[T any](tb testing.TB, what string, event <-chan T) T {
	tb.Helper()
	select {
	case v := <-event:
		return v
	case <-time.After(aLongTime):
		tb.Fatalf("did not happen within %v: %s", aLongTime, what)
		panic("unreachable")
	}
}

// async runs a function in a goroutine and returns a channel that receives its error.
func async(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// holders returns the hash of a lock in Redis: its holders with their counts. It is empty for a free lock.
func holders(tb testing.TB, rdb redis.UniversalClient, name string) map[string]string {
	tb.Helper()
	fields, err := rdb.HGetAll(context.Background(), name).Result()
	require.NoError(tb, err)
	return fields
}

// subscribed waits until at least that many clients listen on a channel, which shows that they wait for a lock. It works
// with a single server only.
func subscribed(tb testing.TB, rdb *redis.Client, channel string, clients int64) {
	tb.Helper()
	eventually(tb, "clients listen on "+channel, func() bool {
		return rdb.PubSubNumSub(context.Background(), channel).Val()[channel] >= clients
	})
}

// queued waits until at least that many owners wait for a fair lock.
func queued(tb testing.TB, rdb redis.UniversalClient, name string, owners int64) {
	tb.Helper()
	eventually(tb, "owners queue for "+name, func() bool {
		return rdb.LLen(context.Background(), derived("redisson_lock_queue", name)).Val() >= owners
	})
}
