package core

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
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
	for {
		if h, out := c.reenter(t); h != nil || out.Err != nil || out.ended {
			return h, out
		}
		if isClosed(c.Stopping) {
			return nil, Outcome{Err: fault.ErrClosed}
		}
		a, first := c.newAttempt(t)
		if first != nil {
			if out, over := first.await(t); over {
				return nil, out
			}
			continue
		}
		h := a.acquire()
		c.mu.Lock()
		a.conclude()
		a.disown()
		c.mu.Unlock()
		if h == nil && !a.gone {
			a.leave()
		}
		if h != nil {
			t.Context = nil // it keeps what the caller's context has in memory
		}
		return h, a.out
	}
}

func (a *attempt) acquire() *Hold {
	c := a.client
	switch {
	case a.t.Ticket != "":
		return a.adopt()
	case a.t.Single:
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
func (n *name) heldHere() *grant {
	if n.held == nil || n.held.over() {
		return nil
	}
	return n.held
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
	a.out.Last = a.sofar()
	if g := a.heldHere(); g != nil && g.attempt != a {
		a.out.HeldFor = max(clock.Now().Sub(g.since), 1)
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
	delay := a.t.Spin.First                                                                         // it is told nothing, if that is not zero
	if delay == 0 && (a.stood || refused || a.lingers() || a.turn != nil && c.cfg.Publish == "n") { // the one before it has heard of a release, maybe
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
			if failures++; !a.pause(clock.Backoff(failures, time.Second, nil)) {
				return nil
			}
			continue
		}
		failures, wrong = 0, 0
		if delay > 0 {
			if a.asleep(); !a.pause(delay + rand.N(delay/10+1)) {
				return nil
			}
			delay = min(2*delay, a.t.Spin.Longest)
			continue
		}
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
