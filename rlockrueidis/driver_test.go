package rlockrueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/drivertest"
	"github.com/go-rlock/rlock/internal/fault"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	goleak.VerifyTestMain( // see suites.Leaks, which this package cannot import
		m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
	)
}

// quiet drops the log lines of go-redis about connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// client returns a client of rueidis that is closed with the test.
func client(tb testing.TB, opt rueidis.ClientOption) rueidis.Client {
	tb.Helper()
	opt.DisableCache = true // miniredis has none
	c, err := rueidis.NewClient(opt)
	require.NoError(tb, err)
	tb.Cleanup(c.Close)
	return c
}

// optionsFor returns the options for a client of a server of the tests.
func optionsFor(s drivertest.Server) rueidis.ClientOption {
	switch {
	case s.Cluster != nil:
		return rueidis.ClientOption{InitAddress: s.Cluster.Addrs}
	case s.Sentinel != nil:
		return rueidis.ClientOption{
			InitAddress: s.Sentinel.SentinelAddrs, Sentinel: rueidis.SentinelOption{MasterSet: s.Sentinel.MasterName},
		}
	}
	return rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true} // miniredis answers as a cluster of one, too
}

func TestDriver(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rueidis.ClientOption){
		"default":                func(*rueidis.ClientOption) {},
		"always pipelining":      func(o *rueidis.ClientOption) { o.AlwaysPipelining = true },
		"one blocking at a time": func(o *rueidis.ClientOption) { o.BlockingPoolSize = 4; o.RingScaleEachConn = 4 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(tb testing.TB, s drivertest.Server, cfg driver.Config) driver.Driver {
				tb.Helper()
				opt := optionsFor(s)
				change(&opt)
				d, err := open(client(tb, opt), cfg)
				require.NoError(tb, err)
				tb.Cleanup(func() { d.Close(context.WithoutCancel(tb.Context())) })
				return d
			})
		})
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	timeout := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	for _, test := range []struct {
		err              error
		fate             fault.Fate
		transient, stale bool
	}{
		{err: rueidis.ErrClosing, fate: fault.InDoubt},
		{err: rueidis.ErrNoCache, fate: fault.NotSent},
		{err: fmt.Errorf("%w: %w", fault.ErrNoConnection, context.DeadlineExceeded), fate: fault.NotSent, transient: true, stale: true},
		{err: rueidis.ErrNoSlot, fate: fault.NotSent, transient: true, stale: true},
		{err: &net.OpError{Op: "dial", Err: io.EOF}, fate: fault.NotSent, transient: true, stale: true},
		{err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}, fate: fault.NotSent},
		{err: timeout, fate: fault.InDoubt, transient: true, stale: true},
		{err: context.DeadlineExceeded, fate: fault.InDoubt, transient: true, stale: true},
		{err: fmt.Errorf("hook: %w", io.EOF), fate: fault.InDoubt, transient: true, stale: true},
		{err: errors.New("of a hook"), fate: fault.InDoubt, transient: true},
	} {
		got := (&conn{}).classify(test.err)
		if errors.Is(test.err, rueidis.ErrClosing) {
			require.ErrorIs(t, got, fault.ErrClosed)
			got.Err = test.err
		}
		require.Equal(t, &fault.Error{Fate: test.fate, Transient: test.transient, Stale: test.stale, Err: test.err}, got, test.err.Error())
	}
	require.Nil(t, (&conn{}).classify(nil))
	busy := (&conn{}).classify(fmt.Errorf("BUSY Redis is busy running a script. [CLIENT TRACKING ON OPTIN]\n%w", rueidis.ErrNoCache))
	require.Equal(t, fault.NotSent, busy.Fate)
	require.Equal(t, "BUSY", busy.Code)
	require.True(t, busy.Transient, "a new connection was not made, because Redis is busy")
}
