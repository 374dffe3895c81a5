package host

import (
	"context"
	"net"
	"testing"
)

// Virtual reports whether time is virtual.
const Virtual = false

// Main prepares the tests of a package.
func Main(*testing.M) {}

// Listen listens on a free port.
func Listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// Dial connects. It has the form of [net.Dialer.DialContext].
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Start starts a server in virtual time. In real time there is none.
func Start() Server { return nil }
