package interop_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	redis.SetLogger(quiet{})
	buildAll()
	// go-redis's pool tries a dead server once a second, and only then sees that it was closed.
	goleak.VerifyTestMain(suite{m},
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// suite ends the JVMs that the tests share before goroutines are counted.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	defer killShared()
	return s.m.Run()
}

// quiet drops what go-redis logs about the connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// aLongTime is how long tests wait for what must happen before they call it hanging.
const aLongTime = 30 * time.Second

// newClient returns a Go client that is closed with the test. Unless the test says otherwise, its warnings fail it.
func newClient(tb testing.TB, rdb redis.UniversalClient, opts ...rlock.Option) *rlock.Client {
	tb.Helper()
	log := &recorder{}
	c, err := rlock.New(rdb, append([]rlock.Option{rlock.WithLogger(slog.New(slog.NewTextHandler(log, nil)))}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, c.Close())
		require.Empty(tb, log.String(), "nothing should have been logged")
	})
	return c
}

// recorder keeps what is written to it.
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

// async runs a function in a goroutine and returns where its error comes.
func async(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// holders returns the fields of a hash in Redis: who holds a lock, and how often; nobody: empty.
func holders(tb testing.TB, rdb redis.UniversalClient, name string) map[string]string {
	tb.Helper()
	fields, err := rdb.HGetAll(context.Background(), name).Result()
	require.NoError(tb, err)
	return fields
}

// subscribed waits until so many clients of a server that stands alone listen on a channel, which says that they wait.
func subscribed(tb testing.TB, rdb *redis.Client, channel string, clients int64) {
	tb.Helper()
	eventually(tb, "somebody waits on "+channel, func() bool {
		return rdb.PubSubNumSub(context.Background(), channel).Val()[channel] >= clients
	})
}

// queued waits until so many owners wait for a fair lock.
func queued(tb testing.TB, rdb redis.UniversalClient, name string, owners int64) {
	tb.Helper()
	eventually(tb, "they queue for "+name, func() bool {
		return rdb.LLen(context.Background(), derived("redisson_lock_queue", name)).Val() >= owners
	})
}
