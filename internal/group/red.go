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
	w := newWakeups()
	defer w.stop()
	turn, err := r.awaitTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = turn.leave() }()
	var last error // of the round before
	for round := 1; ; round++ {
		a := r.newAcquisition()
		err := r.poll(ctx, a, round, last)
		if err == nil {
			turn.report(fault.ErrRefused) // for the requests behind this one: its hold refuses them
			a.scheduleReacquire()
			return a, nil
		}
		released := a.giveUp(ctx, r)
		turn.report(err)
		if r.Single() || !r.retryable(a) {
			return nil, errors.Join(err, released)
		}
		w.listen(a)
		r.pause(ctx, clock.Backoff(round, time.Second, nil), w.wake)
		if ctx.Err() != nil || r.Limited && r.left() == 0 {
			return nil, r.ended(ctx, err)
		}
		last = err
		r.pause(ctx, rand.N(5*time.Millisecond), nil) // the members announce a release one after the other
	}
}

// poll asks all members. It returns when a majority has granted the lock, or is no longer possible. If the wait or ctx ends
// before that, the error is that of the round before.
func (r *request) poll(ctx context.Context, a *acquisition, round int, last error) error {
	for i := range r.group.members {
		a.ask(ctx, i)
	}
	var over <-chan time.Time // the first round is made to its end, however short the wait
	if r.Limited && round > 1 {
		timer := time.NewTimer(r.left())
		defer timer.Stop()
		over = timer.C
	}
	for {
		if done, err := a.standing(); done {
			return err
		}
		select {
		case <-a.changed:
		case <-over:
			return r.ended(ctx, last)
		case <-ctx.Done():
			return r.ended(ctx, last)
		}
	}
}

// ended returns the error of a request whose wait is over or whose context has ended, given the error of the latest round.
func (r *request) ended(ctx context.Context, last error) error {
	switch {
	case ctx.Err() == nil && last == nil:
		return fmt.Errorf("rlock: %w", fault.ErrNoAnswer)
	case ctx.Err() == nil:
		return last
	case last == nil, errors.Is(last, fault.ErrNotAcquired):
		return fmt.Errorf("%w: %w", fault.ErrNotAcquired, lease.EndOf(ctx))
	}
	return fmt.Errorf("%w (%w)", last, lease.EndOf(ctx))
}

// standing reports whether the request is decided: a majority holds the lock, or, with an error, none is possible.
func (a *acquisition) standing() (done bool, err error) {
	if a.begin() {
		return true, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.group
	held, open, refused := 0, 0, 0
	for i, err := range a.errs {
		switch {
		case a.members[i] != nil && a.members[i].Err() == nil:
			held++
		case a.asked[i]:
			open++
		case errors.Is(err, fault.ErrRefused):
			refused++
		}
	}
	if held+open >= g.need {
		return false, nil
	}
	if !slices.ContainsFunc(a.errs, func(err error) bool { return err != nil }) {
		return true, fmt.Errorf("rlock: %w", fault.ErrLate) // the leases that were granted have run out
	}
	errs := g.named(a.errs)
	if refused > len(g.members)-g.need { // regardless of the others' replies
		return true, fmt.Errorf("%w: %w", fault.ErrRefused, g.quorum(g.need, errs))
	}
	// Errors decide here, not refusals, so the result must not match ErrNotAcquired.
	for i, err := range errs {
		if errors.Is(err, fault.ErrNotAcquired) {
			errs[i] = fmt.Errorf("member %d (%s): %w", i+1, nameOf(g.members[i]), errTaken)
		}
	}
	return true, g.quorum(g.need, errs)
}

// errTaken replaces a refusal in an error that must not match ErrNotAcquired.
var errTaken = errors.New("held by another owner")

// retryable reports whether waiting may help: enough members may still be had.
func (r *request) retryable(a *acquisition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	hopeless := 0
	for _, err := range a.errs {
		if err != nil && !errors.Is(err, fault.ErrNotAcquired) && !lease.Retryable(err) {
			hopeless++
		}
	}
	return hopeless <= len(a.errs)-r.group.need
}

// minTimeout is the shortest time that a member gets to reply.
const minTimeout = 50 * time.Millisecond

// ask asks a member for the lock, without waiting for the reply. Only the values of ctx are used: its end ends neither the
// call nor the release of a grant that comes too late.
func (a *acquisition) ask(ctx context.Context, i int) {
	ctx = context.WithoutCancel(ctx)
	m := a.group.members[i]
	client := clientOf(m)
	cfg := client.Config()
	timeout := cmp.Or(a.lease, cfg.Table.WatchdogTimeout)
	timeout = min(max(timeout/30, minTimeout)+cfg.AckTimeout, cfg.Table.CommandTimeout)
	a.mu.Lock()
	a.asked[i] = true
	a.mu.Unlock()
	client.Background(func() {
		taking, cancel := context.WithTimeoutCause(ctx, timeout, fault.ErrNoAnswer)
		defer cancel()
		h, err := m.Take(taking, lease.Terms{
			Op: "acquire", Lease: a.lease, Renewed: a.renewed, Limited: true, ByHold: true, Owner: a.owner,
		})
		if err == nil && !a.add(i, h) {
			err = h.Unlock(ctx) // the acquisition is over, so the member is not needed
		}
		if errors.Is(err, fault.ErrNotAcquired) && !errors.Is(err, fault.ErrRefused) {
			err = fault.ErrNoAnswer
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
			a.ask(ctx, i)
			continue
		}
		clientOf(gone).Background(func() {
			_ = gone.Unlock(ctx) // an owner that lost a lock must unlock it before it acquires again
			if a.Err() == nil {
				a.ask(ctx, i)
			}
		})
	}
}
