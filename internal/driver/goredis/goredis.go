// Package goredis implements [driver.Driver] on go-redis v9. In rlock, only this package, the root's New and helpers of tests
// import go-redis.
package goredis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// Driver sends commands through a client of go-redis. It is safe for concurrent use.
type Driver struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb, if it is a cluster's client
	timeout time.Duration
	info    driver.Info

	deadlines driver.Deadlines // of the contexts with which go-redis connects

	// usual is the route of most commands. patient is the route of commands that wait in Redis, which does not reply meanwhile.
	// Both are nil unless rdb is a redis.Client with a ReadTimeout that does not fit: then the route leads to a clone with the
	// command timeout.
	usual, patient route

	refreshed atomic.Int64 // when Refresh last did something, Unix ns
}

var _ driver.Driver = (*Driver)(nil)

// New returns a driver that sends through rdb. It sends nothing itself. The error matches [fault.ErrInvalidOption] if
// rdb cannot keep a lock.
func New(rdb redis.UniversalClient, cfg driver.Config) (*Driver, error) {
	d := &Driver{rdb: rdb, timeout: cfg.CommandTimeout, deadlines: driver.Deadlines{Timeout: cfg.CommandTimeout}}
	if err := d.fit(cfg); err != nil {
		return nil, err
	}
	return d, nil
}

// Close does nothing: what go-redis does in the background ends with its client.
func (d *Driver) Close(context.Context) {}

// Info returns what the driver knows of the deployment and of its own limits.
func (d *Driver) Info() driver.Info { return d.info }

// node is the client of one server. go-redis may make a new one for the same address.
type node struct{ *redis.Client }

// Addr returns the address of the server.
func (n node) Addr() string { return n.Options().Addr }

// Node returns the master that has a key, or nil outside clusters. It may have to ask a server for the topology first.
func (d *Driver) Node(ctx context.Context, key string) (driver.Node, *fault.Error) {
	if d.cluster == nil {
		return nil, nil
	}
	master, err := d.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, d.beforeSending(err)
	}
	return node{master}, nil
}

// to returns the route to a node, or to the whole deployment for nil.
func (d *Driver) to(n driver.Node) route {
	if n, ok := n.(node); ok {
		return route{n.Client}
	}
	return d.usual
}

// patientTo is like to, for commands that wait in Redis.
func (d *Driver) patientTo(n driver.Node) route {
	at, ok := n.(node)
	switch {
	case !ok:
		return d.patient
	case at.Options().ReadTimeout < d.timeout:
		addDetour(at.Client, at.AddHook)
		return route{at.Client, at.WithTimeout(d.timeout)}
	}
	return route{at.Client}
}

// Raw sends a command that is no script.
func (d *Driver) Raw(ctx context.Context, at driver.Node, cmd ...any) (any, *fault.Error) {
	c := redis.NewCmd(ctx, cmd...)
	var err error
	if r := d.to(at); r != nil {
		err = d.rdb.Process(ctx, &aimed{Cmd: c, route: r, retry: true})
	} else {
		err = d.rdb.Process(ctx, c)
	}
	if err != nil {
		return nil, d.classify(err)
	}
	return c.Val(), nil
}

// refreshPause is how long [Driver.Refresh] does nothing after it did something.
const refreshPause = 200 * time.Millisecond

// Refresh asks for the cluster's topology again, in the background, unless it has just done so. By itself go-redis
// keeps an old topology for a minute.
func (d *Driver) Refresh() {
	if d.cluster == nil {
		return
	}
	now, last := time.Now().UnixNano(), d.refreshed.Load()
	if now-last >= int64(refreshPause) && d.refreshed.CompareAndSwap(last, now) {
		d.cluster.ReloadState(context.Background())
	}
}
