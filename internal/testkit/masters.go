package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// Masters is an environment for red locks: three independent servers, each behind a proxy.
type Masters struct {
	*testing.T
	Servers  [3]*redistest.Server
	Proxies  [3]*redistest.Proxy
	Direct   [3]*redis.Client
	LockName string
}

// NewMasters starts the servers and their proxies.
func NewMasters(t *testing.T) *Masters {
	t.Helper()
	m := &Masters{T: t, LockName: NewName()}
	for i := range m.Servers {
		m.Servers[i] = redistest.Start(t)
		m.Proxies[i] = redistest.NewProxy(t, m.Servers[i].Addr)
		m.Direct[i] = m.Servers[i].Client(t)
	}
	return m
}

// Lock returns a red lock, with clients of its own, and its members.
func (m *Masters) Lock(opts ...rlock.Option) (*rlock.RedLock, []*rlock.Lock) {
	m.Helper()
	return m.LockOf(m.Clients(redis.Options{MaxRetries: -1, ReadTimeout: 5 * time.Second}, opts...))
}

// LockOf is lock with existing clients.
func (m *Masters) LockOf(clients []*rlock.Client) (*rlock.RedLock, []*rlock.Lock) {
	var members []*rlock.Lock
	for _, client := range clients {
		members = append(members, client.NewLock(m.LockName))
	}
	return rlock.NewRedLock(members...), members
}

// Clients returns a client for each server.
func (m *Masters) Clients(opt redis.Options, opts ...rlock.Option) (clients []*rlock.Client) {
	m.Helper()
	for _, proxy := range m.Proxies {
		opt.Addr = proxy.Addr
		clients = append(clients, NewClient(m, redistest.Open(m, &opt), opts...))
	}
	return clients
}

// Has reports on which servers the lock is held. A server that is down counts as not held.
func (m *Masters) Has() (held [3]bool) {
	m.Helper()
	for i, rdb := range m.Direct {
		n, err := rdb.Exists(context.Background(), m.LockName).Result()
		held[i] = err == nil && n == 1
	}
	return held
}

// Acquires counts the acquire calls to all members.
func (m *Masters) Acquires() (n int) {
	for _, proxy := range m.Proxies {
		n += proxy.Count(Runs("acquire"))
	}
	return n
}
