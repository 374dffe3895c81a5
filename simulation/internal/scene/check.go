package scene

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock"
)

// The bounds that rlock documents, with its default command timeout. Virtual time has no noise, so what is added is for rlock itself.
const (
	commandTimeout  = 5 * time.Second
	watchdogTimeout = 30 * time.Second
	floor           = commandTimeout / 5      // how long a command may have no reply before rlock calls that an outage
	lateness        = 25 * time.Millisecond   // after the end of a context, within which a call returns
	firstTerm       = 3200 * time.Millisecond // of a lease that the line grants: an outage in it may cost the hold
)

// slack is how much longer than its limit a call may take.
func (r *run) slack() time.Duration { return 150*time.Millisecond + 20*r.Faults.Latency }

// faulty reports whether single commands fail.
func (s *Scene) faulty() bool {
	f := s.Faults
	return f.LostSend+f.LostReply+f.Silent+f.Late+f.Repeated+f.Panic+f.Unacked > 0 || f.SlowMax > floor/4
}

// asks records the beginning of an attempt.
func (w *worker) asks(p plan) *attempt {
	a := &attempt{plan: p, p: w.process, asked: time.Now(), token: p.of.token}
	w.trace.Note("%v wants %s: %v", w.process, p.of.name, &p)
	vacant := w.vacant(p.of)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accompany(a, vacant)
	for _, t := range append(p.of.atoms(), p.of) {
		for _, o := range t.waiting {
			if o.p == a.p {
				a.shared, o.shared = true, true
			}
		}
		a.shared = a.shared || slices.ContainsFunc(t.inside, func(h *holder) bool { return h.p == a.p })
	}
	p.of.waiting = append(p.of.waiting, a)
	return a
}

// accompany notes whether somebody else has what an attempt wants, or wants it, and tells those of the attempt. The run must be locked.
func (r *run) accompany(a *attempt, vacant bool) {
	a.alone = vacant && r.Servers <= 1 && r.Peers == 0 && !r.Unsafe && time.Now().After(r.disturbed)
	for _, w := range r.wanted {
		if !slices.ContainsFunc(w.atoms(), func(t *target) bool { return slices.Contains(a.of.atoms(), t) }) {
			continue
		}
		for _, o := range w.waiting {
			o.alone, a.alone = false, false
		}
	}
	for _, t := range a.of.atoms() {
		a.alone = a.alone && !slices.ContainsFunc(t.inside, (*holder).believes) && time.Since(t.last) > 5*time.Second && time.Now().After(t.untold) && time.Now().After(t.kept)
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
	w.mu.Lock()
	defer w.mu.Unlock()
	a.of.waiting = slices.DeleteFunc(a.of.waiting, func(o *attempt) bool { return o == a })
	w.touch(a.of)
	if w.dead() {
		return
	}
	refused := errors.Is(err, rlock.ErrNotAcquired)
	switch {
	case err == nil:
		w.res.Got++
		return
	case refused:
		w.res.Refused++
	default:
		w.res.Failed++
	}
	w.trace.Note("%v does not get %s: %v", w.process, a.of.name, err)
	w.class(err)
	outage := errors.Is(err, rlock.ErrUnavailable)
	known := refused || outage || errors.Is(err, rlock.ErrClosed) || errors.Is(err, rlock.ErrLost) || ctx.Err() != nil || w.isFull(err)
	if !known {
		w.brokenf("error: it matches none of the errors of rlock: %v", err)
	}
	cut := a.deadline > 0 && a.deadline < 100*time.Millisecond+10*w.Faults.Latency
	if outage && !cut && !w.hurries(&a.plan) {
		w.explained(a.asked, err)
	}
	if outage && w.hasIt(a) {
		w.brokenf("error: an outage was reported although an owner of %v has %s: %v", w.process, a.of.name, err)
	}
	if refused && a.alone && !w.faulty() && w.Faults.Panic == 0 && time.Now().After(w.disturbed) {
		w.brokenf("refused: %v did not get %s, which nobody had or wanted: %v", w.process, a.of.name, err)
	}
	if refused && !a.shared && w.silent(a) {
		w.brokenf("error: an outage was reported as contention: %v", err)
	}
	if late := time.Since(a.asked.Add(a.limit())); a.limit() > 0 && late > 0 && w.ctx.Err() == nil {
		if ended := a.deadline+a.cancel > 0; ended && late > lateness || late > w.slack() {
			w.brokenf("late: a call of %v for %s returned %v after its limit of %v: %v", w.process, a.of.name, late, a.limit(), err)
		}
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
// A round trip may take four latencies.
func (s *Scene) hurries(p *plan) bool {
	return p.of.kind == kindRed && p.lease > 0 && max(p.lease/30, 50*time.Millisecond) < 5*s.Faults.Latency
}

// isFull reports whether an error says that the server has no memory left, in a scene in which that may be.
func (s *Scene) isFull(err error) bool {
	return err != nil && slices.Contains(s.Nemeses, nemesisFull) && strings.Contains(err.Error(), "OOM command not allowed")
}

// limit returns after what time the attempt has to return. Zero means that nothing limits it.
func (p *plan) limit() time.Duration {
	switch {
	case p.try:
		return floor
	case p.wait > 0:
		return max(p.wait, floor)
	}
	return p.deadline + p.cancel
}

// class checks that an error does not say two things at once. The run must be locked.
func (r *run) class(err error) {
	if errors.Is(err, rlock.ErrUnavailable) && (errors.Is(err, rlock.ErrNotAcquired) || errors.Is(err, rlock.ErrLost)) {
		r.brokenf("error: an outage and more: %v", err)
	}
}

// explained checks that a fault explains an outage that a call reported. The run must be locked.
func (r *run) explained(asked time.Time, err error) {
	if !r.faulty() && asked.After(r.disturbed.Add(commandTimeout+time.Second)) {
		r.brokenf("error: an outage was reported, but all was well: %v", err)
	}
}

// silent reports whether nothing came back from the server during a whole attempt, for long enough to notice. The run must be locked.
func (w *worker) silent(a *attempt) bool {
	if time.Since(a.asked) < floor {
		return false
	}
	return slices.ContainsFunc(slices.Concat(w.cuts, w.silences), func(s span) bool {
		return !s.from.After(a.asked) && s.to.After(time.Now())
	})
}

// enters checks an acquisition against what others have.
func (w *worker) enters(a *attempt, h *holder, token rlock.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.Note("%v got %s, with the token %d", w.process, h.of.name, token)
	if w.stopping.Before(time.Now()) && !w.stopping.IsZero() && len(w.clients) == 1 {
		w.brokenf("shutdown: %v got %s although it has shut down since %v", w.process, h.of.name, w.at(w.stopping))
	}
	for _, t := range h.of.atoms() {
		w.excludes(t, h)
		t.inside = append(t.inside, h)
		t.taken++
	}
	w.raises(h, token, a.token)
	w.lasts(h)
	if !h.of.fair() || w.Overtake == 0 {
		return
	}
	for _, o := range h.of.waiting {
		if o.asked.Add(w.Overtake).Before(a.asked) && o.p.healthy() && !o.troubled {
			w.brokenf("order: %v, which asked for %s at %v, overtook %v, which asked at %v", w.process, h.of.name, w.at(a.asked), o.p, w.at(o.asked))
		}
	}
}

// lasts checks that a quarter of the lease is left when an owner gets a target, or of the first term. The run must be locked.
func (r *run) lasts(h *holder) {
	lease := firstTerm - 200*time.Millisecond
	if h.lease > 0 {
		lease = min(lease, h.lease)
	}
	if left := time.Until(h.deadline); !h.deadline.IsZero() && left < lease/4 {
		r.brokenf("nearly over: %v got %s for %v", h.p, h.of.name, left)
	}
}

// excludes checks that nobody believes to have what an owner just got. The run must be locked.
func (r *run) excludes(t *target, h *holder) {
	sum := h.permits
	for _, o := range t.inside {
		if r.Unsafe || o.p.dead() || o.blind && o.p.ended || o.err() != nil {
			continue
		}
		sum += o.permits
		if both := t.shares() && o.reads && h.reads; !both && !t.counts() {
			r.brokenf("exclusion: %v got %s, which %v has since %v", h.p, t.name, o.p, r.at(o.since))
		}
	}
	if t.counts() && sum > permits+t.extra {
		r.brokenf("permits: %d of %s are held, of %d", sum, t.name, permits+t.extra)
	}
	if time.Now().Before(t.kept) && !r.Unsafe {
		r.brokenf("kept: %v got %s, which AtLeast keeps until %v", h.p, t.name, r.at(t.kept))
	}
}

// raises checks that a token is greater than all before: than that of each holder before, or, where two may be inside, than those that had
// been seen when the owner asked. The run must be locked.
func (r *run) raises(h *holder, token, seen rlock.Token) {
	t := h.of
	if !t.fenced() || h.reads || h.blind || h.bare {
		return
	}
	if !r.Unsafe {
		seen = t.token
	}
	lower := r.forgets() && slices.Contains(r.Nemeses, nemesisClock) // tokens come from the clock, once the counter is gone
	if token <= seen && !lower {
		r.brokenf("token: %v got %s with the token %d after %d", h.p, t.name, token, seen)
	}
	t.token = max(t.token, token)
}

// leaves records that an owner is about to unlock, and judges a loss.
func (w *worker) leaves(h *holder, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.Note("%v unlocks %s: %v", h.p, h.of.name, err)
	h.ends = true
	h.p.busy += len(h.of.atoms())
	w.drop(h)
	if h.atLeast > 0 && err == nil {
		h.of.untold = time.Now().Add(h.atLeast + 35*time.Second)
	}
	if !errors.Is(err, rlock.ErrLost) {
		return
	}
	w.res.Lost++
	silent := w.Faults.Silent+w.Faults.Late > 0
	excused := time.Since(h.since) < firstTerm && (silent || time.Now().Before(w.disturbed))
	if h.lease == 0 && !w.Unsafe && !excused {
		w.brokenf("false loss: %v lost %s, which it had since %v: %v", h.p, h.of.name, w.at(h.since), err)
	}
}

// unlocked judges an unlock, given the error of the hold and its deadline before it.
func (w *worker) unlocked(h *holder, before, err error, deadline time.Time, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.p.busy -= len(h.of.atoms())
	w.touch(h.of)
	if h.p.dead() {
		return
	}
	w.class(err)
	if before == nil && err == nil && h.atLeast > 0 {
		h.of.kept = h.asked.Add(h.atLeast)
	}
	lost := errors.Is(err, rlock.ErrLost)
	group := h.of.kind == kindMulti || h.of.kind == kindRed // it releases the members that are still held
	switch {
	case errors.Is(before, rlock.ErrLost) && !lost:
		w.brokenf("unlock: that of the lost %s by %v returned %v", h.of.name, h.p, err)
	case errors.Is(before, rlock.ErrLost) && !group && took > 0:
		w.brokenf("late: the unlock of the lost %s by %v took %v", h.of.name, h.p, took)
	case before == nil && lost && h.lease == 0 && !w.Unsafe && time.Now().Before(deadline):
		w.brokenf("unlock: that of %s by %v reports a loss before the deadline: %v", h.of.name, h.p, err)
	case errors.Is(err, rlock.ErrUnavailable):
		w.explained(time.Now().Add(-took), err)
	case err != nil && !errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrClosed) && !w.isFull(err):
		w.brokenf("error: the unlock of %s by %v returned %v", h.of.name, h.p, err)
	case before == nil && errors.Is(err, rlock.ErrNotHeld) && !lost:
		w.brokenf("unlock: the only one of %s by %v returned %v", h.of.name, h.p, err)
	}
}
