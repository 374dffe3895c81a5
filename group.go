package rlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// group is what [MultiLock] and [RedLock] have in common: several locks that are taken as one. It sends nothing by
// itself; its members do.
type group struct {
	what    string // it is, in errors
	members []Locker
	all     []*Lock // the leaves of the members
	need    int     // how many members must be held
	take    func(*groupRequest) (*groupEntry, error)
	err     error // what is wrong with the members

	mu   sync.Mutex
	open []*groupEntry // made by Lock and TryLock through this handle, and not unlocked
}

// newGroup makes a group of members, of which all are needed.
func newGroup(what string, members []Locker) *group {
	g := &group{members: members, need: len(members)}
	names := make([]string, 0, len(members))
	for i, m := range members {
		if m == nil || slices.ContainsFunc(m.leaves(), func(l *Lock) bool { return l == nil || l.client == nil }) ||
			len(m.leaves()) == 0 {
			g.err = fmt.Errorf("%w: lock %d of a %s is nil or of no client", ErrInvalidOption, i+1, what)
			continue
		}
		if inner := groupOf(m); inner != nil && inner.err != nil {
			g.err = inner.err
		}
		g.all = append(g.all, m.leaves()...)
		names = append(names, nameOf(m))
	}
	if len(members) == 0 {
		g.err = fmt.Errorf("%w: a %s of no locks", ErrInvalidOption, what)
	}
	g.what = fmt.Sprintf("%s of %s", what, strings.Join(names, ", "))
	return g
}

// groupOf returns the group that a member is, or nil.
func groupOf(m Locker) *group {
	switch m := m.(type) {
	case *MultiLock:
		return m.of()
	case *RedLock:
		return m.of()
	}
	return nil
}

// nameOf returns the name of a member, for errors.
func nameOf(m Locker) string {
	leaves := m.leaves()
	name := quote(leaves[0].name)
	if len(leaves) > 1 {
		name += " and others"
	}
	return name
}

// check returns what is wrong with the group or a member, before any is asked.
func (g *group) check(op string) error {
	if g == nil {
		return fmt.Errorf("%w: %s of a nil or zero group of locks", ErrInvalidOption, op)
	}
	if g.err != nil {
		return fmt.Errorf("%w (%s)", g.err, op)
	}
	for _, l := range g.all {
		if err := l.check(op); err != nil {
			return err
		}
	}
	return nil
}

// wrap says of an error to which operation on which group it came.
func (g *group) wrap(err error, op string) error { return fmt.Errorf("%w (%s %s)", err, op, g.what) }

func (g *group) leaves() []*Lock {
	if g == nil {
		return nil
	}
	return g.all
}

func (g *group) warn(message string, err error) {
	g.all[0].client.warn(message+": "+g.what, err)
}

// ownerIn returns the owner that ctx stands for when it asks for the members, or nil if it is none.
func (g *group) ownerIn(ctx context.Context) *owner {
	for _, l := range g.all {
		if o := l.ownerIn(ctx); o != nil {
			return o
		}
	}
	return nil
}

// same tells whether two handles are of the same locks, taken in the same way.
func (g *group) same(other *group) bool {
	return g.need == other.need && len(g.members) == len(other.members) &&
		slices.EqualFunc(g.all, other.all, func(a, b *Lock) bool { return a.key() == b.key() })
}

// takeOne is the take of a Locker that is a group.
func (g *group) takeOne(ctx context.Context, a acquisition, opts []AcquireOption) (holding, error) {
	e, err := g.acquire(ctx, a, opts)
	if err != nil {
		return nil, err // and no nil *groupEntry
	}
	return e, nil
}

// groupRequest is one acquisition of a group under way.
type groupRequest struct {
	acquisition
	terms
	group *group
	ctx   context.Context //nolint:containedctx // the call's own, for the length of the call
	owner *owner          // of the members that the context says no owner for
	plain bool            // nor for any
	start time.Time
}

func (g *group) acquire(ctx context.Context, a acquisition, opts []AcquireOption) (*groupEntry, error) {
	if err := g.check(a.op); err != nil {
		return nil, err
	}
	r := &groupRequest{acquisition: a, terms: terms{limited: a.try}, group: g, ctx: ctx, start: time.Now()}
	if err := r.apply(opts); err != nil {
		return nil, g.wrap(err, a.op)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", g.wrap(ErrNotAcquired, a.op), endOf(ctx))
	}
	if r.owner = g.ownerIn(ctx); r.owner == nil {
		r.owner, r.plain = a.group, a.group == nil
	}
	if r.owner == nil {
		r.owner = new(owner)
	}
	e, err := g.take(r)
	if err != nil {
		return nil, g.wrap(err, a.op)
	}
	if !a.byHold {
		g.remember(e)
		e.owner.rememberGroup(e)
	}
	return e, nil
}

// single tells whether there is one attempt and no waiting.
func (r *groupRequest) single() bool { return r.limited && r.wait == 0 }

// left returns how much of the wait is left.
func (r *groupRequest) left() time.Duration { return max(r.wait-time.Since(r.start), 0) }

// ask takes one member, or tries to.
func (r *groupRequest) ask(ctx context.Context, m Locker, try bool) (holding, error) {
	opts := make([]AcquireOption, 0, 2)
	if r.lease > 0 {
		opts = append(opts, Lease(r.lease))
	}
	if !try && r.limited {
		opts = append(opts, Wait(r.left()))
	}
	return m.take(ctx, acquisition{op: r.op, byHold: true, try: try, group: r.owner}, opts)
}

// rest pauses for a while by chance, up to most. It returns early when there is nothing left to wait for.
func (r *groupRequest) rest(most time.Duration, wake <-chan struct{}) {
	if r.limited {
		most = min(most, r.left())
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	closing := r.group.all[0].client.done
	if r.group.all[0].client.isClosed() {
		closing = nil // a red lock may go on without it
	}
	select {
	case <-timer.C:
	case <-wake:
	case <-r.ctx.Done():
	case <-closing:
	}
}

// unlock settles what Lock or TryLock took, as [Lock.Unlock] says.
func (g *group) unlock(ctx context.Context) error {
	if err := g.check("unlock"); err != nil {
		return err
	}
	o := g.ownerIn(ctx)
	for {
		e := g.soonest()
		if o != nil {
			e = o.latestGroup(g)
		}
		if e == nil {
			return g.wrap(ErrNotHeld, "unlock")
		}
		if e.close() {
			return e.release(ctx)
		}
		g.forget(e) // another goroutine is unlocking it
		e.owner.forgetGroup(e)
	}
}

// remember keeps an entry for its unlock. Of those that are lost and that nobody unlocks only the latest are kept.
func (g *group) remember(e *groupEntry) {
	if open := g.opened(); len(open) >= maxLost {
		if i := slices.IndexFunc(open, func(e *groupEntry) bool { return e.Err() != nil }); i >= 0 {
			g.forget(open[i])
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = append(g.open, e)
}

// opened returns what is open now.
func (g *group) opened() []*groupEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.open)
}

func (g *group) forget(e *groupEntry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = without(g.open, e)
}

// soonest returns the entry that an unlock without owner settles, or nil, as [Lock.soonest] does.
func (g *group) soonest() *groupEntry {
	open := g.opened()
	if len(open) == 0 {
		return nil
	}
	rank := func(e *groupEntry) int {
		switch lost := e.Err() != nil; {
		case e.plain && lost:
			return 0
		case e.plain:
			return 1
		case lost:
			return 2
		}
		return 3
	}
	return slices.MinFunc(open, func(a, b *groupEntry) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return a.Deadline().Compare(b.Deadline())
	})
}
