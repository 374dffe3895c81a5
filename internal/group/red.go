package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/verdict"
)

// NewRed returns a handle on a majority of the locks. quorum makes the error of an acquisition or a release that failed for
// too many members: errs has an entry for each member, in order, and nil means that the member did not fail. The first verb
// reports an empty list, a nil lock, or the same lock twice.
func NewRed(members []lease.Member, quorum func(need int, errs []error) error) *Group {
	g := newGroup("red lock", slices.Clone(members))
	g.need = len(members)/2 + 1
	g.quorum = quorum
	seen := make(map[lease.ID]bool)
	for _, l := range g.locks {
		if seen[l.ID()] {
			g.err = fmt.Errorf("%w: a red lock has the lock %s twice, which would count twice",
				fault.ErrInvalidOption, fault.Quote(l.Name()))
		}
		seen[l.ID()] = true
	}
	return g
}

// takeMajority takes a majority of the members, and tries until it has one.
func (r *request) takeMajority(ctx context.Context) (*acquisition, error) {
	w := lease.NewWakeups()
	defer w.Stop()
	waiter, once, err := r.awaitTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = waiter.Leave() }()
	var last error // of the round before
	q := newQuestions(r.group)
	for {
		q.round++
		a, asked := r.newAcquisition(ctx), time.Now()
		r.silent = cmp.Or(r.silent, asked)
		granted, err := r.poll(ctx, a, q, w.C(), last)
		if granted && a.interrupted() {
			_ = a.giveUp(ctx, r)
			continue
		}
		if granted {
			waiter.Share(fault.ErrRefused) // for the requests behind this one: its hold refuses them
			a.scheduleReacquire()
			return a, nil
		}
		r.suspect(ctx, a, a.wasRefused)
		released := a.giveUp(ctx, r)
		waiter.Share(forOthers(err))
		switch {
		case r.isOver() || err == nil:
			return nil, verdict.CleanedUp(r.ended(ctx, err, time.Since(asked)), released)
		case once:
			return nil, verdict.CleanedUp(err, released)
		}
		if final := r.final(a); final != nil {
			return nil, verdict.CleanedUp(final, released)
		}
		if q.round == 1 {
			defer r.waits()()
		}
		silent := r.outage.Noticed(clock.Of(asked), clock.Now(), r.group.timeout(), !errors.Is(err, fault.ErrUnavailable))
		clientOf(r.group).TellUnanswered(silent, r.group.description, true, err)
		stands := q.next(a)
		w.Listen(a.refusing())
		if !stands {
			r.pause(clock.Backoff(q.round, time.Second, nil), w.C())
		}
		if r.isOver() {
			return nil, r.ended(ctx, err, 0)
		}
		last = err
		r.pause(rand.N(5*time.Millisecond), nil) // the members announce a release one after the other
	}
}

// forOthers returns an outcome for other requests: a refusal without the details, which belong to this request.
func forOthers(err error) error {
	if errors.Is(err, fault.ErrRefused) {
		return fault.ErrRefused
	}
	return err
}

// poll asks the members. It returns when a majority has granted the lock, or is no longer possible: then with the outcome. The
// first round goes on until the bound, however short the wait is. A later one without a reply, or that the end of the wait cuts
// off, changes nothing until Redis has been silent for long: the outcome is that of the round before. Nil means that ctx
// was canceled before there was any outcome.
func (r *request) poll(
	ctx context.Context, a *acquisition, q *questions, wake <-chan struct{}, last error,
) (granted bool, outcome error) {
	cut := r.bound
	if last != nil {
		cut = r.over
	}
	waiting, stop := a.waits(ctx)
	later := q.begin(waiting, stop, a, r)
	if !q.stands {
		wake = nil
	}
	for first, stopped := q.stands, false; ; {
		switch done, err := a.standing(len(later)); {
		case done && !a.isSilent(err):
			r.silent = time.Time{}
			return err == nil, err
		case done && last != nil && time.Since(r.silent) < r.floor:
			return false, last
		case done:
			return false, err
		}
		if first && a.holdsAny() {
			q.goOn(waiting, stop, a, r, later)
			first, later = false, nil
			continue
		}
		select {
		case <-a.changed:
			continue
		case <-wake: // a member is free whose waiters do not queue
			stop()
			continue
		case <-cut:
		}
		if time.Since(r.silent) < r.floor && (last != nil || errors.Is(ctx.Err(), context.Canceled)) {
			return false, last
		}
		if stopped || !q.stands {
			return false, a.cutOff()
		}
		stop() // a member that has refused returns at once
		moment, cancel := context.WithTimeout(context.WithoutCancel(ctx), minTimeout)
		defer cancel()
		stopped, cut = true, moment.Done()
	}
}

// standing reports whether the request is decided: a majority holds the lock, or, with an error, none is possible. later is how
// many members are yet to be asked.
func (a *acquisition) standing(later int) (done bool, err error) {
	if a.begin() {
		return true, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	open := later
	for i, asked := range a.asked {
		if asked && !a.holds(i) {
			open++
		}
	}
	switch {
	case a.count(a.lasts)+open >= a.group.need:
		return false, nil
	case !slices.ContainsFunc(a.errs, func(err error) bool { return err != nil }):
		return true, fault.ErrLate // the leases that were granted have run out, or nearly
	}
	return true, a.group.rule().Of(a.errs)
}

// isSilent reports whether an outcome is an outage for no other reason than that members have not replied.
func (a *acquisition) isSilent(outcome error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	fails := func(err error) bool { return err != nil && !errors.Is(err, fault.ErrNotAcquired) && !noReply(err) }
	return errors.Is(outcome, fault.ErrUnavailable) && slices.ContainsFunc(a.errs, noReply) && !slices.ContainsFunc(a.errs, fails)
}

// holdsAny reports whether a member is held now.
func (a *acquisition) holdsAny() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count(a.holds) > 0
}

// cutOff returns the outcome of a round that ends before it is decided: the members that have not replied are silent.
func (a *acquisition) cutOff() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	errs := slices.Clone(a.errs)
	for i, asked := range a.asked {
		if asked && a.members[i] == nil {
			errs[i] = fault.ErrNoAnswer
		}
	}
	return a.group.rule().Of(errs)
}

// final returns the outcome of all members that have replied by now, if waiting cannot help: too few others may still be
// had. It returns nil if waiting may help.
func (r *request) final(a *acquisition) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	failed := 0
	for _, err := range a.errs {
		if err != nil && !errors.Is(err, fault.ErrNotAcquired) && !lease.Retryable(err) {
			failed++
		}
	}
	if failed <= len(a.errs)-r.group.need {
		return nil
	}
	return a.group.rule().Of(a.errs)
}

// refusing returns the locks of the members that refused, and whose waiters do not queue.
func (a *acquisition) refusing() (locks []*lease.Lock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.group.members {
		if errors.Is(a.errs[i], fault.ErrRefused) && !standable(m) {
			locks = append(locks, m.Locks()[0])
		}
	}
	return locks
}

// minTimeout is the shortest time that a member gets to reply.
const minTimeout = 50 * time.Millisecond

// timeoutOf returns how long a member has to reply.
func (a *acquisition) timeoutOf(m lease.Member) time.Duration {
	cfg := clientOf(m).Config().Table
	return min(max(cmp.Or(a.lease, cfg.WatchdogTimeout)/30, minTimeout), cfg.CommandTimeout)
}

// terms returns the conditions under which a member is asked. It has a short time to reply, and until by at the most; a zero by
// means no such limit. If all is set, it has the time until by: no round follows.
func (a *acquisition) terms(m lease.Member, by time.Time, all bool) lease.Terms {
	t := lease.Terms{
		Op: "acquire", Lease: a.lease, Renewed: a.renewed, Limited: true, ByHold: true, By: time.Now().Add(a.timeoutOf(m)),
		Member: true, Group: a.seen, Again: a.again,
	}
	if !by.IsZero() && (all || by.Before(t.By)) {
		t.By = by
	}
	return t
}

// waits returns a context with the values of ctx that ends the waits for members, at the latest when the acquisition is over. It
// ends those that an earlier one was for.
func (a *acquisition) waits(ctx context.Context) (waiting context.Context, stop func()) {
	waiting, stop = context.WithCancel(context.WithoutCancel(ctx))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		a.stop()
	}
	if a.stop = stop; a.why != nil {
		stop()
	}
	return waiting, stop
}

// ask asks a member for the lock, without waiting for the reply. The end of ctx ends neither the call nor the release of a grant
// that comes too late, but only the wait of detached terms.
func (a *acquisition) ask(ctx context.Context, i int, t lease.Terms) {
	if !t.Detached {
		ctx = context.WithoutCancel(ctx)
	}
	m := a.group.members[i]
	t.As = a.as[i] // the context of a later question says nothing
	a.mu.Lock()
	a.asked[i] = true
	comesBack := t.Again && a.begun // a member of a group that comes back is asked before
	a.mu.Unlock()
	clientOf(m).Background(func() {
		h, err := lease.TakeSafely(ctx, m, t)
		switch {
		case err != nil:
		case !a.add(i, h):
			err = h.Unlock(context.WithoutCancel(ctx)) // the acquisition is over, so the member is not needed
		case comesBack:
			clientOf(m).Reports().Event(notice.Reacquired, labelOf(m), nil)
		}
		a.mu.Lock()
		a.asked[i], a.errs[i] = false, err
		a.mu.Unlock()
		select {
		case a.changed <- struct{}{}:
		default:
		}
	})
}

// askAgain asks a member that an acquisition does not hold. Where waiters queue, it stands there for as long as a member has to
// reply.
func (a *acquisition) askAgain(waiting context.Context, i int) {
	m := a.group.members[i]
	t := a.terms(m, time.Time{}, false)
	t.Again = true
	if standable(m) {
		t.Wait, t.Detached = a.timeoutOf(m), true
	}
	a.ask(waiting, i, t)
}

// scheduleReacquire asks the members that are not held again, every third of a lease, for as long as the acquisition is
// held. An acquisition whose lease is not renewed is not extended in this way.
func (a *acquisition) scheduleReacquire() {
	if !a.renewed {
		return
	}
	pause := time.Duration(0)
	for _, l := range a.group.locks {
		if d := cmp.Or(a.lease, l.Manager().Config().Table.WatchdogTimeout) / 3; pause == 0 || d < pause {
			pause = d
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == nil {
		a.timer = time.AfterFunc(pause, func() { a.reacquire(pause) })
	}
}

// reacquire asks again for the members that are not held. A member that lost the lock gets a new holder: its earlier replies
// no longer count.
func (a *acquisition) reacquire(pause time.Duration) {
	missing := a.forgetLost(pause)
	if len(missing) == 0 {
		return
	}
	waiting, _ := a.waits(context.Background())
	for i, lost := range missing {
		if lost == nil {
			a.askAgain(waiting, i)
			continue
		}
		clientOf(lost).Background(func() {
			_ = lost.Unlock(context.Background()) // an owner that lost a lock must unlock it before it acquires again
			if a.Err() == nil {
				a.askAgain(waiting, i)
			}
		})
	}
}

// forgetLost weighs the losses of the lost members, and removes those members. It returns every member to ask again, with its former
// holder, or nil if it has had none. A member that is lost in the meantime stays until the next call.
func (a *acquisition) forgetLost(pause time.Duration) map[int]lease.Held {
	missing := make(map[int]lease.Held)
	a.mu.Lock()
	for i, h := range a.members {
		if !a.asked[i] && (h == nil || h.Err() != nil && !errors.Is(h.Err(), fault.ErrClosed)) {
			missing[i] = h
		}
	}
	tell := a.look()
	if a.why != nil {
		clear(missing)
	} else {
		a.timer.Reset(pause)
	}
	for i := range missing {
		a.asked[i], a.members[i] = true, nil
	}
	a.mu.Unlock()
	tell()
	return missing
}
