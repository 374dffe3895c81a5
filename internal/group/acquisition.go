package group

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/table"
)

// acquisition is one successful acquisition of a group, which one unlock ends. It lasts while enough members are held.
type acquisition struct {
	conditions
	ending

	group *Group
	seen  *observe.Span // nil means that nobody observes it
	said  *account

	mu      sync.Mutex
	members []membership  // as in group.members
	changed chan struct{} // has a token when a member has replied
	stop    func()        // ends the waits for members of a red lock; nil means that there are none
	timer   *time.Timer   // asks again for the members that are not held; nil means that they are not asked again

	deadline time.Time   // the latest one that was returned
	begun    bool        // enough members were held, once
	why      error       // it is over; nil means that it is not
	stopping bool        // the client of a member shuts down: the context has ended, although the acquisition may not be over
	closed   atomic.Bool // unlocked, or being unlocked, or given up; others may read it without mu
}

// conditions are those under which an acquisition was made. They do not change.
type conditions struct {
	as       [][]owner.Who // for whom the locks of each member are acquired
	owner    *owner.Owner  // whose unlock ends it
	by       *atomic.Bool  // the flag of the hold that made it that owner's, or nil
	plain    bool          // made without an owner in the context
	renewed  bool          // members that are not held are asked again
	lease    time.Duration // of the members; zero means the watchdog timeout of their clients
	again    bool          // a red lock has acquired it again, as a member
	reenters bool          // a client shut down before any member was asked, so its members are re-entered or not held
}

// membership is what an acquisition knows about one member of its group.
type membership struct {
	held    client.Held   // nil means not held
	since   clock.Instant // when it joined an acquisition that was held by then; zero means before
	weighed client.Held   // the lost member whose loss need not be weighed again
	err     error         // why it is not held
	asked   bool          // it has been asked and has not replied
	had     bool          // the owner held it before any was asked; false if nobody observes the acquisition
}

// ending says who is told of the end of an acquisition, and what. The acquisition's mutex guards it.
type ending struct {
	over      chan struct{} // nil means that nobody has asked for it
	cancel    context.CancelCauseFunc
	quiet     bool // an outer group logs a loss
	witnessed bool // the observers are told
	leaked    bool // it was given up because the program cannot unlock it any more
}

var _ client.Held = (*acquisition)(nil)

func (r *request) newAcquisition() *acquisition {
	n := len(r.group.members)
	stopping := func(l *client.Lock) bool { return l.Client().IsStopping() }
	a := &acquisition{group: r.group, seen: r.seen, said: r.said, members: make([]membership, n), changed: make(chan struct{}, 1)}
	a.conditions = conditions{
		as: make([][]owner.Who, n), plain: r.plain, renewed: r.Renews(), lease: r.Lease, again: r.Again,
		reenters: slices.ContainsFunc(r.group.locks, stopping),
	}
	a.owner, a.by = r.who.Now()
	for i := range a.as {
		a.as[i] = r.as(i)
		a.members[i].had = r.had != nil && r.had[i]
	}
	r.made = a
	return a
}

// add records that a member is held. It reports false when the acquisition is over: then the caller must release the
// member.
func (a *acquisition) add(i int, h client.Held) bool {
	a.mu.Lock()
	// Check first that enough members were held until now. An acquisition that was lost once stays lost.
	tell := a.look()
	added := !a.closed.Load() && a.why == nil
	var others []client.Held
	if added {
		m := &a.members[i]
		if m.held, m.err = h, nil; a.begun {
			m.since = clock.Now()
			others = a.heldNow()
		}
	}
	a.mu.Unlock()
	tell()
	if added {
		a.follow(i, h)
	}
	for k, other := range others { // a loss from now on must be known to come after this member joined
		if k != i && other != nil {
			other.RenewSoon()
		}
	}
	return added
}

// follow makes a member report its end to the acquisition.
func (a *acquisition) follow(i int, h client.Held) {
	tell := func(why error) { a.memberEnded(i, h, why) }
	if _, ok := h.(*acquisition); ok { // an inner group may report its end while a.mu is held
		tell = func(why error) { clientOf(h).Aside(func() { a.memberEnded(i, h, why) }) }
	}
	if why := h.Notify(tell, true); why != nil {
		a.memberEnded(i, h, why)
	}
}

// begin makes the acquisition held if enough members are, each with enough of its lease left. It reports whether they are.
func (a *acquisition) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.members { // what was lost before the beginning does not matter
		if h := m.held; h != nil && h.Err() != nil {
			a.members[i].weighed = h
		}
	}
	a.begun = a.count(a.lasts) >= a.group.need
	return a.begun
}

// interrupted reports whether the client of a member began to shut down while the members were asked. Then they must be
// asked again, because only an owner that re-enters may still have them.
func (a *acquisition) interrupted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopping && !a.reenters
}

// count counts the members of a sort. a.mu must be held.
func (a *acquisition) count(fits func(int) bool) int {
	n := 0
	for i := range a.members {
		if fits(i) {
			n++
		}
	}
	return n
}

// holds reports whether a member is held now. a.mu must be held.
func (a *acquisition) holds(i int) bool {
	h := a.members[i].held
	return h != nil && h.Err() == nil
}

// lasts reports whether a member is held now, with so much of its lease left that the group may begin. a.mu must be held.
func (a *acquisition) lasts(i int) bool {
	h := a.members[i].held
	return a.holds(i) && time.Until(h.Deadline()) >= table.Least(cmp.Or(a.lease, clientOf(h).Config().Table.WatchdogTimeout), a.renewed)
}

// hadQuorum reports whether the counted members, all of which are held now, have been enough since the beginning. A lost
// member may have been lost since its last confirmation. From then on, only the members that were held by then excluded
// others. a.mu must be held.
func (a *acquisition) hadQuorum(counts func(int) bool) bool {
	enough := func(since clock.Instant) bool {
		return a.count(func(i int) bool { return counts(i) && a.members[i].since <= since }) >= a.group.need
	}
	for i, m := range a.members {
		h := m.held
		if h == nil || counts(i) || m.weighed == h {
			continue
		}
		switch loss := h.Loss(); {
		case loss.Final || loss.Early && !enough(loss.Since):
			return false
		case loss.Early || errors.Is(h.Err(), fault.ErrLost): // the loss of any other is not known yet: it is being unlocked, for example
			a.members[i].weighed = h
		}
	}
	return enough(clock.Now())
}

// look ends the acquisition if too few members are held. The caller must call the returned function without a.mu: it
// reports the end to the users. a.mu must be held.
func (a *acquisition) look() (tell func()) {
	if !a.begun || a.why != nil || a.hadQuorum(a.holds) {
		return func() {}
	}
	return a.end(a.group.wrap(a.reason(), "hold"))
}

// reason returns why too few members are held: why a member was lost (the last of them in their order), or else that a client is
// closed. a.mu must be held.
func (a *acquisition) reason() error {
	var lost, closed error
	for _, h := range a.heldNow() {
		if h == nil {
			continue
		}
		err := h.Err()
		var op *fault.OpError
		switch {
		case errors.Is(err, fault.ErrClosed):
			closed = fault.ErrClosed
		case errors.Is(err, fault.ErrLost):
			if lost = fault.ErrLost; errors.As(err, &op) {
				lost = op.Err
			}
		}
	}
	return cmp.Or(lost, closed, fault.ErrLost)
}

// end ends the acquisition. The caller must call the returned function without a.mu. a.mu must be held.
func (a *acquisition) end(why error) (tell func()) {
	if a.why != nil {
		return func() {}
	}
	a.setDeadline()
	a.why = why
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.stop != nil {
		a.stop() // a member that is not held is no longer needed
	}
	over, cancel := a.over, a.cancel
	logs := a.renewed && !a.quiet && errors.Is(why, fault.ErrLost)
	told := a.tellEnd()
	return func() {
		told()
		if cancel != nil {
			cancel(why)
		}
		if over != nil {
			close(over)
		}
		if logs { // its members do not
			clientOf(a.group).Log(a.group.entry(notice.Lost, notice.LogLost, why))
		}
	}
}

// memberEnded is called when a member is no longer held, or when its client shuts down.
func (a *acquisition) memberEnded(i int, h client.Held, why error) {
	a.mu.Lock()
	tell := a.look()
	var stop context.CancelCauseFunc
	if errors.Is(why, fault.ErrClosed) && h.Err() == nil && a.why == nil { // a red lock survives a Close
		a.stopping, stop = true, a.cancel
	}
	if a.why == nil && a.timer != nil && a.members[i].held == h && !errors.Is(why, fault.ErrClosed) {
		a.timer.Reset(0) // the member is asked again
	}
	a.mu.Unlock()
	tell()
	if stop != nil {
		stop(fault.ErrClosed)
	}
}

// close marks the acquisition as being unlocked, or as leaked: the program cannot unlock it any more. It reports false if it is already.
func (a *acquisition) close(leaked bool) bool {
	a.mu.Lock()
	if a.closed.Load() {
		a.mu.Unlock()
		return false
	}
	tell := a.look()
	a.closed.Store(true)
	a.leaked = leaked
	also := a.end(fault.ErrUnlockedAlready)
	a.mu.Unlock()
	tell()
	also()
	return true
}

// held returns the members that are or were held. The others are nil.
func (a *acquisition) held() []client.Held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heldNow()
}

// heldNow is held. a.mu must be held.
func (a *acquisition) heldNow() []client.Held {
	all := make([]client.Held, len(a.members))
	for i := range all {
		all[i] = a.members[i].held
	}
	return all
}
