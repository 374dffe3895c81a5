package rlock

import (
	"context"
	"errors"
	"fmt"
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
	members []holding // as in group.members; nil: not held
	errs    []error   // of those that are not held, why
	asked   []bool    // those that have been asked and have not answered
	changed chan struct{}

	begun  bool  // enough members were held, once
	why    error // it is over; nil: it is not
	closed bool  // unlocked, or being unlocked, or given up
	over   chan struct{}
	cancel context.CancelCauseFunc
	// watched tells that the holder will be told of a loss. Otherwise the members whose loss it is log that.
	watched bool
	timer   *time.Timer // asks again for the members that are not held; nil: nobody does
}

var _ holding = (*groupEntry)(nil)

func (r *groupRequest) newEntry() *groupEntry {
	n := len(r.group.members)
	return &groupEntry{
		group: r.group, owner: r.owner, plain: r.plain, renewed: r.lease == 0,
		members: make([]holding, n), errs: make([]error, n), asked: make([]bool, n), changed: make(chan struct{}, 1),
	}
}

// add takes in that a member is held. It refuses when the entry is over: then the member must be given back.
func (e *groupEntry) add(i int, h holding) bool {
	e.mu.Lock()
	// First whether enough were held until now: what was lost for a moment is lost for good.
	tell := e.look()
	added := !e.closed && e.why == nil
	if added {
		e.members[i], e.errs[i] = h, nil
	}
	e.mu.Unlock()
	tell()
	if added {
		e.watch(i, h)
	}
	return added
}

// watch has the end of a member reported.
func (e *groupEntry) watch(i int, h holding) {
	e.mu.Lock()
	watched := e.watched
	e.mu.Unlock()
	if h.notify(func(error) { e.memberEnded(i, h) }, watched) != nil {
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

// look ends the entry if too few members are held. It returns what tells its users, to be called without mu. It
// requires mu.
func (e *groupEntry) look() func() {
	if !e.begun || e.why != nil || e.live() >= e.group.need {
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
		if over != nil {
			close(over)
		}
		if cancel != nil {
			cancel(why)
		}
	}
}

// memberEnded is told when a member is no longer held.
func (e *groupEntry) memberEnded(i int, h holding) {
	e.mu.Lock()
	tell := e.look()
	if e.why == nil && e.timer != nil && e.members[i] == h {
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
	slices.SortFunc(live, func(a, b time.Time) int { return b.Compare(a) })
	return live[min(e.group.need, len(live))-1]
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

// release unlocks all members of a closed entry. It is done when as many as are needed to hold the group were released,
// for then nobody else held it meanwhile.
func (e *groupEntry) release(ctx context.Context) error {
	g := e.group
	g.forget(e)
	e.owner.forgetGroup(e)
	e.mu.Lock()
	members, errs, why := slices.Clone(e.members), slices.Clone(e.errs), e.why
	e.mu.Unlock()
	if g.unlockAll(ctx, members, errs) >= g.need {
		return nil
	}
	err := g.failure(errs)
	if errors.Is(why, ErrLost) && !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return g.wrap(err, "unlock")
}

// unlockAll unlocks members, and notes their errors. It returns how many it has released. When they are enough to let go
// of the group it waits for the others a moment longer, and leaves those that hang to themselves.
func (g *group) unlockAll(ctx context.Context, members []holding, errs []error) (released int) {
	type result struct {
		member int
		err    error
	}
	results := make(chan result, len(members))
	running := 0
	unlock := func(i int) {
		if h := members[i]; h != nil {
			running++
			h.locks()[0].client.background(func() { results <- result{i, h.Unlock(ctx)} })
		}
	}
	collect := func(enough int, patience <-chan time.Time) {
		for running > 0 && released < enough {
			select {
			case r := <-results:
				running--
				if errs[r.member] = r.err; r.err == nil {
					released++
				}
			case <-patience:
				return
			}
		}
	}
	all := g.need == len(members)
	for i := range members {
		if i > 0 || !all {
			unlock(i)
		}
	}
	if all { // the first one comes last: it is the one that others wait for
		collect(len(members), nil)
		unlock(0)
	}
	collect(g.need, nil)
	if running > 0 {
		moment := time.NewTimer(minPatience)
		defer moment.Stop()
		collect(len(members), moment.C)
	}
	return released
}

// failure makes one error of those of the members.
func (g *group) failure(errs []error) error {
	if g.need == len(g.members) {
		return errors.Join(errs...)
	}
	return &QuorumError{Need: g.need, Errors: g.named(errs)}
}

// named says of the errors of members to which they belong.
func (g *group) named(errs []error) []error {
	named := make([]error, len(errs))
	for i, err := range errs {
		if err != nil {
			named[i] = fmt.Errorf("member %d (%s): %w", i+1, nameOf(g.members[i]), err)
		}
	}
	return named
}

// giveUp unlocks what has been taken of an entry that is not wanted, detached from ctx, and waits for that until ctx
// ends. What members are still being asked for is given back when they answer.
func (e *groupEntry) giveUp(ctx context.Context) error {
	e.close()
	e.mu.Lock()
	members := slices.Clone(e.members)
	e.mu.Unlock()
	unlocked := make(chan error, 1)
	e.group.all[0].client.background(func() {
		errs := make([]error, len(members))
		e.group.unlockAll(context.WithoutCancel(ctx), members, errs)
		errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, ErrNotHeld) }) // it ran out meanwhile
		unlocked <- errors.Join(errs...)
	})
	select {
	case err := <-unlocked:
		return err
	case <-ctx.Done():
		return nil
	}
}
