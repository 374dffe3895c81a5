// Package latch decides for the callers of one process that await count-down latches: which of them asks Redis, and which go
// on. It does no I/O, starts no goroutine and reads no clock.
//
// All callers that await one latch share one contender, the first of them. It asks when somebody comes, after each message and
// confirmation, and every poll interval. A count that is not positive lets everybody through who came before the question was
// sent. The message "0" lets those through who are sure to have come before the latch opened: see [Set.Opened].
package latch

import (
	"slices"
	"sync"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/queue"
)

// Set has the latches that callers of one client await. It is safe for concurrent use. The zero value is not usable: see [New].
type Set struct {
	cfg *config.Config

	mu     sync.Mutex // a leaf; guards what follows, all latches and all waiters
	joined uint64     // how many waiters have joined
	byName map[string]*latch
}

// latch is one latch that callers await. It is in the set as long as it has members.
type latch struct {
	channel  string
	waiters  []*Waiter // in order of arrival; the first one asks
	members  int       // the waiters, and those that were let through and have not left yet
	wake     chan struct{}
	listens  bool          // whether wake was given out to listen with
	orders   uint64        // how many subscriptions had been ordered at most when one of them came; they may come out of order
	asked    uint64        // how many questions were sent
	look     bool          // whether there is a reason to ask
	failures int           // how many questions have failed in a row
	next     clock.Instant // when to ask at the latest; after failures, at the earliest
	known    outcome.Record
}

// Waiter is a caller that awaits a latch. Its methods belong to one goroutine.
type Waiter struct {
	set     *Set
	latch   *latch
	number  uint64
	orders  uint64 // how many subscriptions had been ordered when it came
	before  uint64 // how many questions had been sent when it came
	asks    uint64 // the number of its latest question
	limited bool
	told    bool
	through bool
	err     error
	bell    queue.Bell
}

// New returns an empty set.
func New(cfg *config.Config) *Set { return &Set{cfg: cfg, byName: make(map[string]*latch)} }

// Len returns how many latches are awaited.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byName)
}

// Ready returns how many callers await the latch of a channel, and reports whether [Set.Opened] with this order would let
// all of them through.
func (s *Set) Ready(channel string, order uint64) (waiting int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byName[channel]
	if l == nil {
		return 0, true
	}
	return len(l.waiters), !slices.ContainsFunc(l.waiters, func(w *Waiter) bool { return w.orders >= order })
}

// Join adds a caller that awaits the latch of a channel. orders is how many subscriptions the hub has ordered so far. A limited
// waiter is woken when it is told that the latch is closed. Every waiter must leave.
func (s *Set) Join(channel string, orders uint64, limited bool) *Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byName[channel]
	if l == nil {
		l = &latch{channel: channel, wake: make(chan struct{}, 1)}
		s.byName[channel] = l
	}
	s.joined++
	w := &Waiter{set: s, latch: l, number: s.joined, orders: orders, before: l.asked, limited: limited}
	l.members++
	l.waiters = append(l.waiters, w)
	l.orders = max(l.orders, orders)
	l.look = true
	l.ring()
	return w
}

// ring has the first waiter look again.
func (l *latch) ring() {
	if len(l.waiters) > 0 {
		l.waiters[0].bell.Ring()
	}
}

// Moment returns a number for [Set.Seen].
func (s *Set) Moment() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

// Seen takes notice that the latch of a channel was open after a moment. Everybody goes on who came before that.
func (s *Set) Seen(channel string, moment uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(channel, func(w *Waiter) bool { return w.number <= moment })
}

// Opened takes a message that the latch of a channel has opened. The message may have been on its way for a while: it may be
// about an earlier round, in which a caller who waits now did not wait yet. So it lets only those through who came before the
// subscription was ordered that brought it, given the number of that order. Everybody else asks, as after any message.
func (s *Set) Opened(channel string, order uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(channel, func(w *Waiter) bool { return w.orders < order })
}

// pass lets waiters through.
func (s *Set) pass(channel string, may func(*Waiter) bool) {
	l := s.byName[channel]
	if l == nil {
		return
	}
	l.remove(func(w *Waiter) bool {
		if may(w) {
			w.through = true
		}
		return w.through
	})
}

// remove removes waiters, and rings for them.
func (l *latch) remove(gone func(*Waiter) bool) {
	l.waiters = slices.DeleteFunc(l.waiters, func(w *Waiter) bool {
		if !gone(w) {
			return false
		}
		w.bell.Ring()
		return true
	})
	l.ring()
}

// Step is what a waiter does next.
type Step struct {
	Do Do
	// Err is, for Done, why Redis will not answer. Nil means that the latch was open.
	Err error
	// Bell is, for Sleep, rung when the waiter must look again.
	Bell <-chan struct{}
	// Wake is, for Sleep, the channel on which the one waiter that asks hears messages. Nil means another waiter.
	Wake chan struct{}
	// Listen says that nobody listens with Wake yet, and that this waiter has to see to that.
	Listen bool
	// Orders is how many subscriptions had been ordered when the last waiter came: messages of a later one are about all of them.
	Orders uint64
	// Until is when the waiter that asks must look again.
	Until clock.Instant
}

// Do is what a waiter does.
type Do uint8

// What a waiter does.
const (
	Sleep Do = iota
	Ask
	Done
)

// Next returns what the waiter does next.
func (w *Waiter) Next(now clock.Instant) Step {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	l := w.latch
	switch {
	case w.through || w.err != nil:
		return Step{Do: Done, Err: w.err}
	case l.waiters[0] != w:
		return Step{Bell: w.bell.C()}
	case l.look && l.failures == 0, now >= l.next:
		l.look = false
		l.asked++
		w.asks = l.asked
		l.known.Asked(0, now)
		return Step{Do: Ask}
	}
	s := Step{Bell: w.bell.C(), Wake: l.wake, Listen: !l.listens, Orders: l.orders, Until: l.next}
	l.listens = true
	return s
}

// Told reports whether Redis has said since the waiter came that the latch is closed.
func (w *Waiter) Told() bool {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	return w.told
}

// OnMessage takes notice of a token in [Step.Wake].
func (w *Waiter) OnMessage() {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	w.latch.look = true
	if first := w.latch.waiters; len(first) > 0 && first[0] != w {
		w.latch.ring() // this one has been let through, and the first one has to look
	}
}

// Answered takes the count that Redis has replied to the waiter's question.
func (w *Waiter) Answered(count int64, now clock.Instant) {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	l := w.latch
	l.failures, l.next = 0, now.Add(w.set.cfg.Poll())
	if count <= 0 {
		l.known.Answered()
		w.set.pass(l.channel, w.covers)
		return
	}
	l.known.Refused()
	for _, other := range slices.Backward(l.waiters) {
		if !w.covers(other) {
			continue
		}
		if other.told {
			return // and so is everybody before it
		}
		other.told = true
		if other.limited {
			other.bell.Ring()
		}
	}
}

// covers reports whether another waiter came before the waiter's latest question was sent.
func (w *Waiter) covers(other *Waiter) bool { return other.before < w.asks }

// Failed takes notice that the waiter's question failed. If waiting may help, it is asked again after a pause. Otherwise
// everybody ends with the error who came before it was sent.
func (w *Waiter) Failed(err *fault.Error, now clock.Instant) {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	l := w.latch
	l.known.Failed(err)
	if err.Transient || err.InDoubt() {
		l.failures++
		l.look, l.next = true, now.Add(w.set.cfg.Retry(l.failures))
		return
	}
	l.look, l.next = true, 0
	l.remove(func(other *Waiter) bool {
		if !other.through && w.covers(other) {
			other.err = err
		}
		return other.err != nil
	})
}

// Abandoned takes notice that the waiter stopped waiting for the reply to its question. unsent means that there was no
// connection for it until then.
func (w *Waiter) Abandoned(unsent bool) {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	if unsent {
		w.latch.known.Unsent()
	}
	w.latch.look, w.latch.next = true, 0
}

// Leave ends the wait. It returns what the waiter may say of the latch if it was not let through. If nobody awaits the latch any
// more, unlisten is the channel to listen with no longer; otherwise it is nil.
func (w *Waiter) Leave(now clock.Instant) (last outcome.Result, unlisten chan struct{}) {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	l := w.latch
	last = l.known.At(now, w.set.cfg.Floor())
	if last.Refused && !w.told {
		last = outcome.Result{} // what others were told before it came says nothing
	}
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
		if i == 0 {
			l.ring()
		}
	}
	if l.members--; l.members > 0 {
		return last, nil
	}
	delete(w.set.byName, l.channel)
	if !l.listens {
		return last, nil
	}
	return last, l.wake
}
