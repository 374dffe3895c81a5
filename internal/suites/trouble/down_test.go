package trouble

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// A connection may take longer to fail than a short wait lasts. The caller hears why it failed.
func TestAShortWaitReportsAServerThatIsDown(t *testing.T) {
	t.Parallel()
	down := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	rdb := redis.NewClient(&redis.Options{DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, down
	}})
	defer func() { require.NoError(t, rdb.Close()) }()
	c, finish, err := connect.Open(rdb)
	require.NoError(t, err)
	defer finish()
	defer func() { require.NoError(t, c.Close()) }()
	for _, lock := range []*rlock.Lock{c.NewLock("down"), c.NewFairLock("down"), c.NewSpinLock("down")} {
		ok, err := lock.TryLock(context.Background(), rlock.Wait(time.Microsecond))
		require.False(t, ok)
		require.ErrorIs(t, err, down)
	}
}
