package transport

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
)

// idle is how long no reply has come when connections count as closed: the client library, a proxy or a firewall may have done that.
const idle = time.Minute

// health is what is known of a node by the outcomes of calls.
type health struct {
	replied atomic.Int64 // when it replied last; zero means never
	trouble atomic.Bool  // the latest that was heard of it is that a call had no reply
}

// heard notes the outcome of a call.
func (h *health) heard(err *fault.Error) {
	trouble := err != nil && !err.Replied()
	if !trouble {
		h.replied.Store(int64(clock.Now()))
	}
	if h.trouble.Load() != trouble {
		h.trouble.Store(trouble)
	}
}

// Connects reports whether a call of a key that is sent now is likely to have to connect first: nothing was heard of its node yet, or
// not lately. To connect takes several times as long as a call: TCP, TLS, HELLO, a name, and a server that does not know the
// script. After a call without a reply, Connects reports false until there is a reply again. So in an outage only the first calls
// wait for a connection.
func (c *Conn) Connects(key string) bool {
	h := c.healthOf(nil, key)
	if h.trouble.Load() {
		return false
	}
	last := clock.Instant(h.replied.Load())
	return last == 0 || clock.Now().Sub(last) > idle
}

// healthOf returns what is known of the node that has a key, whose lane may be known. While no node of a cluster was found, all have
// one.
func (c *Conn) healthOf(way *lane, key string) *health {
	if way == nil && c.cluster && c.routed.Load() {
		way, _, _ = c.laneOf(context.Background(), key)
	}
	if way == nil {
		way = c.lane
	}
	return &way.health
}
