package scene

import (
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// stray is what Redis keeps for a process that does not have the lock.
type stray struct {
	promises.Stray

	told  bool
	shown string // the latest field, whoever has it
}

// strayFor is how long Redis may keep a lock that nobody has, once all is well: an unlock of which nothing is known is repeated, and a
// waiter that has left may be granted the lock for a first term, if the message does not reach it.
func (r *run) strayFor() time.Duration {
	switch {
	case r.faulty() && r.loses():
		return 20 * time.Second
	case len(r.Nemeses) > 0 && r.Unsafe && !slices.ContainsFunc(r.Nemeses, func(n string) bool { return slices.Contains(safeNemeses, n) }):
		return 2500*time.Millisecond + 4*r.slowest() // messages arrive, so a waiter of long ago gives back at once what it is granted for a first term
	case slices.Equal(r.Nemeses, []string{nemesisBusy}): // messages arrive
	case len(r.Nemeses) > 0:
		return firstTerm + 2*time.Second + 4*r.slowest()
	}
	return time.Second + 20*r.Faults.Latency + 4*r.slowest()
}

// loses reports whether single commands are lost, late or repeated, so that their callers do not learn what has become of them.
func (s *Scene) loses() bool {
	f := s.Faults
	return f.LostSend+f.LostReply+f.Silent+f.Late+f.Repeated > 0
}

// slowest is how much longer than usual a command may be on its way.
func (s *Scene) slowest() time.Duration {
	if s.Faults.Slow > 0 {
		return s.Faults.SlowMax
	}
	return 0
}

// given returns the members of a red lock of which a server says that the process has them. A message may have granted them since they refused,
// and it may not have begun to release them. The run must not be locked.
func (p *process) given(t *target) (all []subject) {
	if t.kind != kindRed {
		return nil
	}
	for _, server := range p.servers {
		server.With(func(s *simredis.Server) {
			fields, _ := s.Do("HKEYS", t.name).([]any)
			for i, c := range p.clients {
				has := func(f any) bool { holder, _ := f.(string); return strings.HasPrefix(holder, c.ID()) }
				if slices.ContainsFunc(fields, has) {
					all = append(all, subject{i, t.name})
				}
			}
		})
	}
	return all
}

// fields returns the holders of each lock that has one at most.
func (r *run) fields() map[*target]string {
	all := make(map[*target]string)
	for _, t := range r.locks {
		if t.counts() || t.kind == kindRed || t.kind == kindLatch {
			continue
		}
		r.home(t.name).With(func(s *simredis.Server) {
			fields, _ := s.Do("HKEYS", t.name).([]any)
			for _, f := range fields {
				if f, _ := f.(string); f != "mode" && (!t.shares() || strings.HasSuffix(f, ":write")) {
					all[t] = f
				}
			}
		})
	}
	return all
}

// owner returns the process of a holder in Redis, or nil.
func (r *run) owner(field string) *process {
	for _, p := range r.processes {
		if strings.HasPrefix(field, p.clients[0].ID()) {
			return p
		}
	}
	return nil
}

// strays checks that a lock is not kept for a process that does not have it, whether it wants it or not. The run must be locked.
func (r *run) strays(t *target, field string, down bool) {
	now, s := time.Now(), &t.stray
	p := r.owner(field)
	if field != s.shown {
		s.shown = field
		r.haunts(t, p)
		if r.loses() && now.Sub(r.forgot) < r.Faults.LateMax {
			t.relic = field // a command that is executed late may meet data without the tombstone of its holder
		}
	}
	if p == nil || down || r.forgetting || p.ended || !p.healthy() || p.claims(t) || t.excuses(field) || now.Before(t.kept) || field == t.relic ||
		now.Before(r.disturbed) && !r.Unsafe {
		*s = stray{shown: s.shown}
		return
	}
	if p.busy > 0 { // perhaps with this; but what it no longer had before, it does not get again
		if field != s.Holder {
			*s = stray{shown: s.shown}
		}
		return
	}
	next := s.See(r.moment(now), field, false)
	if s.told = s.told && next.From == s.From; !s.told {
		s.told = !r.checks().Stray(t.name, next, p, r.strayFor())
	}
	s.Stray = next
}

// haunts checks that a lock is not granted to a process that was killed before: nothing reaches it. What it had sent may still arrive, and
// the server may still count what it had subscribed to. The run must be locked.
func (r *run) haunts(t *target, p *process) {
	if p == nil || !p.dead() || r.Unsafe || r.Topology != "" || r.faulty() || slices.ContainsFunc(r.Nemeses, delays) {
		return
	}
	if age := time.Since(p.died); age > time.Second+20*r.Faults.Latency {
		r.brokenf("dead: Redis gave %s to %v, which was killed %v before", t.name, p, age)
	}
}

// delays reports whether after a nemesis a server may learn late of what a process did, or that it is dead.
func delays(nemesis string) bool {
	return slices.Contains([]string{nemesisDeaf, nemesisCut, nemesisClog, nemesisHang, nemesisRestart, nemesisLoading, nemesisFull, nemesisBusy}, nemesis)
}

// claims reports whether somebody in the process has a lock, or acquires the members of a group, of which it may have the lock already. The
// run must be locked.
func (p *process) claims(t *target) bool {
	for _, h := range t.inside {
		if h.p == p {
			return true
		}
	}
	for a := range p.wants() {
		if a.of.kind == kindMulti && slices.Contains(a.of.members, t) {
			return true
		}
	}
	return false
}

// relics notes who has the locks in the data with which a server starts again: some of that is of long ago.
func (r *run) relics() {
	fields := r.fields()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.locks {
		t.relic = fields[t]
	}
}

// graves looks for the leases of readers whose process was killed long ago.
func (r *run) graves() {
	var dead []*process
	r.mu.Lock()
	for _, p := range r.processes {
		if age := time.Since(p.died); p.dead() && age > leasesEnd && age < leasesEnd+time.Minute {
			dead = append(dead, p)
		}
	}
	r.mu.Unlock()
	if len(dead) == 0 || r.Unsafe {
		return
	}
	for _, server := range r.masters() {
		server.With(func(s *simredis.Server) {
			for _, key := range s.Keys() {
				for _, p := range dead {
					if strings.Contains(key, p.clients[0].ID()) && strings.Contains(key, ":rwlock_timeout:") {
						r.mu.Lock()
						r.brokenf("left: %v was killed %v ago, and Redis has its %s", p, time.Since(p.died), key)
						r.mu.Unlock()
					}
				}
			}
		})
	}
}

// excuses reports whether a holder in Redis may have a lock without an owner: after an adoption that failed, only that of the ticket. The run must
// be locked.
func (t *target) excuses(field string) bool {
	return time.Now().Before(t.untold) && (field == t.ticketed || !t.untold.Equal(t.unadopted))
}
