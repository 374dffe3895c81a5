package client

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// Lock is a lock of one client. The zero value is no lock: its methods return [fault.ErrInvalidOption]. It is safe for
// concurrent use once [Lock.Init] has returned.
type Lock struct {
	client *Client
	h      table.Handle
	turns  *core.Kind  // nil means that the lock table has it
	opened core.Opened // those that it unlocks
	err    error       // the error of the name or of the options, or nil

	// Defaults are those of its acquisitions, which its options set. Nil means that these say nothing.
	Defaults *Terms
}

// ID identifies the locks of which an owner has at most one grant. It is comparable.
type ID struct {
	table.Key
	Side wire.Side
}

// Init makes the zero Lock a handle on a lock, given the user's name for it and its name in Redis.
func (l *Lock) Init(c *Client, k *wire.Kind, name, inRedis string) {
	l.client = c
	l.h.Kind, l.h.Name, l.h.Key = k, name, c.table.Key(inRedis, k.Family)
	l.h.FirstDelay, l.h.MaxDelay, l.turns = k.FirstDelay, k.MaxDelay, byTurns[k]
	l.err = k.CheckName(inRedis, c.driver.Info().Cluster)
}

// Configure applies an option of the handle, unless an error was found before.
func (l *Lock) Configure(option func(h *table.Handle) error) {
	if l.err == nil {
		l.err = option(&l.h)
	}
}

// Client returns the client of the lock, or nil for no lock.
func (l *Lock) Client() *Client {
	if l == nil {
		return nil
	}
	return l.client
}

// Name returns the user's name. No lock has none.
func (l *Lock) Name() string {
	if l == nil {
		return ""
	}
	return l.h.Name
}

// Kind returns the kind.
func (l *Lock) Kind() *wire.Kind { return l.h.Kind }

// ID returns what identifies the lock.
func (l *Lock) ID() ID { return ID{l.h.Key, l.h.Kind.Side} }

// Names returns the keys and the channel of the lock.
func (l *Lock) Names() *wire.Names { return l.h.Names() }

// Channel returns the channel on which a release is announced, or an empty string.
func (l *Lock) Channel() string { return l.h.Names().Channel }

// Locks returns the lock itself. It implements [Member].
func (l *Lock) Locks() []*Lock { return []*Lock{l} }

// Line returns how many attempts of this process wait for the lock, and whether the first of them sleeps and whether it is reached by messages.
func (l *Lock) Line() (waiters int, rests, listens bool) {
	c := l.client
	if l.turns != nil {
		return c.core.Line(l.turns, l.h.Key.Name)
	}
	waiters, rests, channel := c.table.Line(l.h.Key)
	_, confirmed := c.hub.Received(channel)
	return waiters, rests, channel != "" && confirmed
}

// Log logs what happened to the lock.
func (l *Lock) Log(m *notice.Message, err error) {
	l.client.LogHere(notice.Entry{Lock: l.h.Name, Message: m, Err: err})
}

// Check returns what is wrong with the handle itself.
func (l *Lock) Check(op string) error {
	if l == nil || l.client == nil {
		return &fault.OpError{Op: op, What: "of a nil or zero Lock, or of a nil or zero Client", Err: fault.ErrInvalidOption}
	}
	if l.err != nil {
		return l.wrap(l.err, op)
	}
	return nil
}

// Take implements [Member]. It acquires the lock, or re-enters it.
func (l *Lock) Take(ctx context.Context, t Terms) (Held, error) {
	seen := l.span(ctx, &t)
	h, by, err := l.take(ctx, &t, seen)
	if seen != nil {
		t.Group.SawMember(seen)
		seen.End(by, err)
	}
	return h, err
}

// take is Take, for those who may observe it.
func (l *Lock) take(ctx context.Context, t *Terms, seen *report.Span) (Held, report.Acquired, error) {
	if err := l.Check(t.Op); err != nil {
		return nil, report.Acquired{}, err
	}
	w := l.newWait(ctx, t, l.client.cfg.AckTimeout)
	if l.turns == nil {
		a, err := l.acquire(ctx, t, seen, &w)
		if err != nil {
			return nil, report.Acquired{}, err
		}
		return taken{l, a}, heldBy(a), nil
	}
	if err := cmp.Or(t.Err, l.fits(t)); err != nil {
		return nil, report.Acquired{}, l.wrap(err, t.Op)
	}
	h, err := l.acquireByTurns(ctx, t, seen, &w)
	if err != nil {
		return nil, report.Acquired{}, err
	}
	return held{l, h}, report.Acquired{By: true, Reentered: h.Reentered(), Token: h.Token()}, nil
}

// span begins to observe an acquisition of the lock, if anybody observes its client.
func (l *Lock) span(ctx context.Context, t *Terms) *report.Span {
	if l == nil || l.client == nil || l.client.reports == nil {
		return nil
	}
	s := t.Started(l.h.Name, l.h.Kind.Name())
	if l.h.Kind.HasPermits() {
		s.Permits = max(s.Permits, 1)
	}
	return l.client.reports.Begin(ctx, s, t.Group)
}

// heldBy returns what an observer is told of an acquisition.
func heldBy(a *table.Acquisition) report.Acquired {
	return report.Acquired{By: true, Reentered: a.Reentered(), Token: a.Token()}
}

// acquire is take by the lock table.
func (l *Lock) acquire(ctx context.Context, t *Terms, seen *report.Span, w *Wait) (*table.Acquisition, error) {
	waiting, stop := t.waiting(ctx)
	defer stop()
	a, err := l.begin(ctx, waiting, t, seen, w)
	if err != nil {
		return nil, err
	}
	defer l.client.tasks.End()
	return l.attempt(ctx, waiting, t.Op, a, seen, w)
}

// begin begins an operation that acquires the lock, and returns its attempt. The caller must end the operation, unless there is an error.
func (l *Lock) begin(ctx, waiting context.Context, t *Terms, seen *report.Span, w *Wait) (*table.Attempt, error) {
	if err := cmp.Or(t.Err, l.fits(t)); err != nil {
		return nil, l.wrap(err, t.Op)
	}
	if ctx.Err() != nil {
		return nil, l.named(EndOf(ctx), t.Op)
	}
	a := &table.Attempt{
		Handle: &l.h, Lease: t.Lease, Renewed: t.Renews(), ByHold: t.ByHold, Single: w.single, AtLeast: t.AtLeast, Who: l.Who(ctx),
		Ticket: t.Ticket, Wait: waiting, Bound: w.bound, Caller: ctx,
	}
	if seen != nil { // a nil Span must not become a Witness that is not nil
		a.Witness = seen
	}
	if a.Lease == 0 {
		a.Lease = l.client.cfg.Table.WatchdogTimeout
	}
	if end, limited := waiting.Deadline(); limited {
		a.Ends = clock.Of(end)
	}
	if !l.client.tasks.Begin() {
		return nil, l.wrap(fault.ErrClosed, t.Op)
	}
	l.client.used()
	return a, nil
}

// refused returns why an attempt has acquired nothing, given what is known in the end, for how long this process has held the lock, and the error
// of the last step, which may be nil.
func (l *Lock) refused(ctx context.Context, op string, last outcome.Result, heldFor time.Duration, w *Wait, err error) error {
	if err != nil {
		return l.wrap(err, op)
	}
	if before := w.known.At(clock.Now(), l.client.cfg.Table.Floor()); !last.Known() && before.Known() {
		last = before // it stands
	}
	return l.named(l.ended(ctx, last, heldFor), op)
}

// fits returns what is wrong with terms for this kind of lock.
func (l *Lock) fits(t *Terms) error {
	switch n, most := t.Permits, l.h.Kind.MaxPermits; {
	case t.AtLeast != 0 && (l.turns != core.Plain && l.h.Kind.Park == nil || !t.ByHold):
		return errNoAtLeast
	case t.Lease != 0 && l.h.Kind == wire.PlainPermit:
		return errNoLease
	case n == 0: // it wants nothing special
		return nil
	case most == 0:
		return fmt.Errorf("%w: a lock has no permits", fault.ErrInvalidOption)
	case n > most:
		return fmt.Errorf("%w: %d permits out of range [1, %d]", fault.ErrInvalidOption, n, most)
	}
	return nil
}

var errNoAtLeast = fmt.Errorf("%w: AtLeast is for Acquire, TryAcquire, Do and TryDo of plain, fenced, fair and spin locks", fault.ErrInvalidOption)

var errNoLease = fmt.Errorf("%w: the permits of a plain semaphore have no lease", fault.ErrInvalidOption)

// attempt carries out the steps of an attempt. op is the verb of the call.
func (l *Lock) attempt(ctx, waiting context.Context, op string, a *table.Attempt, seen *report.Span, w *Wait) (*table.Acquisition, error) {
	var n notice.List
	c, inner := l.client, ctx
	if seen != nil {
		inner, waiting = seen.Context(ctx), seen.Context(waiting)
		defer func() { seen.Saw(a.Seen) }()
	}
	now := clock.Now()
	for step := c.table.Admit(a, now, &n); ; {
		n.Deliver(c)
		limit := waiting
		if step.Outlives {
			limit = inner
		}
		switch step.Do {
		case table.Ask:
			q, late := c.question(&step, transport.WaitSlot)
			r := c.conn.Ask(limit, q, late)
			now = clock.Now()
			step = c.table.Settle(a, r, now, &n)
		case table.Sleep:
			why := c.sleep(limit, &step)
			now = clock.Now()
			step = c.table.Wake(a, why, now, &n)
		default:
			if step.Got != nil {
				return step.Got, nil
			}
			return nil, l.refused(ctx, op, a.Last, a.HeldFor, w, step.Err)
		}
	}
}

// sleep carries out a step that sleeps, and returns what ended it. The pause is a little longer by chance, so that
// processes with the same lease hint do not all come at once.
func (c *Client) sleep(limit context.Context, step *table.Step) table.Cause {
	if step.Listen != "" {
		c.hub.Listen(step.Listen, step.Heard, step.Since)
	}
	if step.Spares != "" {
		c.hub.Spare(step.Spares)
	}
	d, last := step.Pause, step.Within > 0 && (step.Pause < 0 || step.Within <= step.Pause)
	switch {
	case last:
		d = step.Within
	case d >= 0:
		d = max(d, 50*time.Microsecond)
		d += rand.N(min(d/10, 20*time.Millisecond) + 1)
	}
	closing := c.Stopping()
	if step.Stays {
		closing = c.tasks.Closed()
	}
	why := Sleep(d, step.Wait, step.Heard, limit.Done(), closing)
	switch {
	case c.IsClosed(), !step.Stays && c.IsStopping():
		return table.Closed
	case limit.Err() != nil, last && why == table.ByTime:
		return table.Ended
	}
	return why
}

// Unlock ends one acquisition made by Lock or TryLock: see the root package.
func (l *Lock) Unlock(ctx context.Context) error {
	if err := l.Check("unlock"); err != nil {
		return err
	}
	if l.turns != nil {
		return l.wrap(l.client.core.Unlock(ctx, l.turns, l.h.Key.Name, l.Who(ctx), &l.opened), "unlock")
	}
	var x table.Exit
	var n notice.List
	step := l.client.table.Unlock(&x, &l.h, l.Who(ctx), clock.Now(), &n)
	return l.wrap(l.client.release(ctx, &x, step, &n), "unlock")
}

// release ends one acquisition.
func (l *Lock) release(ctx context.Context, a *table.Acquisition) error {
	var x table.Exit
	var n notice.List
	step := l.client.table.Release(&x, a, clock.Now(), &n)
	return l.wrap(l.client.release(ctx, &x, step, &n), "unlock")
}

// release carries out the steps of an unlock. It does not give up when the caller's context ends. The commands use only the
// values of that context.
func (c *Client) release(ctx context.Context, x *table.Exit, step table.Step, n *notice.List) error {
	return c.exit(lasting(ctx), x, step, n)
}

// lasting returns a context with the values of one of the user that does not end. A context that cannot end is that already.
func lasting(ctx context.Context) context.Context {
	if ctx.Done() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// exit carries out the steps of an exit.
func (c *Client) exit(ctx context.Context, x *table.Exit, step table.Step, n *notice.List) error {
	for {
		n.Deliver(c)
		switch step.Do {
		case table.Ask:
			q, late := c.question(&step, transport.DutySlot)
			r := c.conn.Ask(ctx, q, late)
			step = c.table.SettleRelease(x, r, clock.Now(), n)
		case table.Sleep:
			Sleep(step.Pause, step.Wait, nil, ctx.Done(), nil)
			step = c.table.ResumeRelease(x, clock.Now(), n)
		default:
			return step.Err
		}
	}
}
