// Package host has the tests of the root module run in virtual time. The file stands in for internal/redistest/host/host.go there: see
// simulation/suites.
package host

import (
	"context"
	"net"
	"testing"

	"github.com/go-rlock/rlock/simulation/virtual"
)

// Virtual reports whether time is virtual.
const Virtual = true

// Main prepares the tests of a package.
func Main(m *testing.M) { virtual.Main(m) }

// Listen listens on a free port.
func Listen() (net.Listener, error) { return virtual.Listen() }

// Dial connects. It has the form of [net.Dialer.DialContext].
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return virtual.Dial(ctx, network, addr)
}

// Start starts a server in virtual time.
func Start() Server { return virtual.Start() }
