// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// node is one server of a cluster, by its address.
type node string

// Addr returns the address.
func (n node) Addr() string { return string(n) }

// topology is what a cluster said about its slots. valkey-go does not tell which node has a key. It is loaded in the background, and an
// old one serves until there is a new one.
type topology struct {
	shards    atomic.Pointer[shards] // nil until one was loaded
	refreshed atomic.Int64           // when Refresh last did something, Unix ns

	mu      sync.Mutex
	loading chan struct{} // closed when the load that is under way is over; nil if none is
	failed  *fault.Error  // of the last load
}

// shards is a topology at one moment.
type shards struct {
	ranges []shard
	asked  time.Time
}

// shard is a range of slots and its master.
type shard struct {
	first, last int64
	master      node
}

// topologyAge is the age at which a topology is asked for again although nothing points to a new one.
const topologyAge = time.Minute

// of returns the master that has a slot.
func (s *shards) of(slot int64) (node, bool) {
	for _, r := range s.ranges {
		if r.first <= slot && slot <= r.last {
			return r.master, true
		}
	}
	return "", false
}

// at returns the client of a node, or of the whole deployment for nil.
func (d *conn) at(n driver.Node) (valkey.Client, *fault.Error) {
	if n == nil {
		return d.client, nil
	}
	if client := d.client.Nodes()[n.Addr()]; client != nil {
		return client, nil
	}
	return nil, unknownNode(fmt.Errorf("%w: %s", errUnknownNode, n.Addr()))
}

// errUnknownNode is the error of a command for a node that valkey-go does not know yet.
var errUnknownNode = errors.New("valkey-go does not know the node yet")

// unknownNode returns the error of a command for which there is no node.
func unknownNode(err error) *fault.Error {
	return &fault.Error{Fate: fault.NotSent, Transient: true, Stale: true, Err: err}
}

// Node returns the master that has a key, or nil outside clusters. It waits only for the first topology.
func (d *conn) Node(ctx context.Context, key string) (driver.Node, *fault.Error) {
	if !d.cluster {
		return nil, nil
	}
	now := d.topology.shards.Load()
	switch {
	case now == nil:
		if f := d.await(ctx, d.load()); f != nil {
			return nil, f
		}
		now = d.topology.shards.Load()
	case time.Since(now.asked) > topologyAge:
		d.load()
	}
	cmd := d.client.B().Arbitrary("PING").Keys(key).Build()
	if master, ok := now.of(int64(cmd.Slot())); ok {
		return master, nil
	}
	d.load()
	return nil, unknownNode(valkey.ErrNoSlot)
}

// await waits until the first topology is loaded.
func (d *conn) await(ctx context.Context, loaded <-chan struct{}) *fault.Error {
	select {
	case <-loaded:
	case <-ctx.Done():
		return unknownNode(ctx.Err())
	}
	if d.topology.shards.Load() != nil {
		return nil
	}
	d.topology.mu.Lock()
	defer d.topology.mu.Unlock()
	return d.topology.failed
}

// load loads the topology in the background, unless that is under way. It returns a channel that is closed when it is over.
func (d *conn) load() <-chan struct{} {
	t := &d.topology
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loading != nil {
		return t.loading
	}
	over := make(chan struct{})
	t.loading = over
	if !d.background.run(func(ctx context.Context) { d.loaded(d.ask(ctx)) }) { // after Close, only a caller can
		go func() { d.loaded(d.ask(context.Background())) }()
	}
	return over
}

// loaded ends a load.
func (d *conn) loaded(ranges []shard, f *fault.Error) {
	t := &d.topology
	if f == nil {
		t.shards.Store(&shards{ranges, time.Now()})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = f
	close(t.loading)
	t.loading = nil
}

// ask asks the nodes for the topology, one after the other until one answers.
func (d *conn) ask(ctx context.Context) (all []shard, last *fault.Error) {
	nodes := d.client.Nodes() // a map: the order differs
	for addr, client := range nodes {
		within, cancel := context.WithTimeout(ctx, d.timeout/time.Duration(len(nodes)+1))
		ranges, err := client.Do(within, client.B().Arbitrary("CLUSTER", "SLOTS").Blocking()).ToArray()
		cancel()
		if err != nil {
			last = d.classify(err)
			continue
		}
		all = make([]shard, 0, len(ranges))
		for i := range ranges {
			if s, ok := shardOf(&ranges[i], addr); ok {
				all = append(all, s)
			}
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	switch {
	case last == nil:
		return nil, unknownNode(valkey.ErrNoSlot)
	case !last.Replied():
		last.Fate = fault.NotSent
	}
	return nil, last
}

// shardOf reads a range of slots from the reply of a node to CLUSTER SLOTS.
func shardOf(m *valkey.ValkeyMessage, asked string) (s shard, ok bool) {
	parts, err := m.ToArray()
	if err != nil || len(parts) < 3 {
		return s, false
	}
	first, err1 := parts[0].AsInt64()
	last, err2 := parts[1].AsInt64()
	master, err3 := parts[2].ToArray()
	if err1 != nil || err2 != nil || err3 != nil || len(master) < 2 {
		return s, false
	}
	host, _ := master[0].ToString() // null, or nothing, for the host that was asked
	port, err := master[1].AsInt64()
	if err != nil {
		return s, false
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return shard{first, last, node(net.JoinHostPort(host, strconv.FormatInt(port, 10)))}, true
}

// refreshPause is how long Refresh does nothing after it did something.
const refreshPause = 200 * time.Millisecond

// Refresh asks for the topology, and has valkey-go do so too, in the background, unless it has just done so.
func (d *conn) Refresh() {
	if !d.cluster {
		return
	}
	now, last := time.Now().UnixNano(), d.topology.refreshed.Load()
	if now-last < int64(refreshPause) || !d.topology.refreshed.CompareAndSwap(last, now) {
		return
	}
	d.load()
	d.background.run(func(over context.Context) {
		d.client.Do(&failing{Bounded: driver.Bound(over, d.timeout)}, d.client.B().Arbitrary("PING").Build().ToPipe())
	})
}

// failing is a context with which a command of a cluster's client fails before it is sent, as if its connection were broken. valkey-go
// asks for the topology when a command fails although its context has not ended, and has no method for that.
type failing struct {
	driver.Bounded
	asked atomic.Bool
}

var _ context.Context = (*failing)(nil)

// Err returns an error once: valkey-go asks before it sends, and then why the command failed.
func (f *failing) Err() error {
	if f.asked.CompareAndSwap(false, true) {
		return context.Canceled
	}
	return nil
}
