// Package group takes several locks as one: a multi lock takes all of them, a red lock takes a majority. A group itself
// sends nothing. Its members send the commands.
//
// The order of mutexes is: client.Hold, an outer group's acquisition, an inner group's, the lock table. The other mutexes of
// this package are leaves: a goroutine that holds one takes no other mutex.
package group

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/owner"
)

// Group is a handle on several locks that are taken as one. It holds nothing by itself. It is made by [NewMulti] or
// [NewRed], and is safe for concurrent use. A nil Group has no locks, and its verbs return [fault.ErrInvalidOption].
type Group struct {
	description string // its name in errors and log lines
	members     []client.Member
	locks       []*client.Lock // the base locks of the members
	need        int            // how many members must be held
	err         error          // the error of the members, or nil
	// quorum makes the error of a red lock that could not acquire or release enough members. It is nil for a multi lock.
	quorum func(need int, errs []error) error

	open owner.List[*acquisition] // taken by Lock and TryLock through this handle, and not unlocked
	// unlocked tells a second unlock from one without a lock: it has the latest owner that unlocked through this handle.
	unlocked atomic.Pointer[owner.Owner]
	locked   atomic.Bool // through this handle
	busy     atomic.Bool // of a multi lock: the latest request had to wait for its first member
}

var _ client.Member = (*Group)(nil)

// newGroup returns a group that needs all of its members.
func newGroup(what string, members []client.Member) *Group {
	g := &Group{members: members, need: len(members)}
	names := make([]string, 0, len(members))
	for i, m := range members {
		if !usable(m) {
			g.err = fmt.Errorf("%w: lock %d of a %s is nil or has no client", fault.ErrInvalidOption, i+1, what)
			continue
		}
		if inner, ok := m.(*Group); ok && inner.err != nil {
			g.err = inner.err
		}
		g.locks = append(g.locks, m.Locks()...)
		names = append(names, client.QuoteName(m))
	}
	if g.err == nil {
		g.err = apart(g.locks)
	}
	if len(members) == 0 {
		g.err = fmt.Errorf("%w: a %s has no locks", fault.ErrInvalidOption, what)
	}
	g.description = fmt.Sprintf("%s of %s", what, cmp.Or(strings.Join(names, ", "), "no locks"))
	return g
}

// usable reports whether a member has base locks, all of which have a client.
func usable(m client.Member) bool {
	if m == nil {
		return false
	}
	locks := m.Locks()
	return len(locks) > 0 &&
		!slices.ContainsFunc(locks, func(l *client.Lock) bool { return l == nil || l.Client() == nil })
}

// labelOf returns the name of a member, or the description of a group, for an observer.
func labelOf(m client.Member) string {
	if g, ok := m.(*Group); ok {
		return g.description
	}
	return m.Locks()[0].Name()
}

// locker is a member, or an acquisition of one.
type locker interface{ Locks() []*client.Lock }

// clientOf returns the client of a member. A group among the members goes by its first base lock.
func clientOf(m locker) *client.Client { return m.Locks()[0].Client() }

var errOneLock = fmt.Errorf("%w: a group of locks has no permits, and cannot be kept by AtLeast", fault.ErrInvalidOption)

// Check returns the error of the group or of one of its locks, before anything is sent. Nil means that all are valid.
func (g *Group) Check(op string) error {
	if g == nil {
		return &fault.OpError{Op: op, What: "of a nil or zero group of locks", Err: fault.ErrInvalidOption}
	}
	if g.err != nil {
		return g.wrap(g.err, op)
	}
	for _, l := range g.locks {
		if err := l.Check(op); err != nil {
			return err
		}
	}
	return nil
}

// rule returns what makes the errors of the group.
func (g *Group) rule() *rule {
	r := &rule{need: g.need, quorum: g.quorum}
	for _, m := range g.members {
		r.names = append(r.names, client.QuoteName(m))
	}
	return r
}

// wrap adds the operation and the group to an error.
func (g *Group) wrap(err error, op string) error {
	return &fault.OpError{Op: op, What: g.description, Err: err}
}

// Locks returns the base locks of the group, in the order in which it takes them. The caller must not change the slice.
func (g *Group) Locks() []*client.Lock {
	if g == nil {
		return nil
	}
	return g.locks
}

// Members returns the members of the group, in the order in which it takes them. The caller must not change the slice.
func (g *Group) Members() []client.Member {
	if g == nil {
		return nil
	}
	return g.members
}

// Log logs what happened to the group, through the client of its first lock.
func (g *Group) Log(m *notice.Message, err error) {
	clientOf(g).LogHere(g.entry(notice.LogOnly, m, err))
}

func (g *Group) entry(e notice.Event, m *notice.Message, err error) notice.Entry {
	return notice.Entry{Event: e, Lock: g.description, Message: m, Err: err, Whole: true}
}

// Text returns the description of the group, given what it is.
func (g *Group) Text(what string) string {
	if g == nil {
		return "no " + what
	}
	return g.description
}

// LogValue implements [slog.LogValuer].
func (g *Group) LogValue() slog.Value {
	if g == nil {
		return slog.StringValue("no locks")
	}
	return slog.GroupValue(slog.String("name", g.description), slog.String("kind", g.kind()))
}

func (g *Group) kind() string {
	if g.quorum != nil {
		return "red"
	}
	return "multi"
}

// Take acquires the group, under the terms of a verb. After an error nothing is held: the acquired members are released, and
// a member that is granted later is released in the background.
func (g *Group) Take(ctx context.Context, t client.Terms) (client.Held, error) {
	seen := g.span(ctx, &t)
	a, err := g.take(ctx, t, seen)
	t.Group.SawMember(seen)
	a.observe(seen, err)
	if err != nil {
		return nil, err // not a nil *acquisition
	}
	if !t.ByHold {
		g.remember(a)
	}
	return a, nil
}

// take is Take, for those who may observe it.
func (g *Group) take(ctx context.Context, t client.Terms, seen *observe.Span) (*acquisition, error) {
	if err := g.Check(t.Op); err != nil {
		return nil, err
	}
	if t.Err == nil && (t.AtLeast != 0 || t.Permits != 0) {
		t.Err = errOneLock
	}
	if t.Err != nil {
		return nil, g.wrap(t.Err, t.Op)
	}
	if ctx.Err() != nil {
		return nil, g.wrap(client.EndOf(ctx), t.Op)
	}
	r, cancel := g.newRequest(ctx, t)
	defer cancel()
	r.seen = seen
	take := r.takeAll
	if g.quorum != nil {
		take = r.takeMajority
		if (seen != nil || t.Group != nil) && !r.plain {
			r.had = r.holdsWhich(g)
		}
	}
	over := false
	defer func() {
		if !over { // a method of the user's context has panicked, or a hook has ended the goroutine
			r.abandon()
		}
	}()
	a, err := take(ctx)
	if over = true; err != nil {
		return nil, g.wrap(err, t.Op)
	}
	return a, nil
}

// span begins to observe an acquisition of the group, through the client of its first lock whose client is observed.
func (g *Group) span(ctx context.Context, t *client.Terms) *observe.Span {
	if t.Again || g == nil {
		return nil
	}
	for _, l := range g.locks {
		if c := l.Client(); c != nil && c.Reports() != nil {
			return c.Reports().Begin(ctx, t.Started(g.description, g.kind()), t.Group)
		}
	}
	return nil
}
