package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/queue"
)

// NewRed returns a handle on a majority of the locks. quorum makes the error of an acquisition or a release that failed for
// too many members: errs has an entry for each member, in order, and nil means that the member did not fail. The first verb
// reports an empty list, a nil lock, or the same lock twice.
func NewRed(members []client.Member, quorum func(need int, errs []error) error) *Group {
	g := newGroup("red lock", slices.Clone(members))
	g.need = len(members)/2 + 1
	g.quorum = quorum
	seen := make(map[client.ID]bool)
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
	w := newWakeups()
	defer w.stop()
	waiter, once, err := r.awaitTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = waiter.Leave() }()
	q := newQuestions(r.group)
	for {
		q.round++
		a, asked := r.newAcquisition(), clock.Now()
		granted := r.poll(ctx, a, q, w.wake)
		if granted && a.interrupted() {
			_ = a.giveUp(ctx, r)
			continue
		}
		if granted {
			waiter.Share(constant(fault.ErrRefused)) // for the requests behind this one: its hold refuses them
			a.scheduleReacquire()
			return a, nil
		}
		certain, err := r.outcome(ctx)
		r.suspect(ctx, a, a.wasRefused)
		released := a.giveUp(ctx, r)
		if waiter.Share(r.forOthers); r.isOver() || err == nil || once {
			if !certain {
				err = r.hearOut(ctx, a)
			}
			waiter.Share(constant(forOthers(err)))
			return nil, cleanedUp(r.ended(ctx, err), released)
		}
		if final := r.final(a); final != nil {
			waiter.Share(constant(final))
			return nil, cleanedUp(final, released)
		}
		r.wait.Sleeps()
		r.wait.GoesOn(asked, !errors.Is(err, fault.ErrUnavailable), err)
		stands := q.next(a)
		w.listen(a.refusing())
		if pause := clock.Backoff(q.round, time.Second, nil); !stands {
			r.pause(pause, w.wake)
		} else if q.mixed { // a round is over at once if too many members fail, however long it would stand
			r.pause(max(pause-clock.Now().Sub(asked), 0), w.wake)
		}
		if r.isOver() {
			_, err = r.outcome(ctx)
			waiter.Share(constant(forOthers(err)))
			return nil, r.ended(ctx, err)
		}
		r.pause(rand.N(5*time.Millisecond), nil) // the members announce a release one after the other
	}
}

// hearOut waits until the members of a last round have decided what the request says, and returns that. The round was over once no
// majority was possible. If the replies of some that fail come first, the others may still refuse.
func (r *request) hearOut(ctx context.Context, a *acquisition) error {
	for {
		asks := a.asks() // first: a member that replies meanwhile counts
		certain, err := r.outcome(ctx)
		if certain || !asks {
			return err
		}
		select {
		case <-a.changed:
		case <-r.bound:
			return err
		}
	}
}

// asks reports whether a member that has been asked has not replied.
func (a *acquisition) asks() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.members, func(m membership) bool { return m.asked })
}

// forOthers returns the outcome of the request for those behind it, as of a moment.
func (r *request) forOthers(now clock.Instant) error { return forOthers(r.certain(now)) }

// forOthers returns an outcome for other requests: a refusal without the details, which belong to this request.
func forOthers(err error) error {
	if errors.Is(err, fault.ErrRefused) {
		return fault.ErrRefused
	}
	return err
}

// poll asks the members. It returns when a majority has granted the lock, or is no longer possible. It reports whether the lock was
// granted. The first round goes on until the bound, however short the wait is. A later one ends with the wait.
func (r *request) poll(ctx context.Context, a *acquisition, q *questions, wake <-chan struct{}) (granted bool) {
	cut := r.bound
	if q.round > 1 {
		cut = r.over
	}
	waiting, stop := a.waits(ctx)
	later := q.begin(waiting, stop, a, r)
	if !q.stands {
		wake = nil
	}
	for first := q.stands; ; {
		if done, granted := a.standing(len(later)); done {
			return granted
		}
		if first && a.holdsAny() {
			q.goOn(waiting, stop, a, r, later)
			first, later = false, nil
			continue
		}
		select {
		case <-a.changed:
		case <-wake: // a member is free whose waiters do not queue
			stop()
		case <-cut:
			return false
		}
	}
}

// standing reports whether the request is decided, and if so, whether a majority holds the lock or none is possible. later is how
// many members are yet to be asked.
func (a *acquisition) standing(later int) (done, granted bool) {
	if a.begin() {
		return true, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	open := later
	for i, m := range a.members {
		if m.asked && !a.holds(i) {
			open++
		}
	}
	return a.count(a.lasts)+open < a.group.need, false
}

// holdsAny reports whether a member is held now.
func (a *acquisition) holdsAny() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count(a.holds) > 0
}

// final returns the outcome of all members that have replied by now, if waiting cannot help: too few others may still be
// had. It returns nil if waiting may help.
func (r *request) final(a *acquisition) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	failed := 0
	errs := make([]error, len(a.members))
	for i, m := range a.members {
		err := m.err
		if errs[i] = err; err != nil && !errors.Is(err, fault.ErrNotAcquired) && !client.Retryable(err) {
			failed++
		}
	}
	if failed <= len(errs)-r.group.need {
		return nil
	}
	return a.group.rule().of(errs)
}

// refusing returns the locks of the members that refused, and whose waiters do not queue.
func (a *acquisition) refusing() (locks []*client.Lock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.group.members {
		if errors.Is(a.members[i].err, fault.ErrRefused) && !standable(m) {
			locks = append(locks, m.Locks()[0])
		}
	}
	return locks
}

// minTimeout is the shortest time that a member gets to reply.
const minTimeout = 50 * time.Millisecond

// timeoutOf returns how long a member has to reply.
func (a *acquisition) timeoutOf(m client.Member) time.Duration {
	cfg := clientOf(m).Config().Table
	return min(max(cmp.Or(a.lease, cfg.WatchdogTimeout)/30, minTimeout), cfg.CommandTimeout)
}

// terms returns the conditions under which a member is asked. It has a short time to reply, and until by at the most; a zero by
// means no such limit. If all is set, it has the time until by: no round follows.
func (a *acquisition) terms(m client.Member, by time.Time, all bool) client.Terms {
	t := client.Terms{
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
func (a *acquisition) ask(ctx context.Context, i int, t client.Terms) {
	if !t.Detached {
		ctx = context.WithoutCancel(ctx)
	}
	m := a.group.members[i]
	t.As = a.as[i] // the context of a later question says nothing
	t.Progress = new(outcome.Progress)
	a.said.asked(i, t.Progress, clock.Now())
	a.mu.Lock()
	a.members[i].asked = true
	comesBack := t.Again && a.begun // a member of a group that comes back is asked before
	a.mu.Unlock()
	var h client.Held
	clientOf(m).Alongside(func() (err error) {
		h, err = m.Take(ctx, t)
		return err
	}, func(err error) {
		defer func() {
			a.mu.Lock()
			a.members[i].asked, a.members[i].err = false, err
			a.mu.Unlock()
			queue.PutToken(a.changed)
		}()
		a.said.took(i, t.Progress, err == nil && h.Waited(), err)
		switch {
		case err != nil:
		case !a.add(i, h):
			err = h.Unlock(context.WithoutCancel(ctx)) // the acquisition is over, so the member is not needed
		case comesBack:
			clientOf(m).Reports().Event(notice.Reacquired, labelOf(m), nil)
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
		if d := cmp.Or(a.lease, l.Client().Config().Table.WatchdogTimeout) / 3; pause == 0 || d < pause {
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
func (a *acquisition) forgetLost(pause time.Duration) map[int]client.Held {
	missing := make(map[int]client.Held)
	a.mu.Lock()
	for i, m := range a.members {
		h := m.held
		if !m.asked && (h == nil || h.Err() != nil && !errors.Is(h.Err(), fault.ErrClosed)) {
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
		a.members[i].asked, a.members[i].held = true, nil
	}
	a.mu.Unlock()
	tell()
	return missing
}
