package transport

import (
	"cmp"
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

// onReply notes the outcome of a call.
func (h *health) onReply(err *fault.Error) {
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
// wait for a connection. It also reports false where the driver does not see connections being made.
func (c *Conn) Connects(key string) bool {
	h := c.healthOf(nil, key)
	if c.dials == nil || h.trouble.Load() {
		return false
	}
	last := clock.Instant(h.replied.Load())
	return last == 0 || clock.Now().Sub(last) > idle
}

// usual is the part of the command timeout that a single attempt has once it is connected, as [config.Config.Floor] has it. A handshake
// has the same time, and so have the script and its text.
func (c *Conn) usual() time.Duration { return c.CommandTimeout / 5 }

// patience returns for how long the caller of a question waits before it looks again at what the call does.
func (c *Conn) patience(q *Question) time.Duration {
	within := cmp.Or(q.Within, c.CommandTimeout)
	if q.Connects {
		within = min(within, c.usual()/5)
	}
	return within
}

// connecting is what the caller of a question knows about the connection that its call may have to make first.
type connecting struct {
	began clock.Instant
	made  clock.Instant // the first one since then, or just before; zero means that none is known
}

// more returns for how long the caller waits on before it looks again: for the usual time, while a connection is being made, and then
// for the handshake and the usual time. Connections that are made later, for other calls, change nothing, or a call would not end in an
// outage. Zero or less means that it leaves.
func (n *connecting) more(c *Conn, q *Question, now clock.Instant) time.Duration {
	usual := c.usual()
	if made := c.dials.Made(); n.made == 0 && made.Add(2*usual) > n.began {
		n.made = made
	}
	rest, pause := n.began.Add(usual).Sub(now), usual/5
	switch {
	case n.made != 0:
		rest = max(rest, n.made.Add(2*usual).Sub(now))
		pause = rest
	case c.dials.UnderWay():
		rest = max(rest, pause)
	}
	return min(rest, pause, cmp.Or(q.Within, c.CommandTimeout)-now.Sub(n.began))
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
