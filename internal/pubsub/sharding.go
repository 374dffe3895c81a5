package pubsub

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// sharding is what the hub knows about a cluster's channels: whether they are sharded.
type sharding struct {
	mode     Mode
	answer   atomic.Int32 // unknown, or the last answer
	stale    atomic.Bool  // whether the nodes may have changed since that answer
	asking   atomic.Bool  // whether a question is under way
	outdated atomic.Int64 // when stale was last set after an error, as a clock.Instant
}

const (
	unknown int32 = iota
	isSharded
	isPlain
)

// outdatePause is the minimum time between two questions that errors cause.
const outdatePause = 200 * time.Millisecond

// Publish returns how a script has to announce a release of a lock, given the lock's name in Redis. That is [wire.PublishBoth] while the hub does
// not know which command reaches the waiters. Publish waits for nothing and does no I/O.
func (h *Hub) Publish(key string) wire.Publish {
	switch h.sharded(key) {
	case isSharded:
		return wire.PublishSharded
	case isPlain:
		return wire.PublishPlain
	default:
		return wire.PublishBoth
	}
}

// Counts reports whether the reply to PUBLISH or SPUBLISH in a script counts all receivers of a message, given the name of the lock in Redis. On a
// cluster whose channels are not sharded it does not: each node knows only its own subscribers. Counts waits for nothing and does no I/O.
func (h *Hub) Counts(key string) bool { return !h.info.Cluster || h.sharded(key) == isSharded }

// sharded returns whether channels are sharded: unknown, isSharded or isPlain. In mode Auto it starts a question to the node
// of a key, the first time and whenever the cluster has changed. Until an answer comes, the last answer stands. It does not
// wait for the answer, because the node may hang.
func (h *Hub) sharded(key string) int32 {
	s := &h.sharding
	switch {
	case !h.info.Cluster || s.mode == Off:
		return isPlain
	case s.mode == On:
		return isSharded
	}
	answer := s.answer.Load()
	if (answer == unknown || s.stale.Load()) && s.asking.CompareAndSwap(false, true) {
		if !h.tasks.Begin() { // the client is closed
			s.asking.Store(false)
			return answer
		}
		h.tasks.Run(task.Func(func() {
			defer h.tasks.End()
			defer s.asking.Store(false)
			h.askSharded(key)
		}))
	}
	return answer
}

// askSharded asks one node, and reroutes all channels if the answer is new.
func (h *Hub) askSharded(key string) {
	s := &h.sharding
	s.stale.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), routeWithin)
	defer cancel()
	node, err := h.driver.Node(ctx, key)
	if err == nil {
		_, err = h.driver.Raw(ctx, node, "pubsub", "shardnumsub", "0")
	}
	answer := isSharded
	switch {
	case err == nil:
	case err.Replied() && !err.Transient && !err.LoginRefused():
		answer = isPlain
	default:
		s.stale.Store(true)
		h.noteError(err) // nothing else would tell the driver that the node may have a successor
		return
	}
	if s.answer.Swap(answer) != answer {
		h.reroute()
	}
}

// outdate makes the next caller ask again, unless an error caused a question just before.
func (s *sharding) outdate(now clock.Instant) {
	last := s.outdated.Load()
	if now.Sub(clock.Instant(last)) >= outdatePause && s.outdated.CompareAndSwap(last, int64(now)) {
		s.stale.Store(true)
	}
}
