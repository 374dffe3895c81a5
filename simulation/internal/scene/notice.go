package scene

import (
	"context"
	"time"

	"github.com/go-rlock/rlock"
)

// notices checks that an owner whose lock was taken away learns of it with its next renewal, although another one has the lock since. The
// run must be locked.
func (r *run) notices(t *target) {
	if !r.Unsafe || t.counts() || t.kind == kindRed {
		return
	}
	for _, h := range t.inside {
		if h.told || h.blind || h.p.isPaused() || h.lease > 0 || h.ends || h.p.dead() || h.p.ended || h.err() != nil {
			continue
		}
		from := h.robbed
		if !from.After(r.forgot) { // what is forgotten may be what had robbed it
			if o := r.robs(t, h); o == nil {
				continue
			} else if from = later(o.since, r.forgot); o.asked.After(r.forgot) {
				h.robbed = from
			}
		}
		if since := later(from, h.p.resumed()); !r.checks().Unnoticed(r.believes(t, h), t.name, r.moment(since), r.moment(time.Now()), r.noticed(h)) {
			h.told = true
		}
	}
}

// robs returns an owner who has got a target since another one did, or nil. The run must be locked.
func (r *run) robs(t *target, h *holder) *holder {
	for _, o := range t.inside {
		if o != h && !o.blind && !o.ends && !o.since.Before(h.since) && !o.p.dead() && o.err() == nil && (!t.shares() || !o.reads || !h.reads) {
			return o
		}
	}
	return nil
}

// noticed returns how long an owner may take to notice that it has lost its lock.
func (r *run) noticed(h *holder) time.Duration {
	if r.faulty() {
		return h.watchdog()
	}
	return h.watchdog()/3 + commandTimeout + 2*time.Second
}

// tooLong reports whether a hold may have become longer than the scene allows.
func (s *Scene) tooLong(h *holder) bool { return s.MaxHold > 0 && time.Since(h.asked) >= s.MaxHold }

// limits checks that a hold ends that is longer than the scene allows. The run must be locked.
func (r *run) limits(h *holder) {
	if r.MaxHold == 0 || h.told || h.blind || h.ends || h.p.dead() || h.p.ended || h.p.isPaused() || h.err() != nil {
		return
	}
	if over := time.Since(h.since) - r.MaxHold; over > lateness {
		h.told = true
		r.brokenf("limit: %v has had %s since %v, which is %v longer than WithMaxHold allows", h.p, h.of.name, r.at(h.since), over)
	}
}

// leader is a candidate that leads.
type leader struct {
	p        *process
	election *rlock.Election
	hold     *rlock.Hold
	ctx      context.Context //nolint:containedctx // that of the leader's function
	late     int             // how often the watch has seen that it does not know of its end
}

// leads checks that a leader whose hold is over knows it. The run must be locked.
func (r *run) leads(l *leader) {
	if l.p.dead() || l.p.isPaused() {
		return
	}
	over := r.checks().Leads(l.p, l.election, l.hold)
	if over == nil {
		return
	}
	if l.late++; l.late == 2 {
		r.checks().Ends(l.ctx, l.p, over)
	}
}
