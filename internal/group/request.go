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
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
)

const (
	minTimeout   = 50 * time.Millisecond  // the shortest time that a member gets to reply
	longestPause = 250 * time.Millisecond // of a red lock between two rounds
)

// request is one acquisition of a group under way. By is the moment by which the members must have replied. Zero means that
// each question has a bound of its own.
type request struct {
	client.Terms
	group   *Group
	end     time.Time     // of the wait; zero means that it has no limit
	floor   time.Duration // how long members may be silent before that counts as an outage
	timeout time.Duration // the longest command timeout
	lease   time.Duration // the shortest lease
	ends    bool          // the wait for a member of a multi lock has failed
	refusal error         // of a member of a multi lock in this round, before the latest ones were asked
}

// bounds sets the moments of the request.
func (r *request) bounds(ctx context.Context) {
	now, first := time.Now(), r.Wait
	for i, l := range r.group.locks {
		cfg := l.Client().Config().Table
		r.floor, first = max(r.floor, cfg.Floor()), max(first, l.AttemptTime(r.Wait))
		r.timeout = max(r.timeout, cfg.CommandTimeout)
		r.lease = min(cmp.Or(r.lease, r.leaseOf(i)), r.leaseOf(i))
	}
	if r.Limited {
		if _, limited := ctx.Deadline(); r.Single() && limited { // ctx ends the attempt
			first = r.timeout
		}
		r.end, r.By = now.Add(r.Wait), now.Add(first)
	}
}

// leaseOf returns the lease that a member gets.
func (r *request) leaseOf(i int) time.Duration {
	return cmp.Or(r.Lease, r.group.locks[i].Client().Config().Table.WatchdogTimeout)
}

// over reports whether the wait is over or ctx has ended.
func (r *request) over(ctx context.Context) bool {
	return ctx.Err() != nil || !r.end.IsZero() && !time.Now().Before(r.end)
}

// left returns how much of the wait is left, but no more than most.
func (r *request) left(most time.Duration) time.Duration {
	if r.end.IsZero() {
		return most
	}
	return min(most, max(time.Until(r.end), 0))
}

// acquire takes the group, in rounds. Each asks all members at once. After a round that fails, it gives all back. A red lock pauses then, by
// chance. A multi lock waits for the member that failed, as any call waits for a lock, holding nothing meanwhile, and then asks for the others: so
// no order in which others take the members can block it for good.
func (r *request) acquire(ctx context.Context) (*acquisition, error) {
	r.bounds(ctx)
	first := -1         // a multi lock waits for this member
	var last error      // what the members said last
	var since time.Time // when those were asked that have not answered since
	for round := 0; ; round++ {
		ask := r.takeFrom
		if r.group.red {
			ask = r.vote
		}
		a, asked, errs := ask(ctx, first, round)
		if a.begun {
			return a, nil
		}
		r.giveUp(ctx, a)
		err, failing := r.group.failure(errs, false), failed(errs)
		if r.refusal != nil {
			last, since, r.refusal = r.refusal, time.Time{}, nil
		}
		if errors.Is(err, fault.ErrNotAcquired) || loud(errs) {
			since = time.Time{}
		} else if since.IsZero() {
			since = asked
		}
		if !since.IsZero() && time.Since(since) < r.floor { // they are not silent for long, so what they said before stands
			canceled := errors.Is(ctx.Err(), context.Canceled) // which says nothing about Redis
			if err = cmp.Or(last, err); canceled {
				err = last
			}
		} else {
			last = err
		}
		mayWait := errors.Is(err, fault.ErrNotAcquired) || client.Retryable(err)
		if r.Single() || r.over(ctx) || !mayWait || r.ends {
			return nil, r.ended(ctx, err)
		}
		if !r.group.red {
			first = max(failing, 0)
			continue
		}
		if round == 0 {
			t := r.group.locks[0].Client().Table()
			t.Waits(1)
			defer t.Waits(-1)
		}
		client.Sleep(r.left(clock.Backoff(round+1, longestPause, nil)), nil, nil, ctx.Done(), nil)
		if r.over(ctx) {
			return nil, r.ended(ctx, err)
		}
	}
}

// takeFrom waits for one member, if that is not negative, and then asks for all others at once, without waiting. If one refuses, and all before it
// are held, it keeps these, gives back those after it, waits for it for a moment, and goes on. Groups have one order of members, and none waits with
// members out of that order, so one of them gets on. It returns the errors of the members, and when it asked last.
func (r *request) takeFrom(ctx context.Context, first, round int) (a *acquisition, asked time.Time, errs []error) {
	ctx, a = r.begin(ctx)
	errs, asked = make([]error, len(r.group.locks)), time.Now()
	var waited time.Duration
	t := r.Terms
	t.Wait = r.left(t.Wait)
	ends := !r.end.IsZero() && r.end.Before(t.By)
	if first >= 0 {
		if ends {
			t.By = r.end // what the round before said stands if the end of the wait cuts a question off
		}
		errs[first] = a.take(ctx, first, t)
		if r.ends = errs[first] != nil; r.ends {
			return a, asked, errs
		}
		waited, asked = time.Since(asked), time.Now()
	}
	if !r.Single() {
		t.Limited, t.Wait = true, 0
	}
	unbounded := t.By.IsZero() && !r.Single() // no short wait bounds the replies
	for from := 0; ; {
		if unbounded {
			t.By = time.Now().Add(r.timeout)
		}
		r.askAll(ctx, a, from, first, t, errs)
		refused := failed(errs)
		if refused < 0 {
			r.took(a)
		}
		inOrder := refused > 0 && errors.Is(errs[refused], fault.ErrNotAcquired) && errors.Join(errs[:refused]...) == nil
		if !inOrder || r.Single() || r.over(ctx) {
			return a, asked, errs
		}
		r.refusal = r.group.failure(errs, false)
		over := a.giveBack(refused + 1)
		clear(errs[refused:]) // they are asked again
		wait := t
		if wait.Wait = r.left(patience(round, waited, r.lease)); unbounded {
			wait.By = time.Now().Add(r.timeout)
		} else if ends { // what it said just now stands, too
			wait.By = r.end
		}
		asked = time.Now()
		if errs[refused] = a.take(ctx, refused, wait); errs[refused] != nil {
			return a, asked, errs
		}
		r.outlast(ctx, over) // or their owner would have them still
		from, first = refused+1, -1
	}
}

// askAll asks for the members from one on, except one that is held, at the same time.
func (r *request) askAll(ctx context.Context, a *acquisition, from, held int, t client.Terms, errs []error) {
	calls, sides := make([]func() error, len(errs)), make(map[table.Key]int)
	for i, l := range r.group.locks[from:] {
		i += from
		at, ok := sides[l.ID().Key]
		switch {
		case i == held:
		case ok: // an owner can read what it may write, and not the other way round: the writer is asked first
			writer := calls[at]
			calls[at] = func() error {
				if _ = writer(); errs[at] == nil {
					errs[i] = a.take(ctx, i, t)
				}
				return nil
			}
		default:
			sides[l.ID().Key] = i
			calls[i] = func() error {
				errs[i] = a.take(ctx, i, t)
				return nil
			}
		}
	}
	r.group.each(calls, 0, nil, func(int, error) bool { return false })
}

// patience returns for how long a multi lock that holds members waits for another one: a random time from x to 2x, but at most a tenth of the lease,
// and 3 s. x grows with the rounds, and with the wait before, so that the lines of the others let it through.
func patience(round int, waited, lease time.Duration) time.Duration {
	most := min(2*max(10*time.Millisecond<<min(max(round-1, 0), 10), min(waited, 250*time.Millisecond)), 3*time.Second, lease/10)
	return most/2 + rand.N(most/2+1)
}

// vote asks all members at once. It returns when a majority has granted the lock, or so many have refused that there is none, or all
// have replied, or ctx has ended. A member that is granted later joins the hold, or is released. Only the unlock of a hold knows of such a member.
func (r *request) vote(ctx context.Context, _, _ int) (a *acquisition, asked time.Time, errs []error) {
	lent, end := lend(ctx)
	defer end()
	inner, a := r.begin(client.Keep(lent, ctx, r.group.locks))
	asked = time.Now()
	calls, refused := make([]func() error, len(a.members)), 0
	for i, l := range r.group.locks {
		t, most := r.Terms, min(max(r.leaseOf(i)/30, minTimeout), l.Client().Config().Table.CommandTimeout)
		t.Op, t.Limited, t.Wait = "acquire", true, 0
		if by := asked.Add(most); !r.Single() && (t.By.IsZero() || by.Before(t.By)) {
			t.By = by
		}
		calls[i] = func() error { return a.take(inner, i, t) }
	}
	errs, _ = r.group.each(calls, 0, ctx.Done(), func(_ int, err error) bool {
		if errors.Is(err, fault.ErrNotAcquired) {
			refused++
		}
		return r.took(a) || refused > len(calls)-r.group.need
	})
	return a, asked, errs
}

// loan is a context for what goes on after the call that lent it: it does not end, and from the end of the call on, nothing touches the
// context of the call.
type loan struct{ driver.Lent }

// Err implements [context.Context].
func (*loan) Err() error { return nil }

// lend returns a loan of ctx, and what ends it.
func lend(ctx context.Context) (*loan, func()) {
	l := new(loan)
	l.Lend(context.WithoutCancel(ctx))
	return l, l.End
}

// begin returns the acquisition of a round, for an owner that all members have: one that hides no hold of ctx, so members that ctx
// holds are re-entered. The context that it returns has that owner.
func (r *request) begin(ctx context.Context) (context.Context, *acquisition) {
	ctx = client.EnsureOwner(ctx)
	return ctx, &acquisition{
		group: r.group, owner: client.OwnerOf(ctx), seen: r.Group, members: make([]membership, len(r.group.locks)), over: make(chan struct{}),
	}
}

// took makes the acquisition held if enough members are, each with enough of its lease left. It reports whether they are.
func (r *request) took(a *acquisition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	lasting, reentered := 0, 0
	for i, m := range a.members {
		if !m.live() {
			continue
		}
		if time.Until(m.Deadline()) >= table.Least(r.leaseOf(i), r.Renews()) {
			lasting++
		}
		if m.Reentered() {
			reentered++
		}
	}
	a.begun, a.reentered = lasting >= r.group.need, reentered >= r.group.need
	return a.begun
}

// giveUp releases what a round has got, even if ctx has ended.
func (r *request) giveUp(ctx context.Context, a *acquisition) {
	over := make(chan struct{})
	r.group.alongside(0, func() {
		_ = a.Unlock(context.Background())
		close(over)
	})
	r.outlast(ctx, over)
}

// outlast waits until releases are over, but no longer than the request may last.
func (r *request) outlast(ctx context.Context, over <-chan struct{}) {
	most := r.floor
	if !r.By.IsZero() {
		most = min(most, max(time.Until(r.By), 0))
	}
	client.Sleep(most, over, nil, ctx.Done(), nil)
}

// ended is [client.Ended] for a request, given what is known at its end. Nil means nothing. What the end of ctx has ended is not refused.
func (r *request) ended(ctx context.Context, known error) error {
	if ctx.Err() != nil && errors.Is(known, ctx.Err()) {
		return known // a member says so already
	}
	if ctx.Err() != nil && errors.Is(known, fault.ErrRefused) {
		known = fault.ErrNotAcquired
	}
	return client.Ended(ctx, known)
}

// failed returns the member that decides how all of them failed: the first on which waiting does not help, or else the first that refused,
// or else the first that failed; or -1.
func failed(errs []error) int {
	for _, decides := range []func(error) bool{
		func(err error) bool {
			return err != nil && !errors.Is(err, fault.ErrNotAcquired) && !client.Retryable(err)
		},
		func(err error) bool { return errors.Is(err, fault.ErrNotAcquired) },
		func(err error) bool { return err != nil },
	} {
		if i := slices.IndexFunc(errs, decides); i >= 0 {
			return i
		}
	}
	return -1
}
