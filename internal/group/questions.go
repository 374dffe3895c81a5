package group

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
)

// questions is how the rounds of a red lock ask. The first round tries all members. Later ones ask those first that were not
// granted, and where waiters queue, stand in the queues, without holding any other member. Once one of them is granted, they ask
// the others too, and wait for a majority only a moment: meanwhile nobody has the use of the members that were granted.
type questions struct {
	round  int
	missed []bool // the members to ask first
	queued []bool // those of them whose queues to stand in
	stands bool   // there are such members
	mixed  bool   // there are others among those to ask first
}

// newQuestions returns those of the first round.
func newQuestions(g *Group) *questions {
	q := &questions{missed: make([]bool, len(g.members)), queued: make([]bool, len(g.members))}
	for i := range q.missed {
		q.missed[i] = true
	}
	return q
}

// standable reports whether a red lock may stand in the queue of a member. A group among the members has bounds of its own.
func standable(m client.Member) bool {
	l, ok := m.(interface{ Queues() bool })
	return ok && l.Queues()
}

// next prepares the next round after one that failed, and is over. It reports whether that stands in queues.
func (q *questions) next(a *acquisition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q.stands, q.mixed = false, false
	others := 0
	for i, m := range a.group.members {
		of := &a.members[i]
		refused := errors.Is(of.err, fault.ErrRefused) || of.asked // the round was over before it replied
		q.missed[i] = refused || of.err != nil || q.missed[i] && of.held == nil
		q.queued[i] = refused && standable(m)
		q.stands = q.stands || q.queued[i]
		q.mixed = q.mixed || q.missed[i] && !q.queued[i]
		if !q.missed[i] {
			others++
		}
	}
	// Without a queue to stand in, the next round asks all members. So it does if a majority was granted but lost before this round
	// ended: the request must not wait in the queues of the others then.
	if q.stands = q.stands && others < a.group.need; !q.stands {
		for i := range q.missed {
			q.missed[i], q.queued[i] = true, false
		}
	}
	return q.stands
}

// begin asks the first members of a round. It returns the others. stop ends waiting, and so the waits for members.
func (q *questions) begin(waiting context.Context, stop func(), a *acquisition, r *request) (later []int) {
	if q.stands {
		time.AfterFunc(r.stays().forAny(q.round, q.mixed), stop)
	}
	for i, m := range r.group.members {
		switch {
		case !q.missed[i]:
			later = append(later, i)
		case q.queued[i]:
			a.ask(waiting, i, q.waits(a, m, r))
		default:
			a.ask(waiting, i, a.terms(m, r.By, r.Single()))
		}
	}
	return later
}

// goOn asks the members that are left, once one of the first ones is granted.
func (q *questions) goOn(waiting context.Context, stop func(), a *acquisition, r *request, later []int) {
	time.AfterFunc(r.stays().forMajority(q.round), stop)
	for _, i := range later {
		m := r.group.members[i]
		t := a.terms(m, r.By, false)
		if standable(m) {
			t = q.waits(a, m, r)
		}
		a.ask(waiting, i, t)
	}
}

// waits returns the conditions under which a round stands in the queue of a member.
func (q *questions) waits(a *acquisition, m client.Member, r *request) client.Terms {
	t := a.terms(m, r.By, false)
	t.Limited, t.Detached = r.Limited, true
	if r.Limited {
		t.Wait = r.left()
	}
	return t
}
