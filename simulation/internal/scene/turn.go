package scene

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// attempt is a call that wants a target.
type attempt struct {
	plan

	p     *process
	asked time.Time
	token rlock.Token // the greatest then

	// The mutex of the run guards these.
	shared      bool      // somebody else in the process had the target, or wanted it, meanwhile
	mixed       bool      // its process used locks otherwise meanwhile
	first       bool      // nobody else in the process wanted the target then
	offered     bool      // its process has unlocked the target since
	until       time.Time // for how long an owner of its process could rely on the target that has none there any more
	troubled    bool      // its process was once not reached
	looks, free int       // how often the watch saw it wait, and the target free then
	told        bool      // of a lost wake-up
	alone       bool      // nobody else has the target or wants it, and Redis has nobody
	given       []subject // the members of a red lock that a server said were its process's when it ended
}

// holder is an owner that believes to hold a target.
type holder struct {
	plan

	p        *process
	asked    time.Time
	since    time.Time
	err      func() error     // nil as long as it believes that
	deadline time.Time        // of the hold when it began; zero means none
	term     func() time.Time // its deadline; nil means that nobody can tell
	ends     bool             // it unlocks
	ctx      context.Context  //nolint:containedctx // of the hold; nil means none
	blind    bool             // it learns of a loss only when it unlocks
	robbed   time.Time        // since when another owner has had its target; zero means that none has
	told     bool             // of something that it did not notice
	unsure   bool             // nobody tells whether Redis confirmed its unlock
	uses     []*use           // of what it has
}

// until returns until when an owner may rely on what it has.
func (h *holder) until() time.Time {
	switch {
	case h.blind:
		return time.Now().Add(h.watchdog())
	case h.term != nil:
		return h.term()
	}
	return h.deadline
}

// endsHere notes until when an owner could rely on what it has, for those of its process who wait for it. The run must be locked.
func (h *holder) endsHere() {
	for _, a := range h.p.waitFor(h.of) {
		a.until = later(a.until, h.until())
	}
}

// turn uses a target once.
func (w *worker) turn(t *target) {
	p := w.draw(t)
	switch {
	case p.verb == 0:
		p.bare = false
		w.byDo(t, p)
		return
	case p.verb == 1 && p.lease == 0 && !t.counts() && !t.group():
		w.byLock(t, p)
		return
	}
	ctx, opts, cancel := w.terms(&p)
	defer cancel()
	lock := w.acquirer(t, p.reads)
	if p.bare {
		lock = w.clients[0].NewLock(t.name)
	}
	a := w.asks(p)
	w.mu.Lock()
	alone := w.solitary(a)
	w.mu.Unlock()
	acquire := lock.Acquire
	if p.try {
		acquire = lock.TryAcquire
	}
	hold, err := acquire(ctx, opts...)
	w.answered(ctx, a, err)
	if err != nil || w.dead() {
		return
	}
	h := &holder{plan: p, p: w.process, asked: a.asked, since: time.Now(), err: hold.Err, deadline: hold.Deadline(), term: hold.Deadline}
	if !p.asksLate() {
		h.ctx = hold.Context()
	}
	w.enters(a, h, hold.Token())
	if !p.owned { // an owner outlives the hold, and those who share its context are one
		defer func() { w.keeps(hold.Context()) }()
	}
	left := w.spends(lock, hold, h)
	if left == nil {
		return
	}
	if l, ok := lock.(*rlock.Lock); ok && p.lease+p.atLeast+p.ticket == 0 && !h.p.dead() {
		if p.visit == 4 && w.outlives(h, left, l) {
			return
		}
		if p.visit == 6 && !p.reads {
			w.together(h, left, l)
			return
		}
	}
	if !h.p.dead() {
		w.unlock(h, left)
		w.mu.Lock()
		alone.over(w.run)
		w.mu.Unlock()
	}
}

// spends spends the time for which an owner has a target. It returns the hold that is to be unlocked, or nil if there is none.
func (w *worker) spends(lock handles.Any, hold *rlock.Hold, h *holder) *rlock.Hold {
	p := h.plan
	w.visit(lock, hold, p)
	var inner *rlock.Hold
	if p.again && p.verb < kept {
		inner = w.again(lock, hold, h)
	}
	if p.verb < briefly {
		w.ends(inner, hold)
		inner = nil
	}
	if p.extend > 0 {
		w.extend(hold, p.extend)
	}
	if p.ticket > 0 {
		if hold = w.handOff(h, hold); hold == nil {
			return nil
		}
	}
	w.use(hold, h.plan)
	if p.again && p.verb >= kept && !w.dead() {
		inner = w.again(lock, hold, h)
	}
	w.ends(inner, hold)
	if p.asksLate() && !w.dead() {
		w.asksLate(hold)
	}
	return hold
}

// use holds the lock for as long as planned.
func (w *worker) use(hold *rlock.Hold, p plan) {
	d := w.onGrid(p.hold)
	if !p.looks {
		time.Sleep(d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-hold.Done():
	case <-timer.C:
	}
}

// unlock ends the hold.
func (w *worker) unlock(h *holder, hold *rlock.Hold) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	switch h.unlocks {
	case 0:
		end()
	case 1:
		time.AfterFunc(w.upTo(2*w.Faults.Latency), end)
	}
	deadline, err := hold.Deadline(), hold.Err()
	w.leaves(h, err)
	began := time.Now()
	wrong := hold.Unlock(ctx)
	w.unlocked(h, err, wrong, deadline, time.Since(began))
	if h.unlocks == 2 {
		w.unlocksTwice(h, hold, wrong)
	}
}

// unlocksTwice unlocks a hold that is unlocked, given what the first unlock returned. That ends nothing.
func (w *worker) unlocksTwice(h *holder, hold *rlock.Hold, first error) {
	w.occupied(w.process, len(h.of.atoms()))
	defer w.occupied(w.process, -len(h.of.atoms()))
	if err := hold.Unlock(context.Background()); first == nil && !w.dead() {
		w.unlocksAgain(err, h.of)
	}
}

// occupied adds to the calls under way of a process.
func (r *run) occupied(p *process, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.occupies(n)
}

// occupies is the same. The run must be locked.
func (p *process) occupies(n int) {
	if p.busy += n; n <= 0 {
		return
	}
	for a := range p.wants() {
		a.mixed = true
	}
}

// extend lengthens the lease.
func (w *worker) extend(hold *rlock.Hold, d time.Duration) {
	asked := time.Now()
	err := hold.Extend(w.ctx, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class(err)
	if err == nil {
		w.checks().Extended(w.process, hold, d, asked)
	}
}

// sees notes which holder of a lock is that of a ticket.
func (w *worker) sees(t *target) {
	field := w.fields()[t]
	w.mu.Lock()
	defer w.mu.Unlock()
	t.ticketed = field
}

// handOff exports the hold, and adopts it in another process or in this one. It returns nil if nobody has it after that.
func (w *worker) handOff(h *holder, hold *rlock.Hold) *rlock.Hold {
	began := time.Now()
	w.mu.Lock()
	h.ends, h.of.untold = true, began.Add(2*h.ticket)
	h.endsHere()
	w.mu.Unlock()
	w.occupied(w.process, 1)
	w.trace.Note("%v exports %s", w.process, h.of.name)
	ticket, err := hold.Export(context.Background(), rlock.Lease(h.ticket))
	w.occupied(w.process, -1)
	w.mu.Lock()
	w.class(err)
	h.err = func() error { // until somebody adopts it, the ticket holds the lock
		if time.Since(began) < h.ticket-h.ticket/50 {
			return nil
		}
		return rlock.ErrNotHeld
	}
	if err == nil && (hold.Err() == nil || hold.Context().Err() == nil) {
		w.brokenf("ticket: a hold of %v goes on although it was exported", w.process)
	}
	if err != nil {
		w.trace.Note("%v gave up %s: %v", w.process, h.of.name, err)
		w.drop(h)
		h.of.untold = time.Time{} // rlock frees what it may have exported
	}
	w.mu.Unlock()
	if err != nil {
		_ = hold.Unlock(context.Background()) // what was lost before is still its owner's
		return nil
	}
	w.sees(h.of)
	if h.ticket > unwanted {
		time.Sleep(w.upTo(time.Second))
	}
	all := w.alive()
	if len(all) == 0 || w.dead() || h.ticket <= unwanted {
		return w.adopted(h, nil, w.process, nil, began, 0)
	}
	heir := all[w.random.IntN(len(all))]
	lock, _ := heir.acquirer(h.of, h.reads).(*rlock.Lock)
	w.occupied(heir, 1)
	token := w.greatest(h.of)
	w.trace.Note("%v adopts %s", heir, h.of.name)
	var adopted *rlock.Hold
	var lease time.Duration
	var opts []rlock.AcquireOption
	if w.one(2) { // which runs out, perhaps
		lease = 500*time.Millisecond + w.upTo(4*time.Second)
		opts, h.hold = append(opts, rlock.Lease(lease)), w.upTo(2*lease)
	}
	w.mu.Lock()
	heir.turns++ // it sends a command
	h.lease, h.of.exported = lease, ticket
	waits, asked := h.err, time.Now()
	h.err = func() error { // of a question without a reply yet, a lease may be over that is shorter than that of the ticket
		if lease > 0 || time.Since(asked) > watchdogTimeout-watchdogTimeout/50 {
			return rlock.ErrNotHeld
		}
		return waits()
	}
	w.mu.Unlock()
	heir.self.Do(func() { adopted, err = lock.Adopt(w.ctx, ticket, opts...) })
	w.occupied(heir, -1)
	return w.adopted(h, adopted, heir, err, began, token)
}

// greatest returns the greatest token of a lock.
func (r *run) greatest(t *target) rlock.Token {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.greatest()
}

// adopted judges an adoption, and returns the hold. token is the greatest before it.
func (w *worker) adopted(h *holder, hold *rlock.Hold, heir *process, err error, exported time.Time, token rlock.Token) *rlock.Hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class(err)
	if hold == nil {
		once := w.Faults.Late+w.Faults.Repeated == 0
		if errors.Is(err, rlock.ErrNotHeld) && time.Since(exported) < h.ticket-h.ticket/10 && !w.Unsafe && once && w.ctx.Err() == nil {
			w.brokenf("ticket: %v could not adopt %s, which %v had exported %v before: %v", heir, h.of.name, w.process, time.Since(exported), err)
		}
		w.trace.Note("%v gave up %s: %v", w.process, h.of.name, err)
		w.drop(h)
		if ends := exported.Add(h.ticket); time.Now().Before(ends) { // otherwise there may be a ticket of somebody else by now
			h.of.untold = w.toldBy(ends) // until then, nobody may have the lock, but only the ticket has it
			h.of.unadopted = h.of.untold
		}
		return nil
	}
	h.of.untold = time.Time{}
	h.p, h.ends, h.err, h.since, h.renewed = heir, false, hold.Err, time.Now(), 0
	h.ctx, h.deadline, h.term = hold.Context(), hold.Deadline(), hold.Deadline
	w.trace.Note("%v received %s of %v", heir, h.of.name, w.process)
	w.raises(h, hold.Token(), token)
	w.lasts(h)
	return hold
}

// drop forgets a holder. The run must be locked.
func (r *run) drop(h *holder) {
	h.endsHere()
	for _, t := range h.of.atoms() {
		t.inside = slices.DeleteFunc(t.inside, func(o *holder) bool { return o == h })
	}
}
