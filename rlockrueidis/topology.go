package rlockrueidis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// node is one server of a cluster, by its address.
type node string

// Addr returns the address.
func (n node) Addr() string { return string(n) }

// topology is what a cluster said about its slots. rueidis does not tell which node has a key.
type topology struct {
	mu     sync.Mutex
	shards []shard // nil means that it has to be asked for
	asked  time.Time

	refreshed atomic.Int64 // when Refresh last did something, Unix ns
}

// shard is a range of slots and its master.
type shard struct {
	first, last int64
	master      node
}

// topologyAge is the age at which a topology is asked for again although nothing points to a new one.
const topologyAge = time.Minute

// at returns the client of a node, or of the whole deployment for nil.
func (d *conn) at(n driver.Node) (rueidis.Client, *fault.Error) {
	if n == nil {
		return d.client, nil
	}
	if client := d.client.Nodes()[n.Addr()]; client != nil {
		return client, nil
	}
	return nil, unknownNode(fmt.Errorf("%w: %s", errUnknownNode, n.Addr()))
}

// errUnknownNode is the error of a command for a node that rueidis does not know yet.
var errUnknownNode = errors.New("rueidis does not know the node yet")

// unknownNode returns the error of a command for which there is no node.
func unknownNode(err error) *fault.Error {
	return &fault.Error{Fate: fault.NotSent, Transient: true, Stale: true, Err: err}
}

// Node returns the master that has a key, or nil outside clusters. It may have to ask a server for the topology first.
func (d *conn) Node(ctx context.Context, key string) (driver.Node, *fault.Error) {
	if !d.cluster {
		return nil, nil
	}
	slot := d.client.B().Arbitrary("PING").Keys(key).Build()
	t := &d.topology
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shards == nil || time.Since(t.asked) > topologyAge {
		if err := d.load(ctx); err != nil {
			return nil, err
		}
	}
	for _, s := range t.shards {
		if at := int64(slot.Slot()); s.first <= at && at <= s.last {
			return s.master, nil
		}
	}
	t.shards = nil
	return nil, unknownNode(rueidis.ErrNoSlot)
}

// load asks the nodes for the topology, one after the other until one answers. topology.mu must be held.
func (d *conn) load(ctx context.Context) *fault.Error {
	var last *fault.Error
	nodes := d.client.Nodes() // a map: the order differs
	for addr, client := range nodes {
		at, cancel := context.WithTimeout(ctx, d.timeout/time.Duration(len(nodes)+1))
		ranges, err := client.Do(at, client.B().Arbitrary("CLUSTER", "SLOTS").Blocking()).ToArray()
		cancel()
		if err != nil {
			last = d.classify(err)
			continue
		}
		shards := make([]shard, 0, len(ranges))
		for i := range ranges {
			if s, ok := shardOf(&ranges[i], addr); ok {
				shards = append(shards, s)
			}
		}
		if len(shards) > 0 {
			d.topology.shards, d.topology.asked = shards, time.Now()
			return nil
		}
	}
	switch {
	case last == nil:
		return unknownNode(rueidis.ErrNoSlot)
	case !last.Replied():
		last.Fate = fault.NotSent
	}
	return last
}

// shardOf reads a range of slots from the reply of a node to CLUSTER SLOTS.
func shardOf(m *rueidis.RedisMessage, asked string) (s shard, ok bool) {
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

// Refresh forgets the topology, and has rueidis ask for it in the background, unless it has just done so.
func (d *conn) Refresh() {
	if !d.cluster {
		return
	}
	now, last := time.Now().UnixNano(), d.topology.refreshed.Load()
	if now-last < int64(refreshPause) || !d.topology.refreshed.CompareAndSwap(last, now) {
		return
	}
	d.background.run(func(over context.Context) {
		d.topology.mu.Lock()
		d.topology.shards = nil
		d.topology.mu.Unlock()
		d.askAgain(over)
	})
}

// askAgain has rueidis ask for the topology soon. It has no method for that, but it asks when a command fails before Redis has replied.
// It refuses to send a subscription and a blocking command together, so these fail without being sent. The slot differs each time,
// because a node that is gone may take long to fail.
func (d *conn) askAgain(ctx context.Context) {
	key := strconv.Itoa(rand.Int())
	subscription := d.client.B().Ssubscribe().Channel(key).Build().ToPipe()
	d.client.DoMulti(ctx, subscription, d.client.B().Arbitrary("PING").Keys(key).Blocking())
}
