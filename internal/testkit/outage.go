package testkit

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/redistest/host"
)

// Outage is a network that can be switched off. While it is down, every write and every connection fails. While it is silent,
// every write succeeds, and nothing arrives.
type Outage struct{ Down, Silent atomic.Bool }

// Behind returns a client of the same deployment whose connections go through the network.
func (o *Outage) Behind(tb testing.TB, rdb redis.UniversalClient) redis.UniversalClient {
	tb.Helper()
	through := func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &outageConn{Conn: conn, Outage: o}, nil
		}
	}
	var behind redis.UniversalClient
	switch rdb := rdb.(type) {
	case *redis.Client:
		own := *rdb.Options()
		own.Dialer = through(own.Dialer)
		behind = redis.NewClient(&own)
	case *redis.ClusterClient:
		own := *rdb.Options()
		dial := own.Dialer
		if dial == nil {
			dial = host.Dial
		}
		own.Dialer = through(dial)
		behind = redis.NewClusterClient(&own)
	default:
		tb.Fatalf("a client of type %T", rdb)
	}
	tb.Cleanup(func() { _ = behind.Close() })
	return behind
}

// Dial connects, for redis.Options.Dialer.
func (o *Outage) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.Down.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}
	}
	conn, err := host.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &outageConn{Conn: conn, Outage: o}, nil
}

type outageConn struct {
	net.Conn
	*Outage
	closed atomic.Bool
}

// Close closes the connection.
func (c *outageConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// Write fails while the network is down, and once the connection is closed: a writer that never fails would never end.
func (c *outageConn) Write(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	if c.Down.Load() {
		return 0, &net.OpError{Op: "write", Err: errors.New("no route to host")}
	}
	if c.Silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
