package cli

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

// TestMain is the command itself in a process that a test has started.
func TestMain(m *testing.M) {
	program.Run(func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)) })
	goleak.VerifyTestMain(m)
}

// command runs the command to its end.
func command(t *testing.T, addr string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := program.Start(t, addr, args...)
	code = p.Code()
	return code, p.Out.String(), p.Errs.String()
}

// onBoth runs a test on an embedded Redis and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	for where, start := range map[string]func(t *testing.T) *redis.Client{
		"embedded": func(t *testing.T) *redis.Client { t.Helper(); return redistest.Embedded(t) },
		"single":   func(t *testing.T) *redis.Client { t.Helper(); return redistest.Start(t).Client(t) },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

func addr(rdb *redis.Client) string { return rdb.Options().Addr }

func newClient(t *testing.T, rdb redis.UniversalClient) *rlock.Client {
	t.Helper()
	c, err := rlock.New(rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// hold holds a lock until the test ends.
func hold(t *testing.T, of handles.Any, opts ...rlock.AcquireOption) {
	t.Helper()
	h, err := of.Acquire(t.Context(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Unlock(context.Background()) })
}

func locked(t *testing.T, l *rlock.Lock) bool {
	t.Helper()
	held, err := l.IsLocked(t.Context())
	require.NoError(t, err)
	return held
}
