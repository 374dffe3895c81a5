package core

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// comeFirst waits until this attempt is the one of its process that asks, or has the lock.
func (a *attempt) comeFirst() (mine turn, ok bool) {
	c := a.client
	c.mu.Lock()
	c.expect(a)
	if a.asks == nil && a.heldHere() == nil {
		a.asks = a
		c.mu.Unlock()
		return turn{}, true
	}
	a.turn = make(chan turn, 1)
	a.queue = append(a.queue, a)
	c.mu.Unlock()
	a.out.Seen.Here = true
	a.asleep()
	select {
	case mine = <-a.turn:
		return mine, !mine.unset
	case <-a.t.Context(true).Done():
	case <-c.Stopping:
	}
	c.mu.Lock()
	i := slices.Index(a.queue, a)
	if i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		return turn{}, false
	}
	a.gone = true // somebody makes it the next one just now: its turn goes on to another one
	c.Tasks.Background(func() {
		if mine := <-a.turn; mine.hold != nil {
			_ = mine.hold.Unlock(context.Background())
		} else {
			a.stood, a.open = mine.stood, mine.open
			a.leave()
		}
	})
	return turn{}, false
}

// subscribed waits until this client listens, or so long that asking is better. It reports whether to go on.
func (a *attempt) subscribed(t *topic) bool {
	a.asleep()
	timer := time.NewTimer(firstPoll)
	defer timer.Stop()
	for !a.hears() {
		if err := a.refused(t); err != nil {
			a.out.Err = a.t.Denied(err)
			return false
		}
		select {
		case <-a.inbox: // it may be confirmed; whatever else it says, the next question finds
		case <-t.Changed:
		case <-timer.C:
			return true
		case <-a.client.Stopping:
			return false
		case <-a.limit().Done():
			return false
		}
	}
	return true
}

// standBack waits while the lock is left to others. It reports whether to go on.
func (a *attempt) standBack() bool {
	var d time.Duration
	a.note(func() {
		if until, ok := a.client.backs.Of(a.key); ok {
			d = time.Until(until)
		}
	})
	return d <= 0 || a.pause(d)
}

// pause waits, and reports whether to go on.
func (a *attempt) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.limit().Done():
	case <-a.client.Stopping:
	}
	return false
}

// sleep waits for the lock, or for a reason to ask, and reports whether that was the poll, which nothing had brought forward, and whether to go on.
func (a *attempt) sleep(t *topic, poll time.Duration) (h *Hold, timed, ok bool) {
	c := a.client
	a.asleep()
	a.note(func() { a.rests = true })
	defer a.note(func() { a.rests = false })
	if a.first || c.cfg.Publish == "n" {
		poll = c.cfg.Poll
	}
	poll += rand.N(poll / 10)
	whole := poll
	if a.said.ttl >= 0 {
		poll = min(poll, a.said.ttl+time.Duration(max(a.said.place, 0))*spread+rand.N(5*time.Millisecond))
	}
	if a.open > 0 {
		poll = min(poll, time.Duration(a.open-a.now())*time.Microsecond+time.Millisecond)
	}
	end := time.Now().Add(poll)
	told, polls := time.Time{}, poll == whole // when it was told that the others have their turn; nothing has brought its question forward
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil, polls, true
		case <-a.t.Context(true).Done():
			return nil, false, false
		case <-c.Stopping:
			return nil, false, false
		case <-t.Changed:
			return nil, false, true
		case m := <-a.inbox:
			next := end
			switch m.kind {
			case granted:
				return a.onGranted(m), false, true
			case askAgain:
				return nil, false, true
			case first:
				a.first = true
				if m.term < headStart {
					told = time.Now()
				}
				next = time.Now().Add(min(max(m.term, headStart), firstPoll) + rand.N(time.Millisecond)) // from now on it asks as the first one
			case free:
				switch {
				case time.Since(told) < headStart: // and its own timer ends just after
					continue
				case a.first, c.cfg.Publish == "n":
					return nil, false, true
				}
				next = time.Now().Add(50*time.Millisecond + rand.N(100*time.Millisecond))
			}
			if next.Before(end) {
				end, polls = next, false
				timer.Reset(time.Until(end))
			}
		}
	}
}

// onGranted takes a message that the lock is the attempt's. It returns nil if it is better to ask: because the age of the grant is not certain,
// replicas have to acknowledge it, or the whole of a fixed lease was promised.
func (a *attempt) onGranted(m message) *Hold {
	from := a.clock.earliest(m.at)
	age := time.Since(from)
	if age < 0 || age > m.term/4 || a.client.cfg.Acks || m.at < a.forcedAt() || !a.t.Renewed && m.term < a.t.Lease {
		return nil
	}
	h, _ := a.take(clock.Of(from), m.term, m.token, m.at, false)
	return h
}
