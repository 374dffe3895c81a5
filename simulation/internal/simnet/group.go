package simnet

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// host is that of all servers: their ports tell them apart.
const host = "127.0.0.1"

// Group is servers that have one set of keys: a master with its replicas, or a cluster. It is safe for concurrent use.
type Group struct {
	Nodes []*Server

	trace   *Trace
	cluster bool
	mu      sync.Mutex // that of all nodes
	master  *Server    // if it is no cluster
	known   []*routes  // by the processes
}

// kinship is what a server is to the others of its group.
type kinship struct {
	*Group

	drawn    uint64        // how many delays were drawn
	applying bool          // it is about to apply what its master has sent
	apart    time.Time     // until when it gets nothing from its master
	heard    chan struct{} // is closed when a replica acknowledges something
}

// isCluster reports whether the server is a node of a cluster. A server that is alone has no kinship.
func (k *kinship) isCluster() bool { return k != nil && k.cluster }

// NewGroup returns a master with replicas.
func NewGroup(replicas int, seed uint64, trace *Trace, faults Faults) *Group {
	g := &Group{trace: trace}
	g.add(1+replicas, seed, faults)
	g.master = g.Nodes[0]
	for _, s := range g.Nodes[1:] {
		s.follows(g.master)
	}
	return g
}

// NewCluster returns a cluster of masters, each with a replica.
func NewCluster(masters int, seed uint64, trace *Trace, faults Faults) *Group {
	g := &Group{trace: trace, cluster: true}
	g.add(2*masters, seed, faults)
	for _, s := range g.Nodes {
		s.redis.Lags = true
		s.redis.Resolve = g.resolve
		s.redis.EnableCluster(host, s.port)
		s.redis.Do("CLUSTER", "MEET", host, strconv.FormatInt(g.Nodes[0].port, 10))
	}
	const all = 16384
	for i, s := range g.Nodes[:masters] {
		s.redis.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(all*i/masters), strconv.Itoa(all*(i+1)/masters-1))
	}
	for i, s := range g.Nodes[masters:] {
		s.redis.Do("CLUSTER", "REPLICATE", g.Nodes[i].id())
	}
	return g
}

func (g *Group) add(n int, seed uint64, faults Faults) {
	for i := range n {
		s := NewServer(fmt.Sprintf("redis%d", i), seed+uint64(i), g.trace, faults)
		s.mu, s.port, s.kin = &g.mu, int64(7000+i), &kinship{Group: g, heard: make(chan struct{})}
		g.Nodes = append(g.Nodes, s)
	}
}

// id is that of a node of a cluster.
func (s *Server) id() string { return text(s.redis.Do("CLUSTER", "MYID")) }

// resolve returns the server at an address.
func (g *Group) resolve(_ string, port int64) *simredis.Server {
	return g.Nodes[port-g.Nodes[0].port].redis
}

// of returns the server that has a Redis.
func (g *Group) of(r *simredis.Server) *Server {
	return g.Nodes[slices.IndexFunc(g.Nodes, func(s *Server) bool { return s.redis == r })]
}

// Masters returns the servers that take writes.
func (g *Group) Masters() (all []*Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.Nodes {
		if s == g.master || g.cluster && s.redis.Following() == nil && !s.redis.Deposed() {
			all = append(all, s)
		}
	}
	return all
}

// Home returns the master that has a key.
func (g *Group) Home(key string) *Server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.home(key)
}

func (g *Group) home(key string) *Server {
	if g.cluster {
		return g.of(g.Nodes[0].redis.Owner(key))
	}
	return g.master
}

// follows makes a server a replica of another one. The servers must be locked.
func (s *Server) follows(of *Server) { s.redis.Follow(of.redis, host, s.port, host, of.port) }

// rejoins has a server that was restarted find its place in its group. It must be locked.
func (s *Server) rejoins() {
	switch k := s.kin; {
	case k == nil:
	case k.cluster:
		s.redis.Rejoin()
	case k.master != s:
		s.follows(k.master)
	default:
		for _, other := range k.Nodes {
			if other != s && !other.down {
				other.follows(s)
			}
		}
	}
}

// Part has a server get nothing from its master for a while. What the master writes meanwhile arrives after it, unless the master fails.
func (s *Server) Part(d time.Duration) {
	s.trace.Note("nothing passes between %s and its master for %v", s.name, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kin.apart = time.Now().Add(d)
}

// Replicas returns the replicas of a master.
func (s *Server) Replicas() (all []*Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.redis.Replicas() {
		all = append(all, s.kin.of(r.Server))
	}
	return all
}

// replicates has the replicas apply what the server has written, after a while. The server must be locked.
func (s *Server) replicates() {
	for _, r := range s.redis.Replicas() {
		if to := s.kin.of(r.Server); r.Behind() > 0 && !to.kin.applying && !to.down {
			to.kin.applying = true
			later(to.lag(), to.apply)
		}
	}
}

// lag draws after what time the server gets what its master has written. It must be locked.
func (s *Server) lag() time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.name))
	s.kin.drawn++
	d := s.faults.Load().way(rand.New(rand.NewPCG(s.seed^h.Sum64(), s.kin.drawn)))
	return max(d, time.Until(s.kin.apart)+d)
}

// apply has the server apply what its master has sent, and acknowledge that.
func (s *Server) apply() {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.redis.Following()
	if s.kin.applying = false; r == nil || s.down {
		return
	}
	if time.Now().Before(s.kin.apart) {
		s.kin.applying = true
		later(s.lag(), s.apply)
		return
	}
	if n := r.Behind(); n > 0 {
		r.Apply(n)
		r.Acknowledge()
		s.trace.Note("%s applies %d writes of its master", s.name, n)
		for _, k := range s.kin.Nodes {
			close(k.kin.heard)
			k.kin.heard = make(chan struct{})
		}
	}
}

// acknowledged waits until so many replicas have all writes up to one, for at most a while, and returns how many have them then.
func (s *Server) acknowledged(offset int64, replicas int, d time.Duration) int64 {
	if s.kin == nil {
		return 0
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		s.mu.Lock()
		n, heard := s.redis.AcknowledgedAt(offset), s.kin.heard
		s.mu.Unlock()
		if n >= int64(replicas) {
			return n
		}
		select {
		case <-heard:
		case <-timer.C:
			return n
		}
	}
}

// slotOf is the slot of a key, as commands have it.
func slotOf(key string) string { return strconv.Itoa(int(wire.Slot(key))) }
