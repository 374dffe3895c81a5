package table

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// begins has an attempt that contends ask, unless it has nothing to do yet.
func (t *Table) begins(a *Attempt, why Cause, now clock.Instant, n *notice.List) Step {
	t.choose(a, now)
	if why == ByTime {
		a.polls++
	} else if pause := a.way.idle(t, a, why, now); pause > 0 {
		return t.rest(a, pause, n)
	}
	a.askAt = 0
	return t.question(a, asking, now, n)
}

// look decides the next step of an attempt that is awake: it takes the lock that was handed over to it, goes on resting, or asks.
func (t *Table) look(a *Attempt, why Cause, now clock.Instant, n *notice.List) Step {
	contends := a.queue == nil || contender(a.queue) == a
	if why == ByMessage && !contends {
		queue.PutToken(a.queue.Shared.heard.Heard) // it was asleep since before; the message is for the one that contends
	}
	switch {
	case t.bars(a, now):
		return t.leave(a, now, n)
	case a.got != nil:
		return t.succeed(a, a.got, n)
	case a.failed != nil:
		return t.takeFailure(a, now, n)
	case contends && t.refused(a) != nil:
		return t.onFailure(a, t.refused(a), now, n)
	case a.handing && contends:
		return t.rest(a, t.cfg.PollInterval, n)
	case a.sibling().usable(now): // it need not queue any more
		t.leaveQueue(a, n)
		return t.ask(a, asking, now, n)
	case !contends:
		return a.sleep(-1)
	}
	if a.phase == queued {
		a.phase, why = resting, ByNews
	}
	return t.begins(a, why, now, n)
}

// takeFailure goes on after a hand-over that failed, or that gave a lock on which the attempt cannot rely.
func (t *Table) takeFailure(a *Attempt, now clock.Instant, n *notice.List) Step {
	failed := a.failed
	a.failed = nil
	if f := (*fault.Error)(nil); errors.As(failed, &f) {
		return t.onFailure(a, f, now, n)
	}
	return t.replace(a, fault.ErrLate, now, n)
}

// refused returns why Redis does not let the user listen for the attempt, or nil.
func (t *Table) refused(a *Attempt) *fault.Error {
	heard := &a.heard
	if a.queue != nil {
		heard = &a.queue.Shared.heard
	}
	return t.messages.Refused(heard.Channel)
}

// leave ends an attempt that stops waiting. Meanwhile the lock may have been handed to it, or a hand-over may be under way.
// Its first question is asked even if the wait is short, unless the call has to return now.
func (t *Table) leave(a *Attempt, now clock.Instant, n *notice.List) Step {
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
	t.leaveQueue(a, n)
	if a.Last = t.concludes(a, now); !a.Last.Known() && !ended(a.Caller) && !t.bars(a, now) && !a.overdue(now) {
		a.asked = false
		return t.ask(a, parting, now, n)
	}
	return t.giveUp(a, nil, now, n)
}

// unheardFor is for how long a client tries new subscriptions before it does without the line. A failover takes less, also behind
// a DNS name.
const unheardFor = 10 * time.Second

// noteHeard notes whether the script that refused an attempt knew of the subscription to its channel. If it did not, and a new
// one does not help, something between this client and Redis hides subscriptions, as some proxies do. No script would ever give
// the lock to such an attempt.
func (t *Table) noteHeard(a *Attempt, p wire.Position, now clock.Instant, n *notice.List) {
	epoch := a.place.Epoch
	switch {
	case p.Heard:
		t.unheardSince = 0
	case p.Unheard && epoch != 0: // it was subscribed, as far as is known
		t.messages.Unheard(a.way.channel(a), epoch)
		if t.unheardSince == 0 {
			t.unheardSince = now
		}
		if now.Sub(t.unheardSince) < unheardFor {
			return
		}
		t.hide(now)
		if !t.hidden {
			t.hidden = true
			n.Log(a.Handle.Name, notice.LogNoSubscriber, nil)
		}
	}
}

// onFailure goes on after a question without a reply, or with an error as the reply.
func (t *Table) onFailure(a *Attempt, err *fault.Error, now clock.Instant, n *notice.List) Step {
	if err.InDoubt() {
		a.grant.inDoubt = true
	}
	a.grant.needsCleanup = a.grant.needsCleanup || err.Fate == fault.Partial // it may stand in the line, or have the lock
	a.knows().Failed(err)
	a.grant.turns.Notify()
	switch {
	case t.bars(a, now):
		return t.giveUp(a, nil, now, n)
	case a.Single || !err.Transient:
		return t.giveUp(a, err, now, n)
	case a.phase == parting, a.overdue(now):
		return t.giveUp(a, nil, now, n)
	}
	pause := t.retryPause(a)
	a.place.AskBy(now.Add(pause)) // also if something wakes it before
	t.onNoAnswer(a, now, n)
	return t.rest(a, pause, n)
}

// onQueued goes on after a refusal with which an attempt stands in the line.
func (t *Table) onQueued(a *Attempt, p wire.Position, hint time.Duration, now clock.Instant, n *notice.List) Step {
	pause := a.way.pause(t, a, &p, hint, now)
	if p.Missed && a.place.Stands {
		n.Report(observe.EventPlaceLost, a.Handle.Name, notice.LogPlaceLost, nil)
	}
	t.onPlaced(a, p.At, pause, now, n)
	if p.Watch {
		t.watch(a.Handle, a, n)
	}
	t.noteHeard(a, p, now, n)
	switch {
	case a.got != nil: // the lock was granted to it meanwhile
		return t.succeed(a, a.got, n)
	case a.failed != nil:
		return t.takeFailure(a, now, n)
	case a.place.Unsure || !t.countsListeners():
		return t.ask(a, asking, now, n)
	}
	return t.rest(a, pause, n)
}
