// Package group takes several locks as one: a multi lock takes all of them, a red lock takes a majority. It does so by what every
// lock offers: an attempt, a wait, an unlock, and a hold that tells its end.
//
// The order of mutexes is: client.Hold, acquisition, the lock table.
package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/table"
)

// Group is a handle on several locks that are taken as one. It holds nothing by itself. It is made by [NewMulti] or
// [NewRed], and is safe for concurrent use. A nil Group has no locks, and its verbs return [fault.ErrInvalidOption].
type Group struct {
	description string // its name in errors and log lines
	members     []client.Member
	locks       []*client.Lock // that the members are, one each
	need        int            // how many members must be held
	red         bool           // a majority is enough
	err         error          // of the members, or nil
}

var _ client.Member = (*Group)(nil)

// NewMulti returns a handle on all of the locks together. It takes them in the order of their names, writers before readers, and one that is
// given twice once. The first verb reports an empty list or a nil lock.
func NewMulti(members []client.Member) *Group { return newGroup("multi lock", members, false) }

// NewRed returns a handle on a majority of the locks. The first verb reports an empty list, a nil lock, or the same lock twice.
func NewRed(members []client.Member) *Group { return newGroup("red lock", members, true) }

func newGroup(what string, members []client.Member, red bool) *Group {
	g, seen := &Group{red: red}, make(map[client.ID]bool)
	if len(members) == 0 {
		g.err = fmt.Errorf("%w: a %s has no locks", fault.ErrInvalidOption, what)
	}
	for i, m := range members {
		switch l := lockOf(m); {
		case l.Client() == nil:
			g.err = fmt.Errorf("%w: lock %d of a %s is nil or has no client", fault.ErrInvalidOption, i+1, what)
		case !seen[l.ID()]:
			seen[l.ID()] = true
			g.members = append(g.members, m)
		case red:
			g.err = fmt.Errorf("%w: a red lock has the lock %s twice, which would count twice", fault.ErrInvalidOption, fault.Quote(l.Name()))
		}
	}
	if g.need = len(g.members)/2 + 1; !red {
		g.need = len(g.members)
		slices.SortStableFunc(g.members, func(a, b client.Member) int {
			one, two := lockOf(a).ID(), lockOf(b).ID()
			return cmp.Or(cmp.Compare(one.Name, two.Name), cmp.Compare(one.Side, two.Side))
		})
	}
	var names []string
	for _, m := range g.members {
		g.locks, names = append(g.locks, lockOf(m)), append(names, client.QuoteName(m))
	}
	g.err = cmp.Or(g.err, apart(g.locks))
	g.description = fmt.Sprintf("%s of %s", what, cmp.Or(strings.Join(names, ", "), "no locks"))
	return g
}

// lockOf returns the lock that a member is.
func lockOf(m client.Member) *client.Lock { return m.Locks()[0] }

// apart returns an error if two locks of one client have one name and belong to different families: they would wait for each other.
func apart(locks []*client.Lock) error {
	type place struct {
		table *table.Table
		name  string
	}
	keys := make(map[place]table.Key)
	for _, l := range locks {
		key := l.ID().Key
		at := place{key.Table, key.Name}
		if other, ok := keys[at]; ok && other != key {
			return fmt.Errorf("%w: locks of different families have the name %s, and would wait for each other",
				fault.ErrInvalidOption, fault.Quote(l.Name()))
		}
		keys[at] = key
	}
	return nil
}

var errOneLock = fmt.Errorf("%w: a group of locks has no permits, and cannot be kept by AtLeast", fault.ErrInvalidOption)

// check returns what is wrong with a call, before anything is sent. Nil means that nothing is.
func (g *Group) check(ctx context.Context, t *client.Terms) error {
	if g == nil {
		return &fault.OpError{Op: t.Op, What: "of a nil or zero group of locks", Err: fault.ErrInvalidOption}
	}
	for _, l := range g.locks {
		if err := l.Check(t.Op); g.err == nil && err != nil {
			return err
		}
	}
	err := cmp.Or(g.err, t.Err)
	switch {
	case err != nil:
	case t.AtLeast != 0 || t.Permits != 0:
		err = errOneLock
	case ctx.Err() != nil:
		err = client.EndOf(ctx)
	default:
		return nil
	}
	return g.wrap(err, t.Op)
}

// wrap adds the operation and the group to an error.
func (g *Group) wrap(err error, op string) error {
	return &fault.OpError{Op: op, What: g.description, Err: err}
}

// Locks returns the locks of the group, in the order in which it takes them. The caller must not change the slice.
func (g *Group) Locks() []*client.Lock {
	if g == nil {
		return nil
	}
	return g.locks
}

// Log logs what happened to the group, through the client of its first lock.
func (g *Group) Log(m *notice.Message, err error) {
	g.locks[0].Client().LogHere(notice.Entry{Event: notice.LogOnly, Lock: g.description, Message: m, Err: err})
}

// Text returns the description of the group, given what it is.
func (g *Group) Text(what string) string {
	if g == nil {
		return "no " + what
	}
	return g.description
}

// same reports whether two handles are for the same locks, taken in the same way.
func (g *Group) same(other *Group) bool {
	return g.err == nil && other.err == nil && g.red == other.red &&
		slices.EqualFunc(g.locks, other.locks, func(a, b *client.Lock) bool { return a.ID() == b.ID() })
}

// Take acquires the group, under the terms of a verb. After an error nothing is held: the acquired members are released, and
// a member that is granted later is released in the background.
func (g *Group) Take(ctx context.Context, t client.Terms) (client.Held, error) {
	seen, r := g.span(ctx, &t), &request{Terms: t, group: g}
	r.Member, r.Group = true, seen
	if err := g.check(ctx, &t); err != nil {
		seen.End(report.Acquired{}, err)
		return nil, err
	}
	a, err := r.acquire(ctx)
	if err != nil {
		err = g.wrap(err, t.Op)
		seen.End(report.Acquired{}, err)
		return nil, err // not a nil *acquisition
	}
	seen.End(report.Acquired{By: true, Reentered: a.reentered}, nil)
	return a, nil
}

// span begins to observe an acquisition of the group, through the client of its first lock whose client is observed.
func (g *Group) span(ctx context.Context, t *client.Terms) *report.Span {
	for _, l := range g.Locks() {
		if reports := l.Client().Reports(); reports != nil {
			kind := "multi"
			if g.red {
				kind = "red"
			}
			return reports.Begin(ctx, t.Started(g.description, kind), nil)
		}
	}
	return nil
}

// alongside runs a job for a member on another goroutine, for which the Close of its client waits.
func (g *Group) alongside(i int, job func()) {
	if c := g.locks[i].Client(); c.Retired() { // it would run the job in place
		c.Aside(job)
	} else {
		c.Background(job)
	}
}

// each carries out calls for the members, side by side, and passes on the error of each. It returns when enough has said so, and the others
// have had some time, or when done is closed, or all calls are over. A nil call is that of a member that is not held. It returns the errors,
// also of calls that are not over, and whether there was enough.
func (g *Group) each(calls []func() error, rest time.Duration, done <-chan struct{}, enough func(i int, err error) bool) ([]error, bool) {
	type result struct {
		member int
		err    error
	}
	results, errs, running := make(chan result, len(calls)), make([]error, len(calls)), 0
	for i, call := range calls {
		if call == nil {
			continue
		}
		running++
		errs[i] = fault.ErrNoAnswer
		g.alongside(i, func() { results <- result{i, call()} })
	}
	var late <-chan time.Time // once there is enough
	for ; running > 0; running-- {
		var r result
		select {
		case r = <-results:
		default:
			select {
			case r = <-results:
			case <-late:
				return errs, true
			case <-done:
				return errs, false
			}
		}
		if errs[r.member] = r.err; late == nil && enough(r.member, r.err) {
			late = time.After(rest)
		}
	}
	return errs, late != nil
}
