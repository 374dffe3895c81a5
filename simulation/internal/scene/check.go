package scene

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock"
	rlockfault "github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// The bounds that rlock documents, with its default command timeout. Virtual time has no noise, so what is added is for rlock itself.
const (
	commandTimeout  = 5 * time.Second
	watchdogTimeout = 30 * time.Second
	lateness        = 25 * time.Millisecond   // after the end of a context, within which a call returns
	firstTerm       = 3200 * time.Millisecond // of a lease that the line grants: an outage in it may cost the hold
)

// slack is how much longer than its limit a call may take.
func (r *run) slack() time.Duration { return 150*time.Millisecond + 20*r.Faults.Latency + r.Acks }

// faulty reports whether single commands fail.
func (s *Scene) faulty() bool { return s.loses() || s.Faults.SlowMax > commandTimeout/20 }

// asks records the beginning of an attempt.
func (w *worker) asks(p plan) *attempt {
	a := &attempt{plan: p, p: w.process, asked: time.Now(), token: p.of.greatest()}
	w.trace.Note("%v wants %s: %v", w.process, p.of.name, &p)
	vacant := w.vacant(p.of)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accompany(a, vacant)
	a.first = true
	for _, other := range w.wanted {
		for _, o := range other.waiting {
			if o.p == a.p && other.meets(p.of) {
				a.shared, o.shared, a.first = true, true, false
			}
		}
	}
	for _, t := range p.of.atoms() {
		a.shared = a.shared || slices.ContainsFunc(t.inside, func(h *holder) bool { return h.p == a.p })
	}
	p.of.waiting = append(p.of.waiting, a)
	w.inquires(a)
	return a
}

// accompany notes whether somebody else has what an attempt wants, or wants it, and tells those of the attempt. The run must be locked.
func (r *run) accompany(a *attempt, vacant bool) {
	a.alone = vacant && r.Servers <= 1 && r.Peers == 0 && !r.Unsafe && r.settled()
	since := 5 * time.Second
	if r.onlyStops() { // nothing else delays what was begun
		since = 100*time.Millisecond + 20*r.Faults.Latency
	}
	for _, w := range r.wanted {
		if !w.meets(a.of) {
			continue
		}
		for _, o := range w.waiting {
			o.alone, a.alone = false, false
		}
	}
	for _, t := range a.of.atoms() {
		a.alone = a.alone && !slices.ContainsFunc(t.inside, (*holder).believes) && time.Since(t.last) > since && time.Now().After(t.untold) && time.Now().After(t.kept)
		t.last = time.Now()
	}
}

// believes reports whether an owner may believe to have the target. Its lease may be over before it unlocks.
func (h *holder) believes() bool { return h.blind || h.ends || h.err() == nil }

// touch notes that something was done with a target. The run must be locked.
func (r *run) touch(t *target) {
	for _, m := range t.atoms() {
		m.last = time.Now()
	}
}

// answered records and judges the outcome of an attempt.
func (w *worker) answered(ctx context.Context, a *attempt, err error) {
	given := w.given(a.of)
	w.mu.Lock()
	defer w.mu.Unlock()
	a.given = given
	a.of.waiting = slices.DeleteFunc(a.of.waiting, func(o *attempt) bool { return o == a })
	w.touch(a.of)
	refused := errors.Is(err, rlock.ErrNotAcquired)
	if err != nil || w.dead() {
		w.finds(a, refused)
		w.writes(a.of, a.reads)
	}
	if err == nil && w.missed(a.asked) { // it may have been given the target before, and not have noticed
		w.finds(a, false)
	}
	if w.dead() {
		return
	}
	switch {
	case err == nil:
		w.res.Got++
	case refused:
		w.res.Refused++
	default:
		w.res.Failed++
	}
	if err != nil {
		w.trace.Note("%v does not get %s: %v", w.process, a.of.name, err)
	}
	call := w.call(a, a.of.name, err)
	if w.ctx.Err() == nil && a.p.pausedSince(a.asked) == 0 {
		w.checks().Bound(call, lateness, w.slack())
		if !a.shared && w.silent(a) {
			w.checks().Silence(call, 0)
		}
	}
	w.wasAsked(a, call)
	w.judges(ctx, a, call, err)
	known := err == nil || call.Class != promises.Neither || ctx.Err() != nil || w.isFull(err)
	if !known {
		w.brokenf("error: it matches none of the errors of rlock: %v", err)
	}
	cut := a.deadline > 0 && a.deadline < 100*time.Millisecond+10*w.Faults.Latency+4*w.slowest()+w.queues()
	// A lease counts while a command waits for a connection.
	queued := w.Faults.Pool > 0 && errors.Is(err, rlockfault.ErrLate)
	if call.Class == promises.Outage && !cut && !queued && !w.hurries(&a.plan, w.slowest()) {
		w.explained(call)
	}
	if call.Class == promises.Outage && w.hasIt(a) {
		w.brokenf("error: an outage was reported although an owner of %v has %s: %v", w.process, a.of.name, err)
	}
	if call.Class == promises.Outage && !a.limited() && ctx.Err() == nil && !a.of.group() && !errors.Is(err, rlock.ErrNotReplicated) {
		w.brokenf("error: an outage ended a call of %v for %s, which nothing limits: %v", w.process, a.of.name, err)
	}
	if refused && a.alone && !w.faulty() && w.settled() {
		w.brokenf("refused: %v did not get %s, which nobody had or wanted: %v", w.process, a.of.name, err)
	}
}

// queues is how long a few commands of a call may wait for connections, as all workers of a process share a few.
func (s *Scene) queues() time.Duration {
	if s.Faults.Pool == 0 {
		return 0
	}
	return time.Duration(s.Workers/s.Faults.Pool) * 4 * s.Faults.Latency
}

// call returns an attempt, or a wait, that is over as the checkers know it. The run must be locked.
func (r *run) call(a *attempt, what string, err error) promises.Call {
	c := r.asked(a.p, what, a.asked, err)
	c.Try, c.Wait, c.Canceled = a.try, a.wait, a.cancel > 0
	if d := a.deadline + a.cancel; d > 0 {
		c.Ends = c.Asked.Add(d)
	}
	return c
}

// asked returns a call that is over as the checkers know it. The run must be locked.
func (r *run) asked(p *process, what string, at time.Time, err error) promises.Call {
	return promises.Call{
		Who: p, Lock: what, Asked: r.moment(at), Answered: r.moment(time.Now()), Class: r.checks().Class(err), Err: err, Timeout: commandTimeout,
	}
}

// hasIt reports whether an owner of a process has had what another one wants, since before that one asked. Then Redis need not say so. The
// run must be locked.
func (w *worker) hasIt(a *attempt) bool {
	if a.of.counts() || len(a.of.atoms()) > 1 || a.of.kind == kindRed || w.Unsafe { // two owners may have it, of which one does not know yet
		return false
	}
	return slices.ContainsFunc(a.of.inside, func(h *holder) bool {
		return h.p == w.process && h.since.Before(a.asked) && h.lease == 0 && !h.reads && !h.blind && !h.ends && h.err() == nil
	})
}

// hurries reports whether the members of a red lock may have too little time to answer: each has a thirtieth of the lease, and at least 50 ms.
// A round trip may take four latencies, and more where it is delayed. What another worker of the process learns with a short lease is told to
// all who wait.
func (s *Scene) hurries(p *plan, delayed time.Duration) bool {
	return p.of.kind == kindRed && 50*time.Millisecond < 5*s.Faults.Latency+delayed
}

// isFull reports whether an error says that the server has no memory left, in a scene in which that may be.
func (s *Scene) isFull(err error) bool {
	return err != nil && slices.Contains(s.Nemeses, nemesisFull) && strings.Contains(err.Error(), "OOM command not allowed")
}

// class checks that an error does not say two things at once. The run must be locked.
func (r *run) class(err error) { r.checks().Class(err) }

// explained checks that a fault explains an outage that a call reported. The run must be locked.
func (r *run) explained(c promises.Call) { r.checks().Outage(c, r.troubled) }

// troubled reports whether anything disturbed a command between two moments, of which the later one is the present. The run must be locked.
func (r *run) troubled(from, _ promises.Moment) bool {
	return r.faulty() || from <= r.moment(r.disturbed)
}

// silent reports whether nothing came back from the server during a whole attempt. The run must be locked.
func (w *worker) silent(a *attempt) bool {
	return slices.ContainsFunc(slices.Concat(w.cuts, w.silences), func(s span) bool {
		return !s.from.After(a.asked) && s.to.After(time.Now())
	})
}

// enters checks an acquisition against what others have.
func (w *worker) enters(a *attempt, h *holder, token rlock.Token) {
	stand := w.standing(h)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.Note("%v got %s, with the token %d", w.process, h.of.name, token)
	w.owners++
	late := h.late()
	if w.stopping.Before(time.Now()) && !w.stopping.IsZero() && len(w.clients) == 1 {
		w.brokenf("shutdown: %v got %s although it has shut down since %v", w.process, h.of.name, w.at(w.stopping))
	}
	for _, t := range h.of.atoms() {
		if !late {
			w.takes(t, h)
			w.excludes(t, h)
		}
		t.inside = append(t.inside, h)
		t.taken++
		if !w.Unsafe && !w.loses() && !t.counts() && !t.shares() {
			t.untold = time.Time{} // whatever kept it taken is over, and this owner's release will tell
		}
	}
	if late {
		w.finds(a, false)
		return
	}
	w.raises(h, token, a.token)
	w.lasts(h)
	w.yields(h, stand)
	if !h.of.fair() || w.Overtake == 0 {
		return
	}
	for _, o := range h.of.waiting {
		if o.p.healthy() && !o.troubled {
			w.checks().Order(h.of.name, w.believes(h.of, h), w.waits(o), w.Overtake)
		}
	}
}

// lasts checks that a quarter of the lease is left when an owner gets a target, or of the first term. The run must be locked.
func (r *run) lasts(h *holder) {
	lease := firstTerm - 200*time.Millisecond
	if h.lease > 0 {
		lease = min(lease, h.lease)
	}
	if left := time.Until(h.deadline); !h.deadline.IsZero() && left < lease/4 && h.p.pausedSince(h.asked) == 0 {
		r.brokenf("nearly over: %v got %s for %v", h.p, h.of.name, left)
	}
}

// excludes checks that nobody believes to have what an owner just got. The run must be locked.
func (r *run) excludes(t *target, h *holder) {
	if r.forgotten(h) { // while its reply was on its way: others may have it
		return
	}
	var others []promises.Owner
	for _, o := range t.inside {
		if !r.forgotten(o) && !o.late() && !o.p.dead() && !r.unaware(o) && o.err() == nil {
			others = append(others, r.believes(t, o))
		}
	}
	if !t.counts() {
		r.checks().Exclusion(t.name, r.believes(t, h), others)
	} else {
		r.checks().Permits(t.name, r.believes(t, h), others, permits+t.extra)
	}
	if time.Now().Before(t.kept) && !r.Unsafe {
		r.brokenf("kept: %v got %s, which AtLeast keeps until %v", h.p, t.name, r.at(t.kept))
	}
}

// unaware reports whether an owner that learns of a loss only when it unlocks may have lost its target: because its client is closed, the hold is
// too long, or something may have disturbed the renewal that a first term needs. The run must be locked.
func (r *run) unaware(h *holder) bool {
	shaken := r.Faults.Silent+r.Faults.Late > 0 || h.since.Before(r.disturbed)
	return h.blind && (h.p.ended || r.tooLong(h) || shaken && time.Since(h.since) > firstTerm-time.Second)
}

// believes returns a holder as the checkers know it.
func (r *run) believes(t *target, h *holder) promises.Owner {
	return promises.Owner{Who: h.p, Asked: r.moment(h.asked), Since: r.moment(h.since), Reads: t.shares() && h.reads, Permits: h.permits}
}

// forgotten reports whether Redis may have forgotten that an owner has a target: it asked for it before a server last forgot something, or
// somebody freed it by force. A command that does so may come late, and free what a later owner has. Where only a clock is stepped, an owner
// may not rely on what it was granted after that, however long before it asked. The run must be locked.
func (r *run) forgotten(o *holder) bool {
	from := o.asked
	if r.onlyStepsClocks() {
		from = o.since.Add(-10*r.Faults.Latency - 4*r.slowest())
	}
	return r.Unsafe && (r.forgetting || !from.After(r.forgot) || r.faulty() && slices.Contains(r.Nemeses, nemesisForce))
}

// onlyStepsClocks reports whether a server forgets nothing, but a clock steps.
func (s *Scene) onlyStepsClocks() bool {
	return !s.faulty() && len(s.Nemeses) > 0 && !slices.ContainsFunc(s.Nemeses, func(n string) bool { return n != nemesisClock })
}

// raises checks the token of an owner, given the greatest of those that had been seen when it asked. The run must be locked.
func (r *run) raises(h *holder, token, seen rlock.Token) {
	t, judge := h.of, r.checks()
	if h.blind || h.bare {
		return
	}
	if r.forgets() && slices.Contains(r.Nemeses, nemesisClock) { // tokens come from the clock, once the counter is gone
		judge = promises.Nobody
	}
	before := uint64(seen)
	if !r.Unsafe {
		before = t.tokens.Greatest()
	}
	t.tokens.Granted(judge, t.name, t.fenced(), r.believes(t, h), uint64(token), before)
}

// leaves records that an owner is about to unlock, and judges a loss.
func (w *worker) leaves(h *holder, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.Note("%v unlocks %s: %v", h.p, h.of.name, err)
	h.ends = true
	w.writes(h.of, h.reads)
	w.outlasts(h, err)
	h.p.occupies(len(h.of.atoms()))
	w.drop(h)
	if err == nil {
		for _, a := range h.p.waitFor(h.of) {
			a.offered = true
		}
	}
	if h.atLeast > 0 && err == nil {
		h.of.untold = w.toldBy(time.Now().Add(h.atLeast))
	}
	if !errors.Is(err, rlock.ErrLost) {
		return
	}
	w.res.Lost++
	silent := w.Faults.Silent+w.Faults.Late > 0
	excused := time.Since(h.since) < firstTerm && (silent || time.Now().Before(w.disturbed)) || h.outlasted() || w.tooLong(h)
	if h.lease == 0 && !w.Unsafe {
		w.checks().Lost(w.believes(h.of, h), h.of.name, err, excused)
	}
}

// toldBy returns until when waiters need not notice that a lock is free whose lease was made to end at a moment. Where the user may not tell them,
// they may know of a longer lease, or a clock that steps has it last for longer.
func (r *run) toldBy(ends time.Time) time.Time {
	if slices.Contains(r.Nemeses, nemesisClock) {
		return ends.Add(35 * time.Second)
	}
	return ends
}

// unlocked judges an unlock, given the error of the hold and its deadline before it.
func (w *worker) unlocked(h *holder, before, err error, deadline time.Time, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.p.occupies(-len(h.of.atoms()))
	w.touch(h.of)
	w.writes(h.of, h.reads)
	if h.p.dead() {
		return
	}
	switch {
	case before != nil || err != nil:
	case h.atLeast > 0:
		h.of.kept = h.asked.Add(h.atLeast)
		w.trace.Note("%v keeps %s until %v", h.p, h.of.name, w.at(h.of.kept))
	case !h.unsure:
		w.gives(h, took)
	}
	e := promises.Ending{
		Who: h.p, Lock: h.of.name, Group: h.of.group(), Before: w.checks().Class(before), Deadline: w.moment(deadline),
		Unlocking: w.moment(time.Now().Add(-took)), Unlocked: w.moment(time.Now()), After: w.checks().Class(err), Err: err,
	}
	w.checks().AfterLoss(e, h.p.pausedSince(time.Now().Add(-took)))
	if before == nil && !w.Unsafe && !w.tooLong(h) {
		w.checks().EarlyLoss(e)
	}
	switch {
	case e.After == promises.Outage:
		w.checks().Unconfirmed(e, w.troubled)
	case e.Before == promises.Loss || e.After == promises.Loss:
	case err != nil && !errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrClosed) && !w.isFull(err):
		w.brokenf("error: the unlock of %s by %v returned %v", h.of.name, h.p, err)
	case before == nil && errors.Is(err, rlock.ErrNotHeld):
		w.brokenf("unlock: the only one of %s by %v returned %v", h.of.name, h.p, err)
	}
}
