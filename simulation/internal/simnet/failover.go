package simnet

import (
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// Fail stops a master, and has a replica take over after a while. What the replica has not applied is lost. The processes learn of the new
// master within another while. [Server.Start] makes the old one a replica.
func (g *Group) Fail(master *Server, after, known time.Duration) {
	master.Stop()
	time.Sleep(after)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cluster {
		master.redis.SetDown(true)
		g.trace.Note("a replica of %s takes over", master.name)
		return
	}
	g.promote(g.best(), known, false)
}

// Split has a replica take over while the master is up, and knows nothing of that: until a process learns of the new one, what it writes is
// lost. The old one has to be stopped and started.
func (g *Group) Split(known time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.promote(g.best(), known, true)
}

// best returns the replica that is the least behind.
func (g *Group) best() (best *Server) {
	for _, s := range g.Nodes {
		if r := s.redis.Following(); r != nil && !s.down && (best == nil || r.Behind() < best.redis.Following().Behind()) {
			best = s
		}
	}
	return best
}

// promote makes a replica the master, which the others follow: not the old one if it is apart. The servers must be locked.
func (g *Group) promote(to *Server, known time.Duration, apart bool) {
	g.trace.Note("%s takes over from %s, %d writes behind", to.name, g.master.name, to.redis.Following().Behind())
	to.redis.Following().Promote()
	old := g.master
	g.master = to
	for _, s := range g.Nodes {
		if s != to && !s.down && (!apart || s != old) {
			s.follows(to)
		}
	}
	for i, r := range g.known {
		later(known*time.Duration(i+1)/time.Duration(len(g.known)), func() { r.learn(to) })
	}
}

// Switch hands everything that a master has over to a replica, which loses nothing.
func (g *Group) Switch(master *Server, known time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	replicas := master.redis.Replicas()
	if len(replicas) == 0 || master.down {
		return
	}
	r := replicas[0]
	r.Apply(r.Behind())
	if g.cluster {
		g.trace.Note("%s hands over to %s", master.name, g.of(r.Server).name)
		r.Do("CLUSTER", "FAILOVER")
		return
	}
	g.promote(g.of(r.Server), known, false)
}

// MoveSlot moves the slot of a key to another master of the cluster, key by key, with pauses.
func (g *Group) MoveSlot(key string, to *Server, pause func()) {
	from, slot := g.Home(key), slotOf(key)
	if from == to {
		return
	}
	g.trace.Note("the slot %s moves from %s to %s", slot, from.name, to.name)
	to.With(func(r *simredis.Server) { r.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id()) })
	from.With(func(r *simredis.Server) { r.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id()) })
	pause()
	for left := true; left; {
		from.With(func(r *simredis.Server) {
			keys, _ := r.Do("CLUSTER", "GETKEYSINSLOT", slot, "1").([]any)
			if left = len(keys) > 0; left {
				reply := r.Do("MIGRATE", host, strconv.FormatInt(to.port, 10), text(keys[0]), "0", "1000")
				g.trace.Note("%s moves %s to %s: %v", from.name, keys[0], to.name, reply)
				return
			}
			r.Do("CLUSTER", "SETSLOT", slot, "NODE", to.id())
			to.redis.Do("CLUSTER", "SETSLOT", slot, "NODE", to.id())
		})
		to.With(func(*simredis.Server) {}) // which sends what it got to its replicas
		if left {
			pause()
		}
	}
	g.trace.Note("the slot %s is at %s", slot, to.name)
}
