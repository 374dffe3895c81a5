package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

const (
	firstTerm = 3 * time.Second  // for which a release gives the lock to a waiter, see pass in lock.lua
	firstPoll = 3 * time.Second  // after which a waiter that has heard nothing asks; each time by its timer it waits for twice as long,
	lastPoll  = 30 * time.Second // but not for more than this; the first of the line always asks after the first one
	headStart = 2 * time.Millisecond
	// spread is by how much later each place of the line asks when a lease ends.
	spread = 50 * time.Millisecond
)

// Acquire takes a lock, or returns why not: then nothing is held, and nothing stays behind. The caller has begun a task.
func (c *Client) Acquire(t *Terms) (*Hold, Outcome) {
	a := c.newAttempt(t)
	h := a.acquire()
	c.mu.Lock()
	a.conclude()
	c.mu.Unlock()
	if h == nil && !a.gone {
		a.leave()
	}
	if h != nil {
		t.Context = nil // it keeps what the caller's context has in memory
	}
	return h, a.out
}

func (a *attempt) acquire() *Hold {
	c := a.client
	if a.t.Single {
		return a.try()
	}
	refused := false
	if a.kind.Shared && !a.isWaitedFor() && !a.lingers() { // others may have left enough
		if !a.standBack() {
			return nil
		}
		h, next := a.ask("try")
		if h != nil || next == over {
			return h
		}
		if refused = next == wait; a.stood || a.open != 0 { // it may have it, or get it, so it does not wait behind others
			return a.contend(refused)
		}
	}
	mine, ok := a.comeFirst()
	switch {
	case ok && mine.hold != nil:
		a.out.Seen.HandedOver = true
		return mine.hold
	case ok:
		a.stood, a.open = a.stood || mine.stood, max(a.open, mine.open)
		a.note(func() { a.told = a.told || a.known.At(clock.Now(), c.floor()).Known() }) // by those before it
		return a.contend(refused)
	case !a.gone && a.isUnknown(): // nobody of this process has heard of the lock yet
		h, _ := a.ask("try")
		return h
	}
	return nil
}

// try asks once, for itself alone.
func (a *attempt) try() *Hold {
	c := a.client
	c.mu.Lock()
	held := a.heldHere()
	if held == nil {
		c.expect(a)
	} else {
		a.known.RefusedUntil(held.term.Ends())
		a.out.Seen.Here = true
	}
	c.mu.Unlock()
	if held != nil || !a.standBack() {
		return nil
	}
	h, next := a.ask("try")
	if next == again { // the clock was wrong, and is right now
		h, next = a.ask("try")
	}
	if next == again || next == later {
		a.note(func() { a.known.Failed(fault.ErrNoAnswer) })
	}
	return h
}

// expect notes that an attempt may be granted the lock. The client's mutex must be held.
func (c *Client) expect(a *attempt) { a.live[a.number] = a }

// heldHere returns the hold because of which nobody else of this process can have the lock, or nil. The client's mutex must be held.
func (n *name) heldHere() *Hold {
	if n.kind.Shared || n.asks == nil || n.asks.hold == nil || n.asks.hold.over() {
		return nil
	}
	return n.asks.hold
}

func (a *attempt) isWaitedFor() bool {
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	a.client.expect(a)
	return a.asks != nil
}

// note changes what the client's mutex guards.
func (a *attempt) note(change func()) {
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	change()
}

// conclude notes what is known at the end of the attempt: by its own questions, by those of the one that asks for all of this process, or
// because this process holds the lock. The client's mutex must be held.
func (a *attempt) conclude() {
	now, floor := clock.Now(), a.client.floor()
	a.out.Last = a.known.At(now, floor)
	if h := a.heldHere(); h != nil && h.attempt != a {
		a.out.HeldFor = max(now.Sub(h.since), 1)
		if !a.out.Last.Known() {
			a.out.Last = a.known.RefusedUntil(h.term.Ends()).At(now, floor)
		}
	}
	if a.asks != nil && a.asks != a && !a.out.Last.Known() {
		a.out.Last = a.asks.known.At(now, floor)
	}
	if a.sleeps {
		a.sleeps = false
		a.client.counts.Waiting--
	}
}

// floor is how long a question may go without a reply before the silence counts as an outage.
func (c *Client) floor() time.Duration { return c.cfg.CommandTimeout / 5 }

// isUnknown reports whether an attempt whose wait is over has not heard of the lock, and may still ask.
func (a *attempt) isUnknown() (unknown bool) {
	a.note(a.conclude)
	return !a.out.Last.Known() && a.t.Context(false).Err() == nil && !isClosed(a.client.Stopping) && a.t.Bound > clock.Now()
}

// asleep counts the attempt among those that wait.
func (a *attempt) asleep() {
	if a.out.Seen.Slept == 0 {
		a.out.Seen.Slept = clock.Now()
	}
	if !a.sleeps {
		a.sleeps = true
		a.note(func() { a.client.counts.Waiting++ })
	}
}

// contend asks until the lock is held, or the wait ends. refused means that it has been refused just now.
func (a *attempt) contend(refused bool) *Hold {
	c := a.client
	a.inboxed()
	var t *topic
	defer func() {
		if t != nil {
			a.unlisten(t)
		}
	}()
	poll, failures, wrong := c.cfg.Poll, 0, 0
	if a.stood || refused || a.lingers() || a.turn != nil && c.cfg.Publish == "n" { // the one before it has heard of a release, maybe
		if t = a.listen(); !a.subscribed(t) {
			return nil
		}
	}
	for a.standBack() {
		epoch := c.Hub.Epoch(a.own)
		h, next := a.ask(a.mode(t))
		switch {
		case h != nil:
			return h
		case next == over, a.ended():
			return nil
		case next == again && wrong < 3:
			wrong++
			continue
		case next == later, next == again:
			failures++
			if !a.pause(clock.Backoff(failures, time.Second, nil)) {
				return nil
			}
			continue
		}
		failures, wrong = 0, 0
		if t == nil {
			t = a.listen()
		}
		if !a.stood && c.cfg.Publish != "n" { // it may stand in the line once it is sure to hear of its turn
			if !a.subscribed(t) {
				return nil
			}
			continue
		}
		h, timed, ok := a.rest(t, epoch, poll)
		if h != nil || !ok {
			return h
		}
		if timed {
			poll = min(2*poll, lastPoll)
		}
	}
	return nil
}

// rest is sleep, unless nobody would wake the attempt. epoch is that of its channel when it asked.
func (a *attempt) rest(t *topic, epoch uint64, poll time.Duration) (h *Hold, timed, ok bool) {
	if err := a.refused(t); err != nil {
		a.out.Err = a.t.Denied(err)
		return nil, false, false
	}
	if a.said.deaf {
		a.client.Hub.Unheard(a.own, epoch)
	}
	return a.sleep(t, poll)
}

// inboxed has messages reach the attempt.
func (a *attempt) inboxed() { a.note(func() { a.inbox = make(chan message, 16) }) }

// ended reports whether the wait is over. Nobody waits for less than the reply to the first question.
func (a *attempt) ended() bool {
	return isClosed(a.client.Stopping) || a.limit().Err() != nil || !a.told && a.t.Bound != 0 && clock.Now() >= a.t.Bound
}

// limit returns the context that bounds what the attempt does next.
func (a *attempt) limit() context.Context {
	return a.t.Context(a.told)
}

// mode returns how to ask.
func (a *attempt) mode(t *topic) string {
	switch {
	case a.stood:
		return "again"
	case t != nil && a.lingers():
		return "new"
	}
	return "try"
}

// next is what to do after a question.
type next byte

const (
	over  next = iota // nothing
	again             // ask at once: the clock was wrong, or the place is lost
	later             // ask after a pause: nobody could say
	wait              // it is refused
)

// said is what Redis said when it refused.
type said struct {
	ttl   time.Duration // of the lease in the way; negative means that it is not known
	place int64
	deaf  bool // the server that decides does not hear this client
}

// ask asks once, and is the one place that classifies a reply. A hold means that the lock was acquired.
func (a *attempt) ask(mode string) (*Hold, next) {
	c := a.client
	until := a.until()
	q := transport.Question{Call: a.acquireCall(mode, until), Slot: transport.WaitSlot, Stop: c.Stopping, Acked: true, Number: uint64(a.number)}
	if !a.told && a.t.Bound != 0 {
		q.Within = max(a.t.Bound.Sub(clock.Now()), time.Millisecond)
	}
	a.out.Seen.Questions++
	a.note(func() { a.known.Asked(q.Number, clock.Now()) })
	r, sent := a.send(a.limit(), q, a)
	if r.Err != nil {
		return nil, a.failed(r.Err, mode, until)
	}
	if r.List == nil {
		return a.take(clock.Of(sent), a.t.Lease, r.N, true)
	}
	if r.List[1] > a.open {
		a.open = 0 // nothing of its earlier commands can come any more
	}
	switch r.List[0] {
	case 0:
		a.told = true
		return nil, a.onRefused(r.List, mode)
	case -1:
		a.told, a.stood, a.first = true, false, false
	}
	return nil, again
}

// Late takes the reply to a question that came after its caller had left: Redis answers, so the silence of others counts from now.
func (a *attempt) Late(number uint64, r wire.Reply, now clock.Instant) {
	if r.Err != nil && !r.Err.Replied() {
		return
	}
	a.note(func() {
		if n := a.client.names[a.key]; n != nil {
			for _, other := range n.live {
				other.known.Late(number, now)
			}
		}
	})
}

// onRefused takes the reply of a refusal.
func (a *attempt) onRefused(reply []int64, mode string) next {
	unset := a.kind == Permits && reply[5] < 0
	a.note(func() {
		if a.known.Refused(); unset {
			a.known.NotSetUp()
			a.tellUnset()
		}
	})
	if ghost := reply[5]; ghost > 0 {
		a.client.exorcise(a, ghost)
	}
	a.stood, a.first = reply[3] >= 0, reply[3] == 0
	a.said = said{time.Duration(reply[2]) * time.Millisecond, reply[3], reply[4] == 0 && mode != "try"}
	if unset && a.t.SetsUp {
		return over
	}
	return wait
}

// tellUnset has those who wait behind this attempt, and whose callers set the semaphore up, do so. The client's mutex must be held.
func (a *attempt) tellUnset() {
	a.queue = slices.DeleteFunc(a.queue, func(other *attempt) bool {
		if a.asks != a || !other.t.SetsUp {
			return false
		}
		other.known.NotSetUp()
		other.turn <- turn{unset: true}
		return true
	})
}

// failed takes the error of a question.
func (a *attempt) failed(err *fault.Error, mode string, until int64) next {
	switch left := a.limit().Err() != nil || isClosed(a.client.Stopping); {
	case err.InDoubt():
		a.open = max(a.open, until)
		a.stood = a.stood || mode == "new" // perhaps; it asks whether it does
		if left && !err.TimedOut() {
			return over
		}
	case errors.Is(err, fault.ErrNotSent) && left:
		if errors.Is(err, fault.ErrNoConnection) {
			a.note(a.known.Unsent)
		}
		return over // nothing was tried
	case err.Fate == fault.Partial, err.Fate == fault.Unreplicated:
		a.stood = true // its release is not to be forgotten
	}
	a.told = true
	a.note(func() { a.known.Failed(err) })
	if a.t.Single || !err.Transient {
		a.out.Err = a.t.Denied(err)
		return over
	}
	return later
}

// take makes the attempt a hold, which Redis has had since a moment for a term, unless little is left of that. told means that Redis said so in
// a reply.
func (a *attempt) take(from clock.Instant, term time.Duration, token int64, told bool) (*Hold, next) {
	if lease.Late(from, term, clock.Now()) {
		a.stood = true // its release is not to be forgotten
		err := fault.LeaseTooShort(term, clock.Now().Sub(from))
		a.note(func() { a.known.Failed(err) })
		if a.t.Single {
			a.out.Err = err
			return nil, over
		}
		return nil, later
	}
	h := a.newHold(from, term, token)
	if h == nil { // the client shuts down
		a.stood, a.out.Err = true, fault.ErrClosed
		return nil, over
	}
	a.out.Seen.Granted = !told
	return h, over
}
