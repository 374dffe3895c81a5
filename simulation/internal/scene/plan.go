package scene

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock"
)

// plan holds the random choices for a turn.
type plan struct {
	of       *target
	reads    bool
	permits  int
	try      bool
	wait     time.Duration // zero means no limit
	deadline time.Duration // of the context; zero means none
	cancel   time.Duration // until the context is canceled; zero means never
	lease    time.Duration // zero means renewed
	renewed  time.Duration // the lease that is renewed; zero means that of the client
	atLeast  time.Duration // zero means that the lock is free once it is unlocked
	hold     time.Duration
	extend   time.Duration   // zero means that the lease is not extended
	again    bool            // the owner acquires a second time
	ticket   time.Duration   // the hold goes to another process, with a ticket that is good for so long; zero means that it does not
	past     context.Context //nolint:containedctx // of a hold that is over; nil: another context
	visit    int             // what the owner does meanwhile
	verb     int             // with which methods
	unlocks  int             // with which context
	owned    bool            // the context has an owner
	bare     bool            // the handle of a fenced lock has no tokens
	looks    bool            // the owner waits for the end of the hold
}

// String is the plan for a reader of the log.
func (p *plan) String() string {
	all := []string{fmt.Sprintf("for %v", p.hold)}
	for _, c := range []struct {
		is   bool
		text string
		args []any
	}{
		{p.reads, "to read", nil},
		{p.bare, "without a token", nil},
		{p.permits > 1, "%d permits", []any{p.permits}},
		{p.try, "without waiting", nil},
		{p.wait > 0, "waits for %v", []any{p.wait}},
		{p.deadline > 0, "its context ends after %v", []any{p.deadline}},
		{p.cancel > 0, "its context is canceled after %v", []any{p.cancel}},
		{p.past != nil, "with the context of a hold that is over", nil},
		{p.lease > 0, "with a lease of %v", []any{p.lease}},
		{p.renewed > 0, "with a renewed lease of %v", []any{p.renewed}},
		{p.atLeast > 0, "at least for %v", []any{p.atLeast}},
		{p.again, "and again", nil},
		{p.extend > 0, "extended by %v", []any{p.extend}},
		{p.ticket > 0, "and exports it for %v", []any{p.ticket}},
	} {
		if c.is {
			all = append(all, fmt.Sprintf(c.text, c.args...))
		}
	}
	return strings.Join(all, ", ")
}

// limited reports whether the attempt gives up by itself.
func (p *plan) limited() bool { return p.try || p.wait+p.deadline+p.cancel > 0 }

// asksLate reports whether the owner asks for the context of its hold only when it is about to unlock.
func (p *plan) asksLate() bool { return p.visit > 9 && !p.again && p.ticket == 0 }

func (w *worker) draw(t *target) plan {
	const ms = time.Millisecond
	p := plan{of: t, permits: 1, hold: w.upTo(w.Hold), looks: w.one(2), visit: w.random.IntN(16), verb: w.random.IntN(10), unlocks: w.random.IntN(6), owned: w.one(8), past: w.afterwards()}
	switch k := w.random.IntN(100); {
	case k < 10:
		p.try = true
	case k < 25:
		p.wait = ms + w.upTo(3*time.Second)
	case k < 32:
		p.deadline = ms + w.upTo(3*time.Second)
	case k < 36:
		p.cancel = ms + w.upTo(3*time.Second)
	case k < 40:
		p.deadline = time.Microsecond + w.upTo(3*ms)
	}
	w.hastens(&p)
	switch k := w.random.IntN(100); {
	case k < 5:
		p.hold *= 20
	case k < 7:
		p.hold = w.upTo(40 * time.Second)
	}
	if t.kind != kindPlain { // which has no leases
		k := w.random.IntN(100)
		if slices.Contains(w.Leans, leanLeases) {
			k /= 4
		}
		switch {
		case k < 10:
			if p.lease = 500*ms + w.upTo(4*time.Second); w.one(3) { // it runs out
				p.hold = p.lease + w.upTo(8*time.Second)
			}
		case k < 15:
			p.renewed = 12*time.Second + w.upTo(10*time.Second) // an outage is shorter than that
		}
	}
	switch {
	case t.shares():
		p.reads = w.random.IntN(3) > 0
	case t.counts():
		p.permits = 1 + w.random.IntN(permits)
	}
	p.bare = t.kind == kindFenced && w.one(10)
	single := t.kind == kindLock || t.kind == kindFenced || t.fair() || t.kind == kindSpin
	switch k := w.leans(w.random.IntN(100)); {
	case k < ticketsFrom && single:
		p.atLeast = 10*ms + w.upTo(5*time.Second)
		w.cutsItFine(&p)
	case k < againFrom && (single && !p.bare || t.shares() && !p.reads):
		p.ticket = w.ticketLease()
	case k < extendsFrom && !t.counts() && !t.group():
		p.again = true
	case (k < extendsTo || (p.lease > 0 || w.Hold > 10*time.Second) && k < 2*extendsTo) && t.kind != kindPlain:
		if p.extend = 100*ms + w.upTo(10*time.Second); w.one(3) && !w.leavesLocks() && !w.deletes() {
			p.extend = time.Minute + w.upTo(time.Hour)
		}
	}
	return p
}

// unwanted is how long a ticket is good at most that nobody adopts.
const unwanted = 4 * time.Second

// ticketLease draws how long a ticket is good. If its owner may die, others wait for it.
func (w *worker) ticketLease() time.Duration {
	all := []time.Duration{5 * time.Second, 20 * time.Second, time.Minute}
	switch {
	case !w.loses() && w.one(3):
		return 50*time.Millisecond + w.upTo(unwanted-50*time.Millisecond)
	case w.leavesLocks():
		all = all[:2]
	case w.loses():
		all = all[2:] // so that a ticket that nobody gets is still there when that counts as one
	}
	return all[w.random.IntN(len(all))]
}

// leavesLocks reports whether a scene may leave locks to their leases, because their owners die, or because a server forgets that they were freed.
func (s *Scene) leavesLocks() bool {
	return slices.ContainsFunc(s.Nemeses, func(n string) bool {
		return slices.Contains([]string{nemesisKill, nemesisWaiter, nemesisClose, nemesisShutdown, nemesisFailover, nemesisRestore}, n)
	})
}

// deletes reports whether somebody deletes locks in a scene: nobody tells those who wait, who sleep until the lease ends that they know of.
func (s *Scene) deletes() bool {
	return slices.ContainsFunc(s.Nemeses, func(n string) bool {
		return slices.Contains([]string{nemesisDelete, nemesisFlushAll, nemesisAmnesia}, n)
	})
}

// afterwards returns the context of a hold of the process that is over, now and then. Other workers may have the same one.
func (w *worker) afterwards() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.past) == 0 || !w.one(5) {
		return nil
	}
	return w.past[w.random.IntN(len(w.past))]
}

// keeps keeps the context of a hold that is over.
func (w *worker) keeps(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.past = append(w.past, ctx); len(w.past) > 2 {
		w.past = w.past[1:]
	}
}

// watchdog returns the lease that a renewal gives.
func (p *plan) watchdog() time.Duration { return cmp.Or(p.renewed, watchdogTimeout) }

// terms returns the context and the options of the attempt. The function ends the context.
func (w *worker) terms(p *plan) (context.Context, []rlock.AcquireOption, context.CancelFunc) {
	var opts []rlock.AcquireOption
	if p.permits > 1 {
		opts = append(opts, rlock.Permits(p.permits))
	}
	if p.wait > 0 {
		opts = append(opts, rlock.Wait(p.wait))
	}
	if p.lease > 0 {
		opts = append(opts, rlock.Lease(p.lease))
	}
	if p.renewed > 0 {
		opts = append(opts, rlock.RenewedLease(p.renewed))
	}
	if p.atLeast > 0 {
		opts = append(opts, rlock.AtLeast(p.atLeast))
	}
	ctx, end := context.WithCancel(w.ctx)
	if p.owned {
		ctx = rlock.EnsureOwner(ctx)
	}
	if p.past != nil { // the end of the process ends it, too
		past, endPast := context.WithCancel(context.WithoutCancel(p.past))
		stop := context.AfterFunc(ctx, endPast)
		ctx, end = past, joined(end, endPast, func() { stop() })
	}
	switch {
	case p.deadline > 0:
		limited, endLimited := context.WithTimeout(ctx, p.deadline)
		return limited, opts, joined(end, endLimited)
	case p.cancel > 0:
		timer := time.AfterFunc(p.cancel, end)
		return ctx, opts, joined(end, func() { timer.Stop() })
	}
	return ctx, opts, end
}

// joined returns a function that calls all functions.
func joined(all ...func()) func() {
	return func() {
		for _, f := range all {
			f()
		}
	}
}
