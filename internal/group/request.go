package group

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/queue"
)

// request is one acquisition of a group under way. Its As says for whom it acquires each of its locks. Its By
// is the moment by which all members together must reply or be given up. Zero means that each attempt has the command
// timeout.
type request struct {
	client.Terms
	group  *Group
	seen   *observe.Span // nil means that nobody observes it
	had    []bool        // of a red lock that is observed: the members that the owner holds
	plain  bool          // the context has no owner for any member
	who    owner.Who     // whose unlock ends it
	made   *acquisition  // the one of the present round; nil means none yet
	start  time.Time
	floor  time.Duration                                   // how long members may be silent before that counts as an outage
	over   <-chan struct{}                                 // closed when the wait is over or ctx has ended
	bound  <-chan struct{}                                 // closed at By, or when ctx has ended
	said   *account                                        // what its members have answered
	behind atomic.Pointer[queue.Waiter[string, outcomeOf]] // its place in the local queue, while others are before it
	before error                                           // what the one before it in that queue said last; nil means nothing
	wait   client.Wait                                     // of a red lock: each member of a multi lock has its own

	looked  time.Duration // when it last looked whether it waits for itself, since the start
	accused bool          // the log says that it does
}

// newRequest returns a request that begins now. The caller must call cancel when the request is over.
func (g *Group) newRequest(ctx context.Context, t client.Terms) (r *request, cancel func()) {
	r = &request{Terms: t, group: g, start: time.Now(), wait: client.NewWait(clientOf(g), g.description, g.timeout())}
	r.asks(ctx)
	var acks, first time.Duration
	for _, l := range g.locks {
		cfg := l.Client().Config()
		acks, r.floor, first = max(acks, cfg.AckTimeout), max(r.floor, cfg.Table.Floor()), max(first, l.AttemptTime(r.Wait))
	}
	_, limited := ctx.Deadline()
	switch {
	case !r.By.IsZero() || !r.Limited:
	case r.Single() && limited: // ctx ends the attempt
		r.By = r.start.Add(g.timeout())
	default:
		r.By = r.start.Add(first)
	}
	var end, last time.Time
	if r.Limited {
		end = r.start.Add(r.Wait)
	}
	if !r.By.IsZero() {
		last = r.By.Add(acks)
	}
	waiting, endWait := client.Until(ctx, end)
	bounded, endBound := client.Until(ctx, last)
	r.over, r.bound = waiting.Done(), bounded.Done()
	r.said = newAccount(g.rule(), r.floor)
	r.Progress.Follow(r.known)
	return r, func() { endWait(); endBound(); r.wait.End() }
}

// asks sets for whom the request asks for each lock: for the owner of a hold of it in the context, or of the context. For all others, it asks for
// one owner, for which only contexts within the same hold of a member stand too.
func (r *request) asks(ctx context.Context) {
	w, rest := client.Together(ctx, r.group.locks, false)
	if r.As == nil {
		r.plain, rest.Owner = w.Owner == nil && len(w.Holds) == 0, new(owner.Owner)
		for _, l := range r.group.locks {
			r.As = append(r.As, l.Who(ctx, false).Or(rest))
		}
	}
	r.who = w.Or(r.As[0])
}

// as returns for whom the request asks for the locks of a member.
func (r *request) as(i int) []owner.Who {
	first := 0
	for _, m := range r.group.members[:i] {
		first += len(m.Locks())
	}
	return r.As[first : first+len(r.group.members[i].Locks())]
}

// known returns what the request would say if it ended now.
func (r *request) known(now clock.Instant) outcome.Result {
	if w := r.behind.Load(); w != nil {
		if of := w.Shared(); of != nil {
			return resultOf(of(now))
		}
		return outcome.Result{}
	}
	return resultOf(r.certain(now))
}

// certain returns what the members have said for certain, to this request or to the one before it. Nil means nothing.
func (r *request) certain(now clock.Instant) error {
	if certain, err := r.said.at(now); certain {
		return err
	}
	return r.before
}

// outcome returns the error of a request that ends now, and whether the members have said so. Nil means that ctx was canceled before
// there was anything to say.
func (r *request) outcome(ctx context.Context) (certain bool, err error) {
	certain, err = r.said.at(clock.Now())
	switch {
	case certain:
		return true, err
	case r.before != nil:
		return true, r.before
	case errors.Is(ctx.Err(), context.Canceled):
		return false, nil
	}
	return false, err
}

// timeout returns the longest command timeout of the clients.
func (g *Group) timeout() (longest time.Duration) {
	for _, l := range g.locks {
		longest = max(longest, l.Client().Config().Table.CommandTimeout)
	}
	return longest
}

// left returns how much of the wait is left.
func (r *request) left() time.Duration { return max(r.Wait-time.Since(r.start), 0) }

// isOver reports whether the wait is over or ctx has ended.
func (r *request) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// unlimited is the wait for a member that lasts as long as that for the group.
const unlimited time.Duration = -1

// terms returns the conditions under which one member is asked. It waits for the member for most, but no longer than for the group; zero
// means that it only tries. If a member has refused or failed before, the end of the wait ends also the first question to the member.
func (r *request) terms(i int, most time.Duration) client.Terms {
	t := client.Terms{
		Op: r.Op, Lease: r.Lease, Renewed: r.Renewed, Limited: r.Limited || most >= 0, ByHold: true, As: r.as(i), By: r.By,
		Member: true, Group: r.seen, Again: r.Again, Progress: new(outcome.Progress),
	}
	switch {
	case most < 0 && r.Limited:
		t.Wait = r.left()
	case most > 0 && r.Limited:
		t.Wait = min(most, r.left())
	case most > 0:
		t.Wait = most
	}
	if most >= 0 && r.By.IsZero() {
		t.By = time.Now().Add(max(most, clientOf(r.group.members[i]).Config().Table.CommandTimeout))
	}
	if end := r.start.Add(r.Wait); r.Limited && end.Before(t.By) && r.said.known() {
		t.By = end
	}
	return t
}

// ask takes one member.
func (r *request) ask(ctx context.Context, i int, most time.Duration) error {
	t := r.terms(i, most)
	r.said.asked(i, t.Progress, clock.Now())
	h, err := r.group.members[i].Take(ctx, t)
	if r.said.took(i, t.Progress, err == nil && h.Waited(), err); err == nil {
		r.made.add(i, h)
	}
	return err
}

// stays returns for how long the request stands in the queues of members.
func (r *request) stays() (s stays) {
	for i, l := range r.group.locks {
		if d := cmp.Or(r.Lease, l.Client().Config().Table.WatchdogTimeout); i == 0 || d < s.lease {
			s.lease = d
		}
	}
	return s
}

// queues reports whether the waiters of a member stand in a queue in Redis.
func queues(m client.Member) bool { return slices.ContainsFunc(m.Locks(), (*client.Lock).Queues) }

// pause waits for most at most, or until wake has a token. It returns early if the wait is over, ctx ends or the client
// closes.
func (r *request) pause(most time.Duration, wake <-chan struct{}) {
	c := clientOf(r.group)
	closing := c.Stopping()
	if c.IsStopping() {
		closing = nil // a red lock may go on without this client
	}
	client.Sleep(most, wake, nil, r.over, closing)
}

// ended is [client.Ended] for the outcome of a request, which is nil if there is none.
func (r *request) ended(ctx context.Context, last error) error {
	if ctx.Err() != nil && errors.Is(last, fault.ErrNotAcquired) {
		last = fault.ErrNotAcquired // not ErrRefused, because the context ended the wait
	}
	return client.Ended(ctx, last)
}
