package driver

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// replicas finds out whether a client reaches nothing but replicas, as one of a Sentinel with ReplicaOnly, or of the address of
// replicas, does: client libraries do not say so. While a master fails over, servers refuse to write too, but not for
// long, and then the client has written before, unless the failover began before the process did. To ask for the ROLE does not help:
// the old master behind a name that DNS still has is a healthy replica, too. So the refusal is taken for final once a client that has
// never written has met nothing else for replicasAfter. Until then, and after a pause in which nothing was asked, it is a temporary
// one. It is safe for concurrent use.
type replicas struct {
	cluster bool // whose scripts are sent to masters, whatever its options are

	wrote atomic.Bool // whether a server has ever run a script that writes

	mu    sync.Mutex // a leaf
	since time.Time  // when the present refusals began
	last  time.Time  // when there was one
}

const (
	replicasAfter = time.Minute     // a failover that DNS or a proxy has to follow takes as long
	replicasPause = 5 * time.Second // more than the pause of a call that waits
)

// note takes in the reply to a call, and corrects the error of one that a replica has refused.
func (s *replicas) note(c *wire.Call, r *wire.Reply) {
	switch {
	case s.cluster || s.wrote.Load():
		return
	case r.Err == nil:
		if r.N >= 0 && !c.Script.Reads {
			s.wrote.Store(true)
		}
		return
	case r.Err.Code != "READONLY":
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last) > replicasPause {
		s.since = now
	}
	s.last = now
	if met := now.Sub(s.since); met >= replicasAfter {
		r.Err = &fault.Error{Fate: r.Err.Fate, Code: r.Err.Code, Stale: true, Err: fmt.Errorf(
			"%w: for %v, the redis client has reached nothing but replicas, which cannot lock (ReplicaOnly, or the address of a replica): %w",
			fault.ErrInvalidOption, met.Round(time.Second), r.Err.Err)}
	}
}
