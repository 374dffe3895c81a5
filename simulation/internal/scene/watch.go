package scene

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// The watch looks this often, or more rarely in a long scene. It is an odd time, so that it does not look at round moments only.
const glance = 50*time.Millisecond + 7*time.Nanosecond

// glance returns how often the watch looks.
func (s *Scene) glance() time.Duration {
	return max(glance, s.Duration/(10*time.Minute/glance))
}

// watch looks for locks that are free although somebody waits, and at the gauges.
func (r *run) watch() {
	for n := 0; r.stop.Err() == nil; n++ {
		time.Sleep(r.glance())
		if n%100 == 0 {
			r.graves()
		}
		fields := r.fields()
		free, readable := make(map[*target]bool), make(map[*target]bool)
		for _, t := range r.wanted {
			free[t], readable[t] = r.free(t), r.readable(t)
		}
		var members, served [][]string
		for _, l := range r.lines {
			if n%lineGlances == 0 && !r.Unsafe {
				members = append(members, r.members(l))
				served = append(served, r.served(l, members[len(members)-1]))
			}
		}
		down := r.down()
		r.mu.Lock()
		for i, all := range members {
			r.queued(r.lines[i], all, down)
			r.leavesLine(r.lines[i], served[i])
		}
		for _, t := range r.wanted {
			r.wakesUp(t, free[t], readable[t], down)
		}
		for _, l := range r.latches {
			r.opens(l)
		}
		for _, l := range r.leaders {
			r.leads(l)
		}
		for _, t := range r.locks {
			if fields[t] != "" {
				r.strays(t, fields[t], down)
			} else {
				t.stray.Stray = promises.Stray{}
			}
			r.notices(t)
			for _, h := range t.inside {
				r.told(h)
				r.limits(h)
				r.keepsUp(h)
			}
		}
		for _, p := range r.processes {
			if !p.ended && !p.dead() {
				r.gauge(p)
			}
			r.lingers(p)
			r.reads(p)
		}
		r.mu.Unlock()
	}
}

// wakesUp checks that a target is not free for long while somebody waits for it, or readable while a reader does. The run must be locked.
func (r *run) wakesUp(t *target, free, readable, down bool) {
	now := time.Now()
	quiet := !down && now.After(r.disturbed) && now.After(t.untold) && r.WakeUp > 0
	for _, m := range t.members {
		quiet = quiet && now.After(m.untold)
	}
	readable = readable && !slices.ContainsFunc(t.waiting, func(a *attempt) bool { return !a.reads }) // behind which it may wait in its process
	reserved := free && r.reserved(t)
	var waits *attempt
	for _, a := range t.waiting {
		if !a.p.healthy() {
			a.troubled = true
			continue
		}
		if a.limited() || r.hurries(&a.plan, 0) || !quiet {
			continue
		}
		if now.Sub(a.asked) > r.WakeUp {
			waits = a
		}
		if a.looks++; free && !reserved || readable && a.reads {
			a.free++
		}
		if 2*a.free > a.looks && !a.troubled && !a.told {
			// Between two looks at it, a target was free for one glance.
			a.told = !r.checks().WakeUp(t.name, r.waits(a), time.Duration(a.free-1)*r.glance(), r.WakeUp)
		}
	}
	switch {
	case !free || waits == nil || !quiet:
		t.freeSince = time.Time{}
	case t.freeSince.IsZero():
		t.freeSince = now
	case !r.checks().WakeUp(t.name, r.waits(waits), now.Sub(t.freeSince), r.WakeUp):
		t.freeSince = now.Add(time.Minute)
	}
}

// unread is how long a message may be there before a process reads it that takes in the ones before it.
const unread = 100 * time.Millisecond

// reads checks that no message has to wait for its reader, also not behind refusals, where no subscription breaks and no process is stopped.
// The run must be locked.
func (r *run) reads(p *process) {
	late := p.links[0].Unread()
	others := slices.ContainsFunc(r.Nemeses, func(n string) bool { return n != nemesisBusy })
	if late > unread && !others && !p.ended {
		r.brokenf("deaf: %v has read a message that had been there for %v", p, late)
	}
}

// waits returns an attempt as the checkers know it.
func (r *run) waits(a *attempt) promises.Owner {
	return promises.Owner{Who: a.p, Asked: r.moment(a.asked)}
}

// gauge compares the gauges of a process with what its workers have and want, for a while. The run must be locked.
func (r *run) gauge(p *process) {
	if len(p.clients) > 1 || p.isPaused() {
		return // a client has some members of each lock
	}
	least, most, latches := 0, 0, 0
	for _, t := range r.locks {
		for _, h := range t.inside {
			if h.p != p {
				continue
			}
			if most++; !h.ends && !h.blind && h.err() == nil {
				least++
			}
		}
	}
	under := p.busy
	for a := range p.wants() {
		under += len(a.of.atoms())
	}
	for _, l := range r.latches {
		latches += l.waiting[p]
	}
	s := p.clients[0].Stats()
	g := promises.Gauges{Who: p, Held: s.Held, Waiting: s.Waiting, Least: least, Most: most + under, Calls: under + latches}
	switch now := time.Now(); {
	case promises.Judge(promises.Nobody).Gauges(g):
		p.odd = time.Time{}
	case p.odd.IsZero(): // what a call leaves behind that its context has ended is released after it
		p.odd = now
	case now.Sub(p.odd) > r.strayFor():
		r.checks().Gauges(g)
		p.odd = now.Add(time.Hour)
	}
}
