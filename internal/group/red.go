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
	for round := 1; ; round++ {
		a, asked := r.newAcquisition(), time.Now()
		granted, err := r.poll(ctx, a, last)
		if granted && a.interrupted() {
			_ = a.giveUp(ctx, r)
			continue
		}
		if granted {
			waiter.Share(fault.ErrRefused) // for the requests behind this one: its hold refuses them
			a.scheduleReacquire()
			return a, nil
		}
		released := a.giveUp(ctx, r)
		waiter.Share(forOthers(err))
		switch {
		case r.isOver() || err == nil:
			return nil, verdict.CleanedUp(r.ended(ctx, err, time.Since(asked)), released)
		case once || !r.retryable(a):
			return nil, verdict.CleanedUp(err, released)
		}
		if round == 1 {
			defer r.waits()()
		}
		w.Listen(a.refusing())
		r.pause(clock.Backoff(round, time.Second, nil), w.C())
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

// poll asks all members. It returns when a majority has granted the lock, or is no longer possible: then with the outcome. The
// first round goes on until the bound, however short the wait is. A later one that the end of the wait cuts off changes
// nothing, unless it has been silent for long: then the outcome is that of the round before. Nil means that ctx was
// canceled before there was any outcome.
func (r *request) poll(ctx context.Context, a *acquisition, last error) (granted bool, outcome error) {
	asked, cut := time.Now(), r.bound
	if last != nil {
		cut = r.over
	}
	for i := range r.group.members {
		a.ask(ctx, i, r.By, r.Single())
	}
	for {
		if done, err := a.standing(); done {
			return err == nil, err
		}
		select {
		case <-a.changed:
			continue
		case <-cut:
		}
		if time.Since(asked) < r.floor && (last != nil || errors.Is(ctx.Err(), context.Canceled)) {
			return false, last
		}
		return false, a.cutOff()
	}
}

// standing reports whether the request is decided: a majority holds the lock, or, with an error, none is possible.
func (a *acquisition) standing() (done bool, err error) {
	if a.begin() {
		return true, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	open := 0
	for i, asked := range a.asked {
		if asked && !a.holds(i) {
			open++
		}
	}
	switch {
	case a.live()+open >= a.group.need:
		return false, nil
	case !slices.ContainsFunc(a.errs, func(err error) bool { return err != nil }):
		return true, fault.ErrLate // the leases that were granted have run out
	}
	return true, a.group.rule().Of(a.errs)
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

// retryable reports whether waiting may help: enough members may still be had.
func (r *request) retryable(a *acquisition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	final := 0
	for _, err := range a.errs {
		if err != nil && !errors.Is(err, fault.ErrNotAcquired) && !lease.Retryable(err) {
			final++
		}
	}
	return final <= len(a.errs)-r.group.need
}

// refusing returns the locks of the members that refused.
func (a *acquisition) refusing() (locks []*lease.Lock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.group.members {
		if errors.Is(a.errs[i], fault.ErrRefused) {
			locks = append(locks, m.Locks()[0])
		}
	}
	return locks
}

// minTimeout is the shortest time that a member gets to reply.
const minTimeout = 50 * time.Millisecond

// ask asks a member for the lock, without waiting for the reply. The member has a short time to reply, and until by at the
// most; a zero by means no such limit. If all is set, it has the time until by: no round follows. Only the values of ctx are
// used: its end ends neither the call nor the release of a grant that comes too late.
func (a *acquisition) ask(ctx context.Context, i int, by time.Time, all bool) {
	ctx = context.WithoutCancel(ctx)
	m := a.group.members[i]
	if o := m.Locks()[0].OwnerIn(ctx); o != nil { // the context of a later question has none
		a.owners[i] = o
	}
	client := clientOf(m)
	cfg := client.Config().Table
	timeout := min(max(cmp.Or(a.lease, cfg.WatchdogTimeout)/30, minTimeout), cfg.CommandTimeout)
	t := lease.Terms{
		Op: "acquire", Lease: a.lease, Renewed: a.renewed, Limited: true, ByHold: true, By: time.Now().Add(timeout),
		Owner: cmp.Or(a.owners[i], a.owner),
	}
	if !by.IsZero() && (all || by.Before(t.By)) {
		t.By = by
	}
	a.mu.Lock()
	a.asked[i] = true
	a.mu.Unlock()
	client.Background(func() {
		h, err := m.Take(ctx, t)
		if err == nil && !a.add(i, h) {
			err = h.Unlock(ctx) // the acquisition is over, so the member is not needed
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
	var missing []int
	a.mu.Lock()
	tell := a.look()
	if a.why == nil {
		for i, h := range a.members {
			if !a.asked[i] && (h == nil || h.Err() != nil && !errors.Is(h.Err(), fault.ErrClosed)) {
				missing = append(missing, i)
				a.asked[i] = true
			}
		}
		a.timer.Reset(pause)
	}
	a.mu.Unlock()
	tell()
	ctx := context.Background()
	for _, i := range missing {
		a.mu.Lock()
		gone := a.members[i]
		a.members[i] = nil
		a.mu.Unlock()
		if gone == nil {
			a.ask(ctx, i, time.Time{}, false)
			continue
		}
		clientOf(gone).Background(func() {
			_ = gone.Unlock(ctx) // an owner that lost a lock must unlock it before it acquires again
			if a.Err() == nil {
				a.ask(ctx, i, time.Time{}, false)
			}
		})
	}
}
