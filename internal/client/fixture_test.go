package client

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	watchdogTimeout = 30 * time.Second
	commandTimeout  = 5 * time.Second
	pollInterval    = 5 * time.Second
	jitter          = 20 * time.Millisecond // by which a sleep may be longer
)

// testConfig has the root's defaults.
func testConfig() Config {
	return Config{
		Table: config.Config{
			ClientID:        "00000000-0000-4000-8000-000000000001",
			WatchdogTimeout: watchdogTimeout, CommandTimeout: commandTimeout, PollInterval: pollInterval,
			FairWait: 5 * time.Minute, BatchSize: 100, HandOvers: 32, HandOverTime: 5 * time.Millisecond,
			StandBack: 2 * time.Millisecond,
		},
		Logger: slog.Default,
	}
}

// name is the lock of these tests.
const name = "name"

// fixture is a Redis in memory with its clients, in virtual time.
type fixture struct {
	*testing.T
	*server

	info     driver.Info // of new clients
	leftover bool        // whether waiters may be left in the line
	writes   bool        // whether plain locks are write locks instead
	classic  bool        // whether new clients are on a cluster with classic pub/sub, so that they use no line
	start    time.Time
	clients  []*Client
	drivers  []*client

	mu    sync.Mutex
	logs  []string
	attrs map[string]slog.Value // the latest ones
}

// run runs a test with clients that stand in the line, for a plain lock and a write lock, and with clients that cannot.
func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	t.Run("line", func(t *testing.T) { runLine(t, test) })
	t.Run("write", func(t *testing.T) { runWrite(t, test) })
	t.Run("classic", func(t *testing.T) { runClassic(t, test) })
}

// runWrite runs a test with write locks instead of plain ones.
func runWrite(t *testing.T, test func(f *fixture)) {
	t.Helper()
	runLine(t, func(f *fixture) {
		f.writes = true
		f.base, f.frees = wire.NewNames(wire.Write, name, "").Base(), []string{"1", "0"}
		test(f)
	})
}

// runClassic runs a test with clients that cannot stand in the line.
func runClassic(t *testing.T, test func(f *fixture)) {
	t.Helper()
	runLine(t, func(f *fixture) {
		f.classic, f.info.Cluster = true, true
		test(f)
	})
}

// either returns what is expected with the line, or without.
func either[T any](f *fixture, line, classic T) T {
	if f.classic {
		return classic
	}
	return line
}

// runLine runs a test in virtual time, and closes its clients afterwards. Then nothing may be left of their locks.
func runLine(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, server: newServer(), start: time.Now(), info: driver.Info{Bounded: true, Slots: 9}}
		defer func() {
			for _, c := range f.clients {
				c.Close()
				require.Zero(t, c.Table().Stats().Queues, "local queues")
				require.Zero(t, c.tasks.Count(), "operations under way")
			}
			for _, d := range f.drivers {
				require.True(t, d.closed.Load(), "the driver's background")
			}
			if !f.leftover {
				require.Empty(t, f.line(), "waiters in the line")
			}
		}()
		test(f)
	})
}

// client returns a new client with some options changed.
func (f *fixture) client(change ...func(cfg *Config)) *Client {
	cfg := testConfig()
	cfg.Table.ClientID = strings.Repeat("z", len(f.clients)/25) + string(rune('a'+len(f.clients)%25)) // they sort as they come
	cfg.Logger = func() *slog.Logger { return slog.New(f) }
	if f.classic {
		cfg.Classic = true
	}
	for _, c := range change {
		c(&cfg)
	}
	d := &client{server: f.server, info: f.info}
	c := New(cfg, d)
	f.clients, f.drivers = append(f.clients, c), append(f.drivers, d)
	return c
}

// lock returns a new handle.
func (f *fixture) lock(c *Client, kind *wire.Kind) *Lock {
	l := new(Lock)
	tabled(l, c, f.kind(kind), name, name)
	return l
}

// tabled makes the zero Lock a handle on a lock that the lock table has, whatever its kind.
func tabled(l *Lock, c *Client, kind *wire.Kind, name, inRedis string) {
	l.Init(c, kind, name, inRedis)
	l.turns = nil
}

// kind returns the kind of lock that a test uses where it says so.
func (f *fixture) kind(kind *wire.Kind) *wire.Kind {
	switch {
	case !f.writes:
		return kind
	case kind.Tokens:
		return wire.FencedWrite
	}
	return wire.Write
}

// newLock returns a handle of a new client.
func (f *fixture) newLock() *Lock { return f.lock(f.client(), wire.Plain) }

// until lets time pass until a time since the start, and then waits until nothing more happens at that moment.
func (f *fixture) until(d time.Duration) {
	f.Helper()
	require.GreaterOrEqual(f, d, time.Since(f.start), "time does not go back")
	time.Sleep(d - time.Since(f.start))
	synctest.Wait()
}

// result is what comes of a call on a goroutine of its own.
type result struct {
	f    *fixture
	done chan struct{}
	err  error
	at   time.Duration // since the start
}

// async calls a function on a goroutine of its own, and waits until nothing more happens at this moment.
func (f *fixture) async(call func() error) *result {
	r := &result{f: f, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = call()
		r.at = time.Since(f.start)
	}()
	synctest.Wait()
	return r
}

// over reports whether the call has returned, once nothing more happens at this moment.
func (r *result) over() bool {
	synctest.Wait()
	return r.ended()
}

// ended reports whether the call has returned by now.
func (r *result) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// succeeded requires the call to return nil at a time since the start, or at most a jitter later.
func (r *result) succeeded(at time.Duration) {
	r.f.Helper()
	<-r.done
	require.NoError(r.f, r.err)
	r.returnedAt(at)
}

// failed requires the call to return that error at a time since the start, or at most a jitter later.
func (r *result) failed(want error, at time.Duration) {
	r.f.Helper()
	<-r.done
	require.ErrorIs(r.f, r.err, want)
	r.returnedAt(at)
}

func (r *result) returnedAt(at time.Duration) {
	r.f.Helper()
	require.GreaterOrEqual(r.f, r.at, at)
	require.LessOrEqual(r.f, r.at, at+jitter)
}

// acquire is the root's Lock.
func acquire(ctx context.Context, l *Lock) error {
	_, err := l.Take(ctx, Terms{Op: "lock"})
	return err
}

// acquireWithin is the root's Lock with a wait.
func acquireWithin(ctx context.Context, l *Lock, wait time.Duration) error {
	_, err := l.Take(ctx, Terms{Op: "lock", Limited: true, Wait: wait})
	return err
}

// hold is the root's Acquire. It does not watch for a leak, because cleanups run outside the virtual time.
func (f *fixture) hold(ctx context.Context, l *Lock, t Terms) *Hold {
	f.Helper()
	t.Op, t.ByHold = "acquire", true
	held, err := l.Take(ctx, t)
	require.NoError(f, err)
	h := new(Hold)
	h.Init(ctx, held)
	return h
}

// token returns the latest token of the lock.
func (f *fixture) token() uint64 {
	f.Helper()
	token, err := strconv.ParseUint(text(f.do("GET", text(wire.NewNames(wire.Fenced, name, "").Keys[1]))), 10, 64)
	require.NoError(f, err)
	return token
}

// free requires that nobody holds the lock.
func (f *fixture) free() {
	f.Helper()
	require.Nil(f, f.held(), "the lock is free")
}

// Enabled is a log handler's.
func (f *fixture) Enabled(context.Context, slog.Level) bool { return true }

// Handle is a log handler's.
func (f *fixture) Handle(_ context.Context, r slog.Record) error {
	if f.classic && strings.HasPrefix(r.Message, "rlock: this cluster's pub/sub") {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs = append(f.logs, r.Message)
	if f.attrs == nil {
		f.attrs = make(map[string]slog.Value)
	}
	r.Attrs(func(a slog.Attr) bool {
		f.attrs[a.Key] = a.Value
		return true
	})
	return nil
}

// WithAttrs is a log handler's.
func (f *fixture) WithAttrs([]slog.Attr) slog.Handler { return f }

// WithGroup is a log handler's.
func (f *fixture) WithGroup(string) slog.Handler { return f }

// logged returns the messages that were logged since it was last called.
func (f *fixture) logged() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	logs := slices.Clone(f.logs)
	f.logs = nil
	return logs
}

// tryFor is the root's Lock with a context that ends.
func (f *fixture) tryFor(l *Lock, d time.Duration) error {
	ctx, cancel := context.WithTimeout(f.Context(), d)
	defer cancel()
	return acquire(ctx, l)
}
