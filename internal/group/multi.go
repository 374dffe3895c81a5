package group

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
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

// takeAll takes every member. It waits for one of them, and holds nothing meanwhile. While it holds that, it waits for the others only a
// moment, if their waiters queue, or else tries them. If one is refused, it releases all, and waits for that one first.
func (r *request) takeAll(ctx context.Context) (*acquisition, error) {
	first := 0
	for round := 1; ; round++ {
		r.newAcquisition()
		failed, err := r.takeFrom(ctx, first, round)
		a := r.made
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

// takeFrom waits for one member, and then takes the others. It tries all locks among these together, once it has the first one. In the first
// round it does so at the same time as it asks for that, unless it had to wait for that the last time: then it would disturb others. A lock
// that refuses, and whose waiters queue, has a moment, one after the other. After an error, it returns the index of the first member in this
// order that it did not acquire. What those behind that one answered does not count. If the end of the wait cuts a question off, that
// question changes nothing: the error says what all members answered before.
func (r *request) takeFrom(ctx context.Context, first, round int) (failed int, err error) {
	begun, most := time.Now(), unlimited
	if r.Single() {
		most = 0
	}
	order, together := r.order(first)
	var tries map[int]*try
	if round > 1 || len(together) < 2 || together[0] != first || r.group.busy.Load() {
		err = r.ask(ctx, first, most)
	} else {
		tries = r.takeTogether(ctx, together, most)
		err = tries[first].answer(r, first)
	}
	if err != nil {
		return first, r.failed(ctx, err)
	}
	held := time.Now()
	if round == 1 {
		r.group.busy.Store(r.made.Waited())
	}
	together = slices.DeleteFunc(together, func(i int) bool { return i == first })
	if len(tries) < 2 && len(together) > 1 {
		tries = r.takeTogether(ctx, together, 0)
	}
	for _, i := range order[1:] {
		most, ask := time.Duration(0), true
		switch {
		case r.Single() || !queues(r.group.members[i]):
		case i < first:
			most = r.stays().before()
		default:
			most = max(r.stays().behind(round, held.Sub(begun))-time.Since(held), 0)
		}
		if t := tries[i]; t != nil {
			r.said.asked(i, t.terms.Progress, t.sent)
			err = t.answer(r, i)
			ask = most > 0 && errors.Is(err, fault.ErrRefused)
		}
		if ask {
			err = r.ask(ctx, i, most)
		}
		if err != nil {
			return i, r.failed(ctx, err)
		}
	}
	return 0, nil
}

// failed returns the error of a round, given that of the member that failed.
func (r *request) failed(ctx context.Context, err error) error {
	if noReply(err) {
		_, said := r.outcome(ctx)
		if said = r.ended(ctx, said); said != nil && !sameClass(said, err) {
			return said
		}
	}
	return err
}

// order returns the members in the order in which a round takes them, and those of them that it asks together: all locks, but for the other
// side of a lock that is among them, which depends on how that one went.
func (r *request) order(first int) (order, together []int) {
	order = []int{first}
	for i := range r.group.members {
		if i != first {
			order = append(order, i)
		}
	}
	names := make(map[table.Key]bool)
	for _, i := range order {
		if l, ok := r.group.members[i].(*client.Lock); ok && !names[l.ID().Key] {
			together = append(together, i)
			names[l.ID().Key] = true
		}
	}
	return order, together
}

// try is a question to a member that was asked together with others, and its answer.
type try struct {
	terms client.Terms
	sent  clock.Instant
	held  client.Held
	err   error
}

// answer tells the account of the request what a member answered, and returns why it was not acquired.
func (t *try) answer(r *request, i int) error {
	r.said.took(i, t.terms.Progress, t.err == nil && t.held.Waited(), t.err)
	return t.err
}

// takeTogether asks these locks together. It waits for the first one for most, and only tries the others. If the first one has to wait, what
// the others got is given back meanwhile, and they have no answer.
func (r *request) takeTogether(ctx context.Context, members []int, most time.Duration) map[int]*try {
	locks, terms, sent := make([]*client.Lock, len(members)), make([]client.Terms, len(members)), clock.Now()
	for k, i := range members {
		locks[k], _ = r.group.members[i].(*client.Lock)
		terms[k], most = r.terms(i, most), 0
	}
	r.said.asked(members[0], terms[0].Progress, sent)
	var given chan struct{}
	held, errs := client.TakeTogether(ctx, locks, terms, func(others []client.Held) {
		for k, h := range others {
			if h != nil {
				r.made.add(members[k+1], h)
			}
		}
		r.group.busy.Store(true) // also if it ends without the first one
		back, over := r.made, make(chan struct{})
		r.newAcquisition()
		given = over
		runner(r.group.locks).Background(func() {
			defer close(over)
			_ = back.giveUp(ctx, r)
		})
	})
	tries := make(map[int]*try)
	for k, h := range held {
		tries[members[k]] = &try{terms[k], sent, h, errs[k]}
		if errs[k] == nil {
			r.made.add(members[k], h)
		}
	}
	if given != nil { // the locks are asked for again
		<-given
	}
	return tries
}
