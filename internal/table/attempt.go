package table

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/standing"
	"github.com/go-rlock/rlock/internal/wire"
)

// Attempt is one call of a verb that acquires. The verb makes it, sets the exported fields down to Watcher, and passes it to
// [Table.Admit]; then it carries out the steps that it gets, until one says Done. It is used by one goroutine at a time.
type Attempt struct {
	Handle  *Handle
	Who                   // for whom it acquires
	Lease   time.Duration // at least 1 ms
	Renewed bool          // the watchdog renews the lease
	ByHold  bool          // only the Hold unlocks it
	Single  bool          // one question to Redis, and no waiting
	Permits int           // how many it wants; 0 is as good as 1, and all that a lock has
	AtLeast time.Duration // how long the lock stays taken, even if it is unlocked before; zero means no longer than that
	Ticket  string        // adopts the hold of this field; empty means that it acquires
	SetsUp  bool          // its caller sets the semaphore up if nobody has, so it does not wait for that

	Ends   clock.Instant // when the wait will be over; zero means never
	Wait   Ender         // an error means that the wait is over, or its caller gone
	Caller Ender         // an error means that the caller is gone
	// Bound is when the call has to return, even if its first question has no reply. Zero means never.
	Bound clock.Instant
	// Connects means that Bound allows for the time that connecting takes. Nothing here depends on it.
	Connects bool
	// Done is the Done channel of the caller's context, which tells whether the hold for which it waits has the same one.
	Done <-chan struct{}

	// Watcher is told when the grant is over that the attempt makes. Nil means that nobody wants to know.
	Watcher notice.Watcher
	// Seen is what happened to the attempt, for those who observe it. It is valid after Done.
	Seen notice.Seen

	// Last is what is known at the end. It is valid after Done.
	Last outcome.Result
	// HeldFor is for how long another owner of this process had held the lock when the attempt gave up. Zero means that none
	// did. It is valid after Done.
	HeldFor time.Duration
	// SuspectAfter is after how much sleep to call [Table.Suspect]. Zero means that there is nothing to suspect. It is valid
	// once there is a step that sleeps.
	SuspectAfter time.Duration

	// The table's mutex guards what follows.

	phase     phase
	unset     bool // another attempt was told that nobody has set the semaphore up
	waits     bool // it has slept, and is not done
	grant     *Grant
	owner     *Owner       // for whom it acquires, since it last looked; nil means an owner of its own
	by        *atomic.Bool // the flag of the hold that makes it so, or nil
	began     clock.Instant
	suspected bool           // own was looked for
	own       *Grant         // the hold for which it waits, if that may be its caller's own
	known     outcome.Record // unless it is in a local queue, whose record counts
	asked     bool           // whether Redis was asked, or another attempt was on this one's behalf
	retries   int            // failures in a row
	sent      clock.Instant
	forcings  int           // unlocks by force before the question was sent
	pollDelay time.Duration // the latest one

	ahead *Attempt        // of the same owner: it asks on behalf of this one
	line  *line           // nil means that it is in no local queue
	bell  queue.Bell      // rings when something changed in this process
	heard notice.Listener // gets the messages of an attempt that is in no local queue
	askAt clock.Instant   // when to ask although an owner of this process has the lock; zero means that this is not planned

	// For the head of a local queue, to which the lock may be handed over.

	confident bool // it asks because permits are free, as far as is known

	place  standing.Place // in the line, or in the queue of a fair lock
	byLine bool           // the latest question was that of the line
	seat   *wire.Seat     // in that queue; nil means that it has none

	handing bool         // the hand-over is under way
	got     *Acquisition // the acquisition that was handed to it
	failed  error        // or why none was
}

// phase is the position of an attempt.
type phase uint8

const (
	claiming phase = iota // waits until the owner's other operations on the grant are over, or before a repetition
	queued                // in the local queue, behind others
	resting               // sleeps until there is a reason to ask
	asking                // an acquire is under way
	parting               // its last acquire is under way: after that it is done
	counting              // a re-entry is under way
	adopting              // adopts the hold of a ticket
	done
)

// Admit begins an attempt.
func (t *Table) Admit(a *Attempt, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	a.began = now
	return t.after(a, t.claim(a, now, n), now)
}

// Wake continues an attempt after a Sleep.
func (t *Table) Wake(a *Attempt, why Cause, now clock.Instant, n *Notices) Step {
	defer t.lock().Unlock()
	if why == Closed && !t.bars(a, now) {
		why = ByNews // it slept when the client began to shut down
	}
	return t.after(a, t.wake(a, why, now, n), now)
}

func (t *Table) wake(a *Attempt, why Cause, now clock.Instant, n *Notices) Step {
	switch {
	case a.phase == claiming && why >= Ended:
		t.conclude(a, now)
		return a.finish(t.barred(a, now))
	case a.phase == claiming:
		return t.claim(a, now, n)
	case a.phase == adopting && why >= Ended:
		return t.giveUp(a, nil, now, n)
	case a.phase == adopting:
		return t.adopt(a, now)
	case (a.phase == queued || a.phase == resting) && why >= Ended:
		return t.leave(a, now, n)
	case a.phase == queued || a.phase == resting:
		return t.look(a, why, now, n)
	}
	return a.finish(errUndefined)
}

// errUndefined is the error of a step that no attempt can take: a bug.
var errUndefined = errors.New("rlock: internal error: undefined step")

// finish ends the attempt without an acquisition. An err of nil means that Last is the outcome.
func (a *Attempt) finish(err error) Step {
	a.phase = done
	return Step{Do: Done, Err: err}
}

// claim takes the grant that the owner has of the lock, to re-enter it, or makes a new one. Meanwhile the hold may be over that made the
// attempt one of that owner: then it is no more. If another goroutine of the owner is busy with the grant, it waits. A single attempt does not wait while others wait. It uses what is known by their questions.
func (t *Table) claim(a *Attempt, now clock.Instant, n *Notices) Step {
	if t.closed {
		return a.finish(fault.ErrClosed)
	}
	if a.owner, a.by = a.Now(); a.owner != nil {
		if err := t.mayNot(a.Handle, a.owner, a.AtLeast > 0 || a.Ticket != "", now); err != nil {
			return a.finish(err)
		}
	}
	if t.bars(a, now) {
		return a.finish(fault.ErrClosed)
	}
	g := t.grants.Of(a.Handle.sideKey(), a.owner)
	a.phase, a.grant, a.ahead = claiming, g, nil
	switch {
	case g == nil:
		t.newGrant(a)
		return t.contend(a, now, n)
	case g.turns.Begin():
		return t.reenter(a, now)
	case g.stage != pending:
		return a.awaitTurn(-1, now)
	}
	if a.Ticket != "" {
		return a.finish(errAsking)
	}
	a.ahead = g.attempt
	if a.Bound == 0 {
		return g.awaitTurn(-1)
	}
	if t.conclude(a, now); !a.Last.Known() {
		// The first question is under way. If the question is another owner's, its reply does not wake this attempt.
		return a.awaitTurn(5*time.Millisecond, now)
	}
	if a.Single {
		return a.finish(nil)
	}
	return g.awaitTurn(-1)
}

// awaitTurn returns the step that waits for the owner's other operations. The end of a short wait does not end it before
// anything is known.
func (a *Attempt) awaitTurn(pause time.Duration, now clock.Instant) Step {
	s := a.grant.awaitTurn(pause)
	s.Free, s.Within = a.free(now)
	return s
}

// knows returns the record of what is known about the lock of an attempt.
func (a *Attempt) knows() *outcome.Record {
	if a.line != nil {
		return &a.line.Shared.known
	}
	return &a.known
}

// conclude sets what is known at the end of an attempt.
func (t *Table) conclude(a *Attempt, now clock.Instant) { a.Last = t.concludes(a, now) }

// concludes returns what an attempt would say if it ended now. A hold in this process that is inside its deadline is as good as a
// refusal by Redis now.
func (t *Table) concludes(a *Attempt, now clock.Instant) outcome.Result {
	known, g := a.knows(), a.grant
	if a.ahead != nil {
		known = a.ahead.knows()
	}
	if g != nil && a.Ticket == "" { // another owner's hold says nothing about a ticket
		if rival := t.rival(g, now); rival != nil && rival.stage == held {
			return outcome.Result{Refused: true}
		}
	}
	return known.At(now, t.cfg.Floor())
}

// contend begins to acquire for a pending grant. An attempt of an owner that holds the other side of the name does not
// queue: the attempts in the queue wait for that side.
func (t *Table) contend(a *Attempt, now clock.Instant, n *Notices) Step {
	switch {
	case a.Ticket != "":
		return t.adopt(a, now)
	case a.Single && t.refusedHere(a, now):
		return t.giveUp(a, nil, now, n)
	case a.Single:
		return t.ask(a, parting, now, n)
	case a.Handle.Kind.Queues || a.sibling().usable(now):
		return t.ask(a, asking, now, n)
	}
	if a.line, _ = t.lines.Join(a.Handle.Key, a); contender(a.line) == a {
		return t.look(a, ByNews, now, n)
	}
	a.phase = queued
	a.asked = true // the head does, on its behalf
	t.suspect(a)
	return a.sleep(-1)
}

// sleep returns the step that sleeps until something changes, and without a limit if the pause is negative.
func (a *Attempt) sleep(pause time.Duration) Step {
	return Step{Do: Sleep, Pause: pause, Wait: a.bell.C()}
}

// rest returns the step that sleeps until there is a reason to ask again. The first one listens: its confirmation wakes
// the attempt, so that it asks once more when no release can be missed any longer.
func (t *Table) rest(a *Attempt, pause time.Duration, n *Notices) Step {
	if a.got != nil { // the lock was granted to it meanwhile
		return t.succeed(a, a.got, n)
	}
	a.phase = resting
	t.suspect(a)
	s := a.sleep(pause)
	channel := t.channel(a)
	if channel == "" { // a polling waiter keeps its pace
		s.Wait = nil
		return s
	}
	heard := &a.heard
	if a.line != nil {
		heard = &a.line.Shared.heard
	}
	if heard.Channel != channel {
		n.Unlisten(heard)
	}
	if heard.On(channel) {
		s.Listen, s.Since = channel, a.place.Epoch()
		if names := a.Handle.Names(); channel == names.Own() {
			s.Spares = names.Base()
		}
	}
	s.Heard = heard.Heard
	return s
}

// look decides the next step of an attempt that is awake: it takes the lock that was handed over to it, goes on resting, or asks.
func (t *Table) look(a *Attempt, why Cause, now clock.Instant, n *Notices) Step {
	contends := a.line == nil || contender(a.line) == a
	if why == ByMessage && !contends {
		queue.PutToken(a.line.Shared.heard.Heard) // it was asleep since before; the message is for the one that contends
	}
	switch {
	case t.bars(a, now):
		return t.leave(a, now, n)
	case a.got != nil:
		return t.succeed(a, a.got, n)
	case a.failed != nil:
		return t.takeFailure(a, now, n)
	case a.unset && !a.handing && a.knows().At(now, t.cfg.Floor()).Unset: // unless there was another answer, or a failure, meanwhile
		return t.giveUp(a, nil, now, n)
	case a.handing && contends:
		return t.rest(a, t.cfg.PollInterval, n)
	case a.sibling().usable(now): // it need not queue any more
		t.leaveLine(a, n)
		return t.ask(a, asking, now, n)
	case !contends:
		return a.sleep(-1)
	}
	if a.phase == queued {
		a.phase, why = resting, ByNews
	}
	if pause := t.decide(a, why, now); pause > 0 {
		return t.rest(a, pause, n)
	}
	a.askAt = 0
	return t.ask(a, asking, now, n)
}

// succeed ends an attempt with what was acquired, or handed over.
func (t *Table) succeed(a *Attempt, got *Acquisition, n *Notices) Step {
	t.leaveLine(a, n)
	a.phase = done
	return Step{Do: Done, Got: got}
}

// takeFailure goes on after a hand-over that failed, or that gave a lock on which the attempt cannot rely.
func (t *Table) takeFailure(a *Attempt, now clock.Instant, n *Notices) Step {
	failed := a.failed
	a.failed = nil
	if f := (*fault.Error)(nil); errors.As(failed, &f) {
		return t.inTrouble(a, f, now, n)
	}
	return t.replace(a, now, n)
}

// leave ends an attempt that stops waiting. Meanwhile the lock may have been handed to it, or a hand-over may be under way.
// Its first question is asked even if the wait is short, unless the call has to return now.
func (t *Table) leave(a *Attempt, now clock.Instant, n *Notices) Step {
	if a.got != nil && t.bars(a, now) {
		return t.giveBack(a, now, n)
	}
	if a.got != nil {
		return t.succeed(a, a.got, n)
	}
	if a.phase == parting {
		return t.giveUp(a, nil, now, n)
	}
	if a.handing {
		a.grant.inDoubt = true // the hand-over may have been carried out, or may still be
	}
	t.leaveLine(a, n)
	if t.conclude(a, now); !a.Last.Known() && !ended(a.Caller) && !t.bars(a, now) && !a.overdue(now) {
		a.asked = false
		return t.ask(a, parting, now, n)
	}
	return t.giveUp(a, nil, now, n)
}

// overdue reports whether the call has to return now.
func (a *Attempt) overdue(now clock.Instant) bool { return a.Bound != 0 && now >= a.Bound }

// giveUp ends an attempt and its grant. If a command of the attempt may have taken the lock, or may still take it, a
// background release follows.
func (t *Table) giveUp(a *Attempt, err error, now clock.Instant, n *Notices) Step {
	g := a.grant
	if h := t.rival(g, now); h != nil && h.stage == held {
		a.Seen.Here = true
		a.HeldFor = now.Sub(h.streak.Began())
	}
	if err == nil {
		err = t.barred(a, now)
	}
	t.leaveLine(a, n)
	t.conclude(a, now)
	t.retire(g, now, n)
	g.turns.End()
	return a.finish(err)
}

// replace gives up a grant that was made too late to rely on, and goes on with a new one.
func (t *Table) replace(a *Attempt, now clock.Instant, n *Notices) Step {
	a.knows().Failed(fault.ErrLate)
	t.leavesLine(a)
	old := a.grant
	a.leavesSeat()
	t.retire(old, now, n)
	old.turns.End()
	t.newGrant(a)
	return t.rest(a, t.retryPause(a), n)
}

// retryPause returns the pause before the next question after a failure.
func (t *Table) retryPause(a *Attempt) time.Duration {
	a.retries++
	return t.cfg.Retry(a.retries)
}
