package rlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// groupEntry is one successful acquisition of a group: what one unlock settles. It is what a [Hold] of a group stands
// for, and lasts while enough members are held.
type groupEntry struct {
	group   *group
	owner   *owner
	plain   bool // made without an owner in the context
	renewed bool // made without a lease

	mu      sync.Mutex
	members []holding   // as in group.members; nil: not held
	since   []time.Time // when they joined an entry that was held by then; zero: before
	errs    []error     // of those that are not held, why
	asked   []bool      // those that have been asked and have not answered
	changed chan struct{}

	deadline time.Time // the latest one that was told
	begun    bool      // enough members were held, once
	why      error     // it is over; nil: it is not
	closed   bool      // unlocked, or being unlocked, or given up
	over     chan struct{}
	cancel   context.CancelCauseFunc
	// watched tells that the holder will be told of a loss. Otherwise the members whose loss it is log that.
	watched bool
	timer   *time.Timer // asks again for the members that are not held; nil: nobody does
}

var _ holding = (*groupEntry)(nil)

func (r *groupRequest) newEntry() *groupEntry {
	n := len(r.group.members)
	return &groupEntry{
		group: r.group, owner: r.owner, plain: r.plain, renewed: r.lease == 0, members: make([]holding, n),
		since: make([]time.Time, n), errs: make([]error, n), asked: make([]bool, n), changed: make(chan struct{}, 1),
	}
}

// add takes in that a member is held. It refuses when the entry is over: then the member must be given back.
func (e *groupEntry) add(i int, h holding) bool {
	e.mu.Lock()
	// First whether enough were held until now: what was lost for a moment is lost for good.
	tell := e.look()
	added := !e.closed && e.why == nil
	var others []holding
	if added {
		e.members[i], e.errs[i] = h, nil
		if e.begun {
			e.since[i] = time.Now()
			others = slices.Clone(e.members)
		}
	}
	e.mu.Unlock()
	tell()
	if added {
		e.watch(i, h)
	}
	for k, other := range others { // so that one that is lost from now on is known to be lost after this one joined
		if k != i && other != nil {
			other.renewSoon()
		}
	}
	return added
}

// watch has the end of a member reported.
func (e *groupEntry) watch(i int, h holding) {
	e.mu.Lock()
	watched := e.watched
	e.mu.Unlock()
	tell := func(error) { e.memberEnded(i, h) }
	if _, ok := h.(*groupEntry); ok { // it may find out while this one's mu is held
		tell = func(error) { h.locks()[0].client.background(func() { e.memberEnded(i, h) }) }
	}
	if h.notify(tell, watched) != nil {
		e.memberEnded(i, h)
	}
}

// watchAll notes that the holder will be told of a loss.
func (e *groupEntry) watchAll() {
	e.mu.Lock()
	again, members := e.watched, slices.Clone(e.members)
	e.watched = true
	e.mu.Unlock()
	for i, h := range members {
		if h != nil && !again {
			e.watch(i, h)
		}
	}
}

// begin makes the entry held if enough members are.
func (e *groupEntry) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = e.live() >= e.group.need
	return e.begun
}

// live counts the members that are held now. It requires mu.
func (e *groupEntry) live() int {
	n := 0
	for _, h := range e.members {
		if h != nil && h.Err() == nil {
			n++
		}
	}
	return n
}

// kept tells whether the members that count, and are held now, were enough all the time: if a member is gone, it may
// have been since it was last confirmed, and only those held then kept others out. It requires mu.
func (e *groupEntry) kept(counts func(int) bool) bool {
	enough := func(since time.Time) bool {
		n := 0
		for k := range e.members {
			if counts(k) && !e.since[k].After(since) {
				n++
			}
		}
		return n >= e.group.need
	}
	for k, h := range e.members {
		if h == nil || counts(k) {
			continue
		}
		if lost := h.lost(); lost.final || lost.early && !enough(lost.since) {
			return false
		}
	}
	return enough(time.Now())
}

// look ends the entry if too few members are held. It returns what tells its users, to be called without mu. It
// requires mu.
func (e *groupEntry) look() func() {
	if !e.begun || e.why != nil || e.kept(func(k int) bool { return e.members[k] != nil && e.members[k].Err() == nil }) {
		return func() {}
	}
	reason := ErrLost
	for _, h := range e.members {
		if h != nil && errors.Is(h.Err(), ErrClosed) {
			reason = ErrClosed
		}
	}
	return e.end(e.group.wrap(reason, "hold"))
}

// end makes the entry over. It requires mu.
func (e *groupEntry) end(why error) (tell func()) {
	if e.why != nil {
		return func() {}
	}
	e.why = why
	if e.timer != nil {
		e.timer.Stop()
	}
	over, cancel := e.over, e.cancel
	return func() {
		if cancel != nil {
			cancel(why)
		}
		if over != nil {
			close(over)
		}
	}
}

// memberEnded is told when a member is no longer held.
func (e *groupEntry) memberEnded(i int, h holding) {
	e.mu.Lock()
	tell := e.look()
	if e.why == nil && e.timer != nil && e.members[i] == h && !errors.Is(h.Err(), ErrClosed) {
		e.timer.Reset(0) // it is asked for again
	}
	e.mu.Unlock()
	tell()
}

// Err is that of a Hold.
func (e *groupEntry) Err() error {
	e.mu.Lock()
	tell := e.look()
	why := e.why
	e.mu.Unlock()
	tell()
	return why
}

// Done is that of a Hold.
func (e *groupEntry) Done() <-chan struct{} {
	e.watchAll()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over == nil {
		if e.why != nil {
			return closedChan
		}
		e.over = make(chan struct{})
	}
	return e.over
}

// Deadline is that of a Hold: until then enough members are held.
func (e *groupEntry) Deadline() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	var live, all []time.Time
	for _, h := range e.members {
		if h == nil {
			continue
		}
		all = append(all, h.Deadline())
		if h.Err() == nil {
			live = append(live, h.Deadline())
		}
	}
	if len(live) < e.group.need {
		live = all
	}
	if len(live) > 0 {
		slices.SortFunc(live, func(a, b time.Time) int { return b.Compare(a) })
		e.deadline = live[min(e.group.need, len(live))-1]
	}
	return e.deadline
}

// Token is that of a Hold.
func (e *groupEntry) Token() uint64 { return 0 }

// Unlock is that of a Hold.
func (e *groupEntry) Unlock(ctx context.Context) error {
	if !e.close() {
		return e.group.wrap(ErrNotHeld, "unlock")
	}
	return e.release(ctx)
}

func (e *groupEntry) notify(tell context.CancelCauseFunc, watched bool) error {
	if watched {
		e.watchAll()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel = tell
	return e.why
}

// lost of a group in a group is told from its beginning: which of its members were when is not kept.
func (e *groupEntry) lost() loss { return loss{early: time.Now().Before(e.Deadline())} }

func (e *groupEntry) renewSoon() {
	e.mu.Lock()
	members := slices.Clone(e.members)
	e.mu.Unlock()
	for _, h := range members {
		if h != nil {
			h.renewSoon()
		}
	}
}

func (e *groupEntry) locks() []*Lock { return e.group.all }

func (e *groupEntry) ownerOf(id nameKey) *owner {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.members {
		if h != nil && slices.ContainsFunc(h.locks(), func(l *Lock) bool { return l.nameKey == id }) {
			return h.ownerOf(id)
		}
	}
	return e.owner
}

func (e *groupEntry) leaked() {
	if !e.close() {
		return
	}
	e.mu.Lock()
	members := slices.Clone(e.members)
	e.mu.Unlock()
	for _, h := range members {
		if h != nil {
			h.leaked()
		}
	}
}

// close marks the entry as being unlocked. It returns false if it is already.
func (e *groupEntry) close() bool {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return false
	}
	tell := e.look()
	e.closed = true
	also := e.end(ErrNotHeld)
	e.mu.Unlock()
	tell()
	also()
	return true
}
