package group

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// NewMulti returns a handle on all of the locks together. A lock that is given twice is taken once. A multi lock among the
// members counts as its members. The first verb reports an empty list or a nil lock.
func NewMulti(members []client.Member) *Group {
	const what = "multi lock"
	var flat []client.Member
	for _, m := range members {
		if inner, ok := m.(*Group); ok && inner != nil && inner.quorum == nil {
			flat = append(flat, inner.members...)
		} else {
			flat = append(flat, m)
		}
	}
	g := newGroup(what, flat)
	if g.err != nil {
		return g
	}
	return newGroup(what, slices.CompactFunc(inOrder(flat), func(a, b client.Member) bool {
		one, ok := a.(*client.Lock)
		two, also := b.(*client.Lock)
		return a == b || ok && also && one.ID() == two.ID()
	}))
}

// inOrder returns the members in the order in which every process takes them: by name, writers before readers, then as
// they were given. Equal members come together.
func inOrder(members []client.Member) []client.Member {
	first := func(m client.Member) client.ID { return m.Locks()[0].ID() }
	given := make(map[client.ID]int)
	for i, m := range members {
		if id := first(m); given[id] == 0 {
			given[id] = i + 1
		}
	}
	ordered := slices.Clone(members)
	slices.SortStableFunc(ordered, func(a, b client.Member) int {
		one, two := first(a), first(b)
		return cmp.Or(cmp.Compare(one.Name, two.Name), cmp.Compare(one.Side, two.Side), cmp.Compare(given[one], given[two]))
	})
	return ordered
}

// takeAll takes every member. It waits for one of them, and while it holds that, it waits for the others only a moment, if their
// waiters queue, or else tries them. If one is refused, it releases all, and waits for that one first.
func (r *request) takeAll(ctx context.Context) (*acquisition, error) {
	first := 0
	for round := 1; ; round++ {
		a := r.newAcquisition()
		failed, err := r.takeFrom(ctx, a, first, round)
		if err == nil && a.begin() {
			if !a.interrupted() {
				return a, nil
			}
			_ = a.giveUp(ctx, r)
			continue
		}
		if err != nil && failed != first {
			r.suspect(ctx, a, func(i int) bool { return i == failed && errors.Is(err, fault.ErrRefused) })
		}
		final := err != nil && ctx.Err() != nil                 // the member's error says why ctx ended
		if final && !r.Single() && !errors.Is(err, ctx.Err()) { // a member was refused just before
			err = r.ended(ctx, err)
		}
		released := a.giveUp(ctx, r)
		late := err == nil // a lease ran out while the others were taken
		if late {
			err, failed = fault.ErrLate, first
		}
		switch {
		case r.Single(), final, failed == first && !late:
			return nil, cleanedUp(err, released)
		case r.isOver():
			return nil, cleanedUp(r.ended(ctx, err), released)
		}
		first = failed
		if round > 1 && !queues(r.group.members[first]) { // two requests could repeatedly take members that the other one needs
			r.pause(rand.N(time.Millisecond<<min(round, 6)), nil)
		}
		if r.isOver() {
			return nil, r.ended(ctx, err)
		}
	}
}

// takeFrom waits for one member, and then takes the others in order. After an error, it returns the index of the member that it did not
// acquire. If the end of the wait cuts a question off, that question changes nothing: the error says what all members answered before.
func (r *request) takeFrom(ctx context.Context, a *acquisition, first, round int) (failed int, err error) {
	take := func(i int, most time.Duration) error {
		h, err := r.ask(ctx, i, most)
		if err == nil {
			a.add(i, h)
			return nil
		}
		if noReply(err) {
			_, said := r.outcome(ctx)
			if said = r.ended(ctx, said); said != nil && !sameClass(said, err) {
				return said
			}
		}
		return err
	}
	begun, most := time.Now(), unlimited
	if r.Single() {
		most = 0
	}
	if err := take(first, most); err != nil {
		return first, err
	}
	held := time.Now()
	for i, m := range r.group.members {
		if i == first {
			continue
		}
		most := time.Duration(0)
		switch {
		case r.Single() || !queues(m):
		case i < first:
			most = r.stays().before()
		default:
			most = max(r.stays().behind(round, held.Sub(begun))-time.Since(held), 0)
		}
		if err := take(i, most); err != nil {
			return i, err
		}
	}
	return 0, nil
}
