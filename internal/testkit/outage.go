package testkit

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// Outage is a network that can be switched off. While it is down, every write and every connection fails.
type Outage struct{ Down atomic.Bool }

// Dial connects, for redis.Options.Dialer.
func (o *Outage) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.Down.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return outageConn{conn, o}, err
}

type outageConn struct {
	net.Conn
	*Outage
}

// Write fails while the network is down.
func (c outageConn) Write(b []byte) (int, error) {
	if c.Down.Load() {
		return 0, &net.OpError{Op: "write", Err: errors.New("no route to host")}
	}
	return c.Conn.Write(b)
}
