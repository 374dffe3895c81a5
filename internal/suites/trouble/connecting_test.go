package trouble

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// A host that swallows packets leaves go-redis connecting: five times DialTimeout by default, and here for an hour. Calls end by their
// own limits, also those whose context never ends.
func TestCallsEndWhileConnectingHangs(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	done := make(chan struct{})
	rdb := redis.NewClient(&redis.Options{
		DialTimeout: time.Hour, ReadTimeout: timeout, Dialer: func(context.Context, string, string) (net.Conn, error) {
			<-done
			return nil, net.ErrClosed
		},
	})
	defer func() { require.NoError(t, rdb.Close()) }()
	c, finish, err := connect.Open(rdb, rlock.WithCommandTimeout(timeout), rlock.WithLogger(testkit.Discard))
	require.NoError(t, err)
	defer finish()
	defer close(done)
	defer func() { require.NoError(t, c.Close()) }()
	for _, lock := range []*rlock.Lock{c.NewLock("swallowed"), c.NewFairLock("swallowed"), c.NewSpinLock("swallowed")} {
		over := make(chan error, 1)
		go func() { over <- lock.Lock(context.Background(), rlock.Wait(4*timeout)) }()
		select {
		case err := <-over:
			require.ErrorIs(t, err, rlock.ErrUnavailable)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller has no deadline")
		case <-time.After(30 * time.Second):
			t.Fatal("the call goes on")
		}
	}
}
