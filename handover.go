package rlock

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A hand-over gives the lock from an owner that releases it to the head of its gate in this process: one command, of which
// no other process is told. While an owner of this process holds the lock, the head of its gate therefore does not ask
// Redis, but waits to be handed the lock or to hear how the hold ended.
//
// Others are not starved: after so many hand-overs, or so long after the lock was last offered to all, it is freed and
// announced, and when others were told the head leaves it to them for a moment.

// grace is when the head asks Redis after a message that came while an owner of this process holds the lock. Mostly that is
// the echo of an earlier release, and the lock has been handed on by then.
const grace = 5 * time.Millisecond

// cause is why the head of a gate looks again.
type cause uint8

const (
	byNews    cause = iota // it begins, or something has changed in this process
	byMessage              // its channel had a message, or has just been subscribed
	byTime                 // it has slept for as long as it was to
)

// WithHandOver bounds how often in a row, and for how long, a lock is handed from one owner of this process straight to the
// next one that waits here: after n hand-overs, or when d is over since it was last offered to all, it is freed for every
// process. The defaults are 32 and 5 ms; 0 for either hands nothing over. Fair locks, read locks and read-write locks whose
// writer also reads are never handed over, nor spin locks, whose waiters poll.
func WithHandOver(n int, d time.Duration) Option {
	return func(s *settings) error {
		if n < 0 || n > maxHandOvers || d < 0 || d > maxLease {
			return fmt.Errorf("%w: %d hand-overs within %v are not from 0 to %d within 0 to 100 years",
				ErrInvalidOption, n, d, maxHandOvers)
		}
		s.handOvers, s.handOverTime = n, d
		return nil
	}
}

const maxHandOvers = 1_000_000

// WithLazyHandOver hands plain and write locks over without asking Redis, within the bounds of [WithHandOver], from one
// acquisition without [Lease] to another: the next owner goes on with the holder that Redis has, and with its lease, as long
// as half of that remains. It multiplies the hand-overs of a busy name. What it gives up: a section may begin though the lock
// was lost since it was last offered to all, by force or by a failover, which a hand-over through Redis would find out.
// Fenced locks, and clients with [WithReplicaAcks], are handed over through Redis all the same.
func WithLazyHandOver() Option {
	return func(s *settings) error {
		s.lazy = true
		return nil
	}
}

// offer is a lock that was released while other processes listened.
type offer struct {
	id     nameKey
	at     time.Time
	turn   time.Duration // for how long this process had had it
	others int64         // how many listened, as far as is known
	echoes uint64        // with one more message of its channel than these, somebody has released it since
}

// offers remembers the latest one of a few names. One that is forgotten costs others a turn, and no more.
type offers struct {
	latest [8]offer
	next   int
}

func (o *offers) add(latest offer) {
	at := slices.IndexFunc(o.latest[:], func(old offer) bool { return old.id == latest.id })
	if at < 0 {
		at = o.next
		o.next = (o.next + 1) % len(o.latest)
	}
	o.latest[at] = latest
}

// of returns the latest one of a name, or nil.
func (o *offers) of(id nameKey) *offer {
	for i := range o.latest {
		if o.latest[i].id == id {
			return &o.latest[i]
		}
	}
	return nil
}

// yield returns how long to let others pass after a release by one of them. Of several processes that listen, Redis tells
// the same one first every time; so who had the lock not long ago comes a little later, by a tenth of the time that he had it
// at most.
func (o *offer) yield(now time.Time) time.Duration {
	const least, most = 50 * time.Microsecond, 500 * time.Microsecond // less cannot be slept
	if o.others < 2 || o.turn <= 0 {
		return 0
	}
	round := float64(o.turn) * float64(o.others+1)
	d := min(o.turn/10, most)
	if d = time.Duration(float64(d) * (1 - float64(now.Sub(o.at))/round)); d < least {
		return 0
	}
	return d
}

// tenantOf returns who holds a name exclusively in this process, or nil. It requires mu.
func (c *Client) tenantOf(id nameKey) *possession { return c.tenants[id.family][id.name] }

// tenant returns who holds the name in this process to the exclusion of a possession, or is letting it go; or nil. It
// requires mu.
func (c *Client) tenant(p *possession) *possession {
	if t := c.tenantOf(p.lock.nameKey); t != nil && t.owner != p.owner && (t.usable() || t.stage == releasing) {
		return t
	}
	return nil
}

// consult tells the head of a gate for how long there is nothing to do, because this process knows that asking Redis is in
// vain; 0: it is to ask. It requires mu.
func (c *Client) consult(w *waiter, why cause) time.Duration {
	now := time.Now()
	pause := c.knows(w, why, now)
	if pause <= 0 {
		w.stage, w.askAt = asking, time.Time{}
		return 0
	}
	w.mayRest()
	return pause
}

// knows is consult without what follows from it.
func (c *Client) knows(w *waiter, why cause, now time.Time) time.Duration {
	if w.stage == handing {
		return c.pollInterval // whoever hands it over says when that is settled
	}
	if why == byTime || w.request.lock.kind.channel == "" { // who polls does so whoever holds it: others have but that chance
		return 0
	}
	if t := c.tenant(w.possession); t != nil {
		pause, soon := c.pollInterval, c.standBack // a release that is announced is as good as answered
		if t.stage == held {
			w.request.heldHere(w.possession)
			pause, soon = min(pause, time.Until(t.deadline.time())+t.margin), grace
		}
		if why == byMessage && w.askAt.IsZero() {
			w.askAt = now.Add(soon)
		}
		if !w.askAt.IsZero() {
			pause = min(pause, w.askAt.Sub(now))
		}
		return pause
	}
	o := c.offers.of(w.id)
	if o == nil {
		return 0
	}
	until := o.at.Add(c.standBack)
	if heard, _ := c.pubsub.heard(w.request.lock.wire().channel); heard > o.echoes {
		if why != byMessage {
			return 0
		}
		until = now.Add(o.yield(now))
	}
	if end, limited := w.request.waiting.Deadline(); limited && end.Before(until) {
		return 0
	}
	return until.Sub(now)
}

// refusedHere tells whether another owner of this process holds the lock, so that a single attempt need not be made.
func (r *request) refusedHere(p *possession) bool {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	t := r.client.tenant(p)
	if t == nil || t.stage != held || p.sibling().usable() {
		return false
	}
	if !t.renewing() && time.Since(t.confirmed.time()) > r.client.watchdogTimeout/3 {
		return false // no renewal would tell that it was taken away
	}
	r.heldHere(p)
	return true
}

// heldHere notes that the lock was refused without asking Redis. It requires client.mu.
func (r *request) heldHere(p *possession) {
	r.tried = true // so to say: a waiter whose time is over has been refused
	r.noted(p, outcome{refused: true})
}

// heir returns the head to which a possession that is released now is to be handed, or nil: it is for everybody. It
// requires client.mu.
func (p *possession) heir(now time.Time) *waiter {
	c, k := p.client, p.lock.kind
	g := c.gates[p.lock.nameKey]
	if g == nil || k.handOver == nil || c.closed || c.tenantOf(p.lock.nameKey) != p || !p.usable() || p.unanswered || p.sibling() != nil ||
		int(p.turns) >= c.handOvers || now.Sub(p.offered.time()) >= c.handOverTime {
		return nil
	}
	w := g.queue[0]
	if w.stage != idle || w.request == nil || w.request.lock.kind != k || w.request.waiting.Err() != nil ||
		w.possession.stage != pending { // it has been granted, and is about to leave
		return nil
	}
	w.stage, w.askAt = handing, time.Time{}
	return w
}

// handOver gives the lock to the waiter that heir chose, and tells whether the release is settled by that, with the error
// of the unlock. If it is not, the lock must be released; doubt tells that the hand-over may have been carried out.
func (p *possession) handOver(ctx context.Context, w *waiter) (settled, doubt bool, err error) {
	c, r := p.client, w.request
	lease := r.leaseTime()
	c.mu.Lock()
	next := w.possession
	sent, forces := next.sending(lease), c.forceCount
	c.mu.Unlock()
	script := p.lock.kind.handOver
	got, err := c.ask(ctx, question{
		script: script, name: p.lock.nameKey.name, keys: script.withAbandoned(next.keys()),
		args: []any{next.field, millis(lease), next.number, "", "", "", p.field}, replicated: true,
	})
	given := false
	if err == nil { // else the command goes on, and may yet be carried out
		err, given = got.err, granted(got.reply)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w.answer(next, given, err, uint64(got.reply), sent, forces) //nolint:gosec // a token if it was given
	switch {
	case given:
		if next.stage == held {
			next.turns, next.offered = p.turns+1, p.offered
		}
		p.end(false)
		return true, false, nil
	case err == nil && got.reply == lastGone:
		p.end(false)
		return true, false, fmt.Errorf("%w: %s", ErrLost, lostInRedis)
	}
	return false, unanswered(err) || halfDone(err), nil
}

// pass gives the lock to the waiter that heir chose without asking Redis, if it may: the next possession becomes the one
// whose holder Redis has. It requires client.mu.
func (p *possession) pass(w *waiter, now time.Time) bool {
	c, next := p.client, w.possession
	lease := c.watchdogTimeout
	if !c.lazy || !p.lock.kind.lazy || c.acks > 0 || p.lease != lease || w.request.lease > 0 || next.unanswered || next.orphan {
		return false
	}
	// As if the lease that remains had been asked for when it would end at that moment, for it ends no later than that.
	sent := p.deadline.add(margin(lease) - lease).time()
	if sent.After(now) {
		sent = now
	}
	if now.Sub(sent) > lease/2 {
		return false
	}
	next.field, next.number, next.mayLast = p.field, p.number, p.mayLast // it was never granted by its own
	w.answer(next, true, nil, 0, sent, c.forceCount)                     // which cannot fail while half of the lease remains
	next.turns, next.offered = p.turns+1, p.offered
	if c.maxHold > 0 {
		next.maxHold = instantOf(now).add(c.maxHold)
		c.watchdog.plan(next)
	}
	p.end(false)
	return true
}

// lastGone is the answer of a hand-over by a holder that Redis does not have.
const lastGone = -1

// answer takes in what came of handing the lock to the waiter. It requires client.mu.
func (w *waiter) answer(next *possession, given bool, err error, token uint64, sent time.Time, forces int) {
	switch {
	case w.stage == gone: // and so is the next possession, with a release of its own
	case given && err == nil:
		w.stage = handed
		w.entry, w.failed = w.request.grant(next, token, sent, forces)
		next.client.gates[w.id].last = outcome{refused: true} // for those behind
	case given: // but replicas did not acknowledge it
		w.stage, w.failed = handed, err
		next.orphan = true
	default:
		w.stage = idle
		next.unanswered = next.unanswered || unanswered(err)
	}
	w.alert()
}
