package scene

import (
	"math"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// deeds is what is known of the owners of a target, for the check whether a lock could have done what they saw. The mutex of the run
// guards it.
type deeds struct {
	uses   []*use
	finds  []promises.Op // by those that do not wait
	doubts []promises.Op // in which a call may have had the target, or not
}

// use is the use of a target by an owner.
type use struct {
	take, give promises.Op
}

const never = promises.Moment(math.MaxInt64)

// takes records that an owner got a target, which it may give back at any time.
func (r *run) takes(t *target, h *holder) {
	take := promises.Op{What: promises.Take, Owner: r.owners, Reads: t.shares() && h.reads, From: r.moment(h.asked), To: r.moment(h.since)}
	give := take
	give.What, give.From, give.To = promises.Give, take.To+1, never // not in the same moment, which would leave open whether it is over
	u := &use{take, give}
	t.uses, h.uses = append(t.uses, u), append(h.uses, u)
}

// gives records that an owner has certainly given back what it had, while it unlocked.
func (r *run) gives(h *holder, took time.Duration) {
	for _, u := range h.uses {
		u.give.From, u.give.To = max(u.give.From, r.moment(time.Now().Add(-took))), max(u.give.From, r.moment(time.Now()))
	}
}

// finds records what an attempt without success found, if that is known. The run must be locked.
func (r *run) finds(a *attempt, refused bool) {
	o := promises.Op{What: promises.Find, Reads: a.of.shares() && a.reads, From: r.moment(a.asked), To: r.moment(time.Now())}
	if refused && a.try {
		if a.of.kind != kindYieldingRW || !a.reads { // which may have found a writer that waits
			a.of.finds = append(a.of.finds, o)
		}
		return
	}
	if o.To = o.To.Add(r.strayFor()); a.p.dead() {
		o.To = never
	}
	for _, t := range a.of.atoms() {
		t.doubts = append(t.doubts, o)
	}
}

// linearizable checks that each target did what a lock could have done. Its refusals are checked where nobody may have it without the
// knowledge of the checkers: a group may have taken only some members. The run must be locked.
func (r *run) linearizable() {
	known := !r.faulty() && r.Peers == 0 && !r.Panics
	for _, t := range r.locks {
		member := slices.ContainsFunc(r.wanted, func(w *target) bool { return slices.Contains(w.members, t) })
		if t.counts() || r.Unsafe {
			continue
		}
		var ops []promises.Op
		for _, u := range t.uses {
			ops = append(ops, u.take, u.give)
		}
		for i, f := range t.finds {
			doubtful := slices.ContainsFunc(t.doubts, func(d promises.Op) bool { return d.From <= f.To && f.From <= d.To })
			if f.Owner = -1 - i; known && !member && !doubtful && !t.fair() && t.kind != kindRed {
				ops = append(ops, f)
			}
		}
		r.checks().Linearizable(t.name, ops)
	}
}
