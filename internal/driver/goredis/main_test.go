package goredis

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/wire"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	// go-redis's pool tries a dead server once a second, and only then sees that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// quiet drops the log lines of go-redis about connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// needServer skips a test where redis-server is not installed.
func needServer(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Skip("redis-server is not installed")
	}
}

func open(tb testing.TB, rdb redis.UniversalClient) *Driver {
	tb.Helper()
	d, err := New(rdb, Config{CommandTimeout: 5 * time.Second})
	require.NoError(tb, err)
	return d
}

func newName() string { return "t-" + uuid.NewString() }

// acquire is a call by which a holder acquires a lock for 30 s.
func acquire(k *wire.Kind, name, holder string) wire.Call {
	names := wire.NewNames(k, name, "client")
	return wire.Call{Script: k.Acquire, Keys: k.Acquire.WithTombstones(names.Keys), Args: wire.Args{
		Holder: holder, Millis: 30_000, Number: 1000, Channel: names.Boxed, Extra: int64(0),
	}}
}

func release(k *wire.Kind, name, holder string) wire.Call {
	names := wire.NewNames(k, name, "client")
	return wire.Call{Script: k.Release, Keys: k.Release.Of(names.Keys), Args: wire.Args{
		Holder: holder, Number: 1000, Channel: names.Boxed, Publish: wire.PublishPlain, Extra: int64(0),
	}}
}

// renew is a call that renews the locks of one holder.
func renew(holder string, names ...string) wire.Call {
	c := wire.Call{Script: wire.Plain.Renew, Argv: []any{30_000}}
	for _, name := range names {
		c.Keys, c.Argv = append(c.Keys, name), append(c.Argv, holder)
	}
	return c
}
