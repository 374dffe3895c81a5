package testkit

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/redistest/host"
)

// Pair is a master and a replica, the link between them, and an address that moves from one to the other. A DNS name or a
// virtual IP address behaves like that.
type Pair struct {
	*testing.T
	master, Replica *redistest.Server
	Link            *redistest.Proxy
	addr            atomic.Pointer[string]
}

// NewPair starts both servers, and waits until the replica has caught up.
func NewPair(t *testing.T) *Pair {
	t.Helper()
	p := &Pair{T: t, master: redistest.Start(t)}
	p.Link = redistest.NewProxy(t, p.master.Addr)
	_, port, err := net.SplitHostPort(p.Link.Addr)
	require.NoError(t, err)
	p.Replica = redistest.Start(t, "--replicaof", "127.0.0.1", port)
	p.addr.Store(&p.master.Addr)
	p.CatchUp()
	return p
}

// CatchUp waits until the replica has all writes of the master.
func (p *Pair) CatchUp() {
	p.Helper()
	admin := p.master.Client(p)
	Eventually(p, "the replica has caught up", func() bool { return Replicated(p.T, admin, "any", 1) })
}

// Client returns a new client, which stands for another process.
func (p *Pair) Client(opts ...rlock.Option) *rlock.Client {
	p.Helper()
	logger, _ := Recording()
	return NewClient(p, redistest.Open(p.T, &redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return host.Dial(ctx, network, *p.addr.Load())
	}}), append(opts, logger)...)
}

// FailOver kills the master and makes the replica the master. Writes that have not reached the replica are lost.
func (p *Pair) FailOver() {
	p.Helper()
	p.master.Kill()
	require.NoError(p, p.Replica.Client(p).Do(p.Context(), "replicaof", "no", "one").Err())
	p.addr.Store(&p.Replica.Addr)
}
