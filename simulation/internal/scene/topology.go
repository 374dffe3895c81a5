package scene

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// The topologies of the servers of a scene. The zero value is a server that is alone, or several of these.
const (
	topologyReplicas = "replicas" // a master with two replicas, whose address is behind a name
	topologySentinel = "sentinel" // the same with Sentinels, which tell the processes who the master is
	topologyCluster  = "cluster"  // three masters, each with a replica
)

// drawTopology draws how the servers belong together.
func (s *Scene) drawTopology(r *rand.Rand) {
	switch r.IntN(12) {
	case 0:
		s.Topology = topologyReplicas
	case 1:
		s.Topology = topologySentinel
	case 2, 3:
		s.Topology = topologyCluster
		if s.Broadcast = r.IntN(4) == 0 && r.IntN(2) == 1; s.Broadcast {
			s.Options = append(s.Options, rlock.WithClassicPubSub())
		}
	default:
		return
	}
	if r.IntN(3) == 0 {
		s.Acks = time.Second
		s.Options = append(s.Options, rlock.WithReplicaAcks(1, s.Acks)) // with all of them, an INFO that fails is an outage of its own
	}
}

// favor puts one of the nemeses first that only servers that belong together can have.
func (s *Scene) favor(all []string, r *rand.Rand) {
	if s.Topology == "" {
		return
	}
	theirs := groupNemeses
	if s.Unsafe {
		theirs = []string{nemesisFailover}
	}
	what := theirs[r.IntN(len(theirs))]
	if i := slices.Index(all, what); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
}

// build makes the servers of a scene.
func (r *run) build(seed uint64) {
	switch r.Topology {
	case topologyReplicas, topologySentinel:
		r.group = simnet.NewGroup(2, seed, r.trace, r.Faults)
	case topologyCluster:
		r.group = simnet.NewCluster(3, seed, r.trace, r.Faults)
	default:
		for i := range max(r.Servers, 1) {
			r.servers = append(r.servers, simnet.NewServer(fmt.Sprintf("redis%d", i), seed+uint64(i), r.trace, r.Faults))
		}
		return
	}
	r.servers = r.group.Nodes
}

// masters returns the servers that have keys.
func (r *run) masters() []*simnet.Server {
	if r.group == nil {
		return r.servers
	}
	return r.group.Masters()
}

// home returns the server that has a key which was not shared between servers.
func (r *run) home(key string) *simnet.Server {
	if r.group == nil {
		return r.servers[0]
	}
	return r.group.Home(key)
}

// down reports whether a server that has keys was stopped.
func (r *run) down() bool { return slices.ContainsFunc(r.masters(), (*simnet.Server).IsDown) }

// drivers returns how the clients of a process are made, given its links: one for each server, or one for all servers of a group.
func (r *run) drivers(links []*simnet.Link) (all []driver.Open) {
	if r.group != nil {
		return []driver.Open{r.group.Open(links, r.Topology == topologySentinel)}
	}
	for _, l := range links {
		all = append(all, l.Open)
	}
	return all
}

// regroup strikes servers that belong together, and that forget nothing.
func (s strike) regroup(what string) {
	if s.group == nil {
		return
	}
	switch what {
	case nemesisLag:
		d := s.upTo(5 * time.Second)
		s.disturb(d + 4*time.Second)
		for _, replica := range s.on.Replicas() {
			replica.Part(d)
		}
		time.Sleep(d)
	case nemesisSwitch:
		known := s.upTo(outage)
		s.disturb(known + 12*time.Second)
		if slices.Contains(s.Nemeses, nemesisClock) { // the next master's clock says other moments, so that leases may end earlier
			s.isForgetting()
			defer s.hasForgotten()
		}
		s.group.Switch(s.on, known)
		time.Sleep(known + 4*time.Second)
	case nemesisSlot:
		if s.Topology != topologyCluster {
			return
		}
		t := s.locks[s.random.IntN(len(s.locks))]
		others := slices.DeleteFunc(s.masters(), func(m *simnet.Server) bool { return m == s.home(t.name) })
		s.disturb(outage + 12*time.Second)
		least := s.upTo(200 * time.Millisecond)
		s.group.MoveSlot(t.name, others[s.random.IntN(len(others))], func() { time.Sleep(s.upTo(least)) })
		s.disturb(12 * time.Second)
		time.Sleep(4 * time.Second)
	}
}

// failOver has a master fail, whose replicas lack its last writes.
func (s strike) failOver() {
	behind, after, known := s.upTo(2*time.Second), s.upTo(5*time.Second), s.upTo(2*time.Second)
	for _, replica := range s.on.Replicas() {
		replica.Part(time.Minute)
	}
	time.Sleep(behind)
	if s.Topology != topologyCluster && s.random.IntN(2) == 0 {
		s.group.Split(known)
		time.Sleep(after + known)
		s.on.Stop()
	} else {
		s.group.Fail(s.on, after, known)
	}
	for _, server := range s.group.Nodes {
		server.Part(0)
	}
	s.hasForgotten()
	time.Sleep(s.upTo(10 * time.Second))
	s.on.Start(nil)
}

// unrouted reports whether an attempt tells of an outage because no node of a cluster has said for long where its lock is: it has asked nobody for
// the lock.
func (w *worker) unrouted(a *attempt, c promises.Call, floor time.Duration) bool {
	silent := c.Class == promises.Outage && time.Since(a.asked) > floor-instant
	return w.Topology == topologyCluster && silent && len(w.inquest.since(subject{0, a.of.name}, a.asked)) == 0
}
