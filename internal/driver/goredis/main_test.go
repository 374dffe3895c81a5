package goredis

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/driver"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	// go-redis's pool tries a dead server once a second, and only then sees that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// quiet drops the log lines of go-redis about connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func open(tb testing.TB, rdb redis.UniversalClient) *Driver {
	tb.Helper()
	d, err := New(rdb, driver.Config{CommandTimeout: 5 * time.Second})
	require.NoError(tb, err)
	return d
}
