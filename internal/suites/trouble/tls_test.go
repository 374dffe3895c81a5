package trouble

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestTLS tests locks over TLS with a certificate authority that only the client trusts.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := redistest.NewCA(t)
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		server := ca.Start(t)
		overTLS(t, ca, func(config *tls.Config) redis.UniversalClient {
			return redistest.Open(t, &redis.Options{Addr: server.TLSAddr, TLSConfig: config, DialerRetries: 1})
		})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := ca.StartCluster(t)
		open := func(config *tls.Config) redis.UniversalClient {
			opt := &redis.ClusterOptions{TLSConfig: config, DialerRetries: 1}
			for _, node := range cluster.Nodes {
				opt.Addrs = append(opt.Addrs, node.TLSAddr)
			}
			rdb := redis.NewClusterClient(opt)
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		}
		overTLS(t, ca, open)
		overTLS(t, ca, open, rlock.WithClassicPubSub())
	})
}

func overTLS(t *testing.T, ca *redistest.CA, open func(*tls.Config) redis.UniversalClient, opts ...rlock.Option) {
	t.Helper()
	ctx, rdb := t.Context(), open(ca.Config())
	opts = append(opts, rlock.WithWatchdogTimeout(3*time.Second), tune.PollInterval(testkit.Never))
	held := testkit.NewClient(t, rdb, opts...).NewLock(testkit.NewName())
	lock := testkit.NewClient(t, rdb, opts...).NewLock(held.Name())
	hold, err := held.Acquire(ctx)
	require.NoError(t, err)
	waiting := testkit.Async(func() error { return lock.Lock(ctx) })
	testkit.Eventually(t, "the waiter listens", func() bool { return testkit.Rests(lock) })
	before := hold.Deadline()
	testkit.Eventually(t, "the hold is renewed", func() bool { return hold.Deadline().After(before) })
	require.NoError(t, hold.Unlock(ctx))
	require.NoError(t, testkit.Within(t, "a message wakes the waiter", waiting))
	require.NoError(t, lock.Unlock(ctx))

	// A client that does not trust the authority sends nothing, because the server could be anybody. The verbs return the
	// error at once, because waiting cannot help. The dialer of go-redis tries five times before, which takes half a second.
	patient := rlock.WithCommandTimeout(testkit.ALongTime)
	strange := open(&tls.Config{MinVersion: tls.VersionTLS12})
	if client, finish, err := connect.Open(strange); err != nil { // rueidis connects to a cluster at once
		require.ErrorAs(t, err, new(x509.UnknownAuthorityError))
		return
	} else {
		require.NoError(t, client.Close())
		finish()
	}
	stranger := testkit.NewClient(t, strange, patient).NewLock(held.Name())
	for _, refused := range []<-chan error{
		testkit.Async(func() error { return testkit.Second(stranger.TryLock(ctx)) }),
		testkit.Async(func() error { return stranger.Lock(ctx) }),
	} {
		err := testkit.Within(t, "the connection is refused", refused)
		require.ErrorAs(t, err, new(x509.UnknownAuthorityError))
		require.ErrorContains(t, err, "certificate signed by unknown authority")
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
	}
}
