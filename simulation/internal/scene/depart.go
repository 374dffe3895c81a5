package scene

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/observe"
)

// shutdown ends the clients of a process in good order. They leave nothing, if everybody unlocks in time.
func (s strike) shutdown(limit time.Duration) {
	s.mu.Lock()
	s.p.stopping = time.Now()
	parent := context.Background()
	if len(s.p.past) > 0 {
		parent = context.WithoutCancel(s.p.past[0])
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	for _, c := range s.p.clients {
		err := c.Shutdown(ctx)
		s.mu.Lock()
		s.departed(s.p, err, ctx.Err(), c.Stats())
		s.mu.Unlock()
	}
}

// departed judges the shutdown of a client, given its error and that of its context. The run must be locked.
func (r *run) departed(p *process, err, limit error, stats observe.Stats) {
	p.stopping = time.Time{}
	p.shut = err == nil && len(p.clients) == 1
	switch {
	case errors.Is(err, rlock.ErrInvalidOption):
		r.brokenf("shutdown: that of %v refused the context of a hold that is over: %v", p, err)
	case err != nil && limit == nil:
		r.brokenf("shutdown: that of %v did not wait until its context ended: %v", p, err)
	case err == nil && stats.Held > 0:
		r.brokenf("shutdown: that of %v succeeded, and it has %+v", p, stats)
	}
}

// told checks that a shutdown of a process has ended the contexts of its holds. The run must be locked.
func (r *run) told(h *holder) {
	if !r.stopsFor(h.p, 2*glance) || h.p.isPaused() || h.ctx == nil || h.told {
		return
	}
	if h.ctx.Err() == nil && h.err() == nil {
		h.told = true
		r.brokenf("shutdown: %v shuts down, and did not tell the owner of %s", h.p, h.of.name)
	}
}

// stopsFor reports whether the one client of a process has shut down for so long, and still does. Several are shut down one after the other,
// and the others may have a majority of the members. The run must be locked.
func (r *run) stopsFor(p *process, d time.Duration) bool {
	return len(p.clients) == 1 && !p.stopping.IsZero() && time.Since(p.stopping) >= d
}

// asksLate asks for the context of a hold at the end of its use. If the client shuts down by then, the context has ended.
func (w *worker) asksLate(hold *rlock.Hold) {
	ctx := hold.Context()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopsFor(w.process, lateness) && !w.isPaused() && ctx.Err() == nil && hold.Err() == nil {
		w.brokenf("shutdown: %v shuts down, and the context goes on that an owner asks for", w.process)
	}
}

// outlasts checks that a shutdown has waited for an owner who is about to unlock, given the error of the hold. The run must be locked.
func (r *run) outlasts(h *holder, err error) {
	unsure := h.blind && (r.faulty() || r.MaxHold > 0 || !r.onlyDepartures())
	if h.p.shut && !unsure && !errors.Is(err, rlock.ErrLost) {
		r.brokenf("shutdown: that of %v has returned, and its owner of %s has not unlocked it", h.p, h.of.name)
	}
}

// onlyDepartures reports whether nothing strikes but the ends of processes.
func (s *Scene) onlyDepartures() bool {
	return !slices.ContainsFunc(s.Nemeses, func(n string) bool { return !slices.Contains(departures, n) })
}

// lingers checks that a shutdown ends once nobody has anything: what is lost need not be unlocked. The run must be locked.
func (r *run) lingers(p *process) {
	if !r.stopsFor(p, 0) || p.isPaused() || p.dead() || p.busy > 0 || r.has(p) {
		p.bereft = time.Time{}
		return
	}
	most := r.strayFor()
	if !r.faulty() && r.onlyDepartures() {
		most = time.Second + 10*r.Faults.Latency + 4*r.slowest()
	}
	switch now := time.Now(); {
	case p.bereft.IsZero():
		p.bereft = now
	case now.Sub(p.bereft) > most:
		r.brokenf("shutdown: that of %v goes on although nobody has anything since %v", p, r.at(p.bereft))
		p.bereft = now.Add(time.Hour)
	}
}

// has reports whether an owner in a process may have something. The run must be locked.
func (r *run) has(p *process) bool {
	for _, t := range r.locks {
		if slices.ContainsFunc(t.inside, func(h *holder) bool { return h.p == p && h.believes() }) {
			return true
		}
	}
	return false
}
