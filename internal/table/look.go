package table

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wire"
)

// begins has an attempt that contends ask, unless it has nothing to do yet.
func (t *Table) begins(a *Attempt, why Cause, now clock.Instant, n *notice.List) Step {
	t.choose(a, now)
	if why != ByTime {
		if pause := a.way.idle(t, a, why, now); pause > 0 {
			if a.place.Pause > 0 { // its client asks for it: news that changes nothing does not end that
				pause = -1
			}
			return t.rest(a, pause, n)
		}
		if _, line := a.way.(lineWay); line && why == ByMessage && a.place.Pause > 0 && !a.place.Unsure {
			// Without a message, its subscription was confirmed. An inquiry sees all that a message before would have told.
			if messages, subscribed := t.messages.Received(a.way.channel(a)); subscribed && messages == a.place.Messages {
				t.inquireAt(a, max(now, t.inquired.Add(inquiryGap)), n)
				return t.rest(a, -1, n)
			}
		}
	}
	t.stir(a)
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
	case a.unset && !a.handing && a.knows().At(now, t.cfg.Floor()).Unset: // unless there was another answer, or a failure, meanwhile
		return t.giveUp(a, nil, now, n)
	case a.handing && contends:
		return t.rest(a, t.cfg.PollInterval, n)
	case a.sibling().usable(now): // it need not queue any more
		t.leaveQueue(a, n)
		return t.ask(a, asking, now, n)
	case !contends && !a.handing && (a.seek == beside || a.mayAsk(now)):
		return t.askBeside(a, now, n)
	case !contends:
		return a.sleep(-1)
	}
	a.seek = alone
	if a.phase == queued {
		a.phase, why = resting, ByNews
	}
	return t.begins(a, why, now, n)
}

// askBeside has an attempt ask that does not contend.
func (t *Table) askBeside(a *Attempt, now clock.Instant, n *notice.List) Step {
	a.seek = beside
	return t.ask(a, asking, now, n)
}

// fallsBack has an attempt wait that was refused beside the one that contends. By now it may be that one.
func (t *Table) fallsBack(a *Attempt, now clock.Instant, n *notice.List) Step {
	a.seek = alone
	if contender(a.queue) == a {
		return t.ask(a, asking, now, n)
	}
	a.phase = queued
	t.suspect(a)
	return a.sleep(-1)
}

// takeFailure goes on after a hand-over that failed, or that gave a lock on which the attempt cannot rely.
func (t *Table) takeFailure(a *Attempt, now clock.Instant, n *notice.List) Step {
	failed := a.failed
	a.failed = nil
	if f := (*fault.Error)(nil); errors.As(failed, &f) {
		return t.onFailure(a, f, now, n)
	}
	return t.replace(a, now, n)
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
		t.unline(a.Handle, now)
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
	if a.seek == beside && contender(a.queue) != a { // the messages are for that one
		a.phase = resting
		return a.sleep(pause)
	}
	a.place.AskBy(now.Add(pause)) // also if something wakes it before
	t.onNoAnswer(a, now, n)
	return t.rest(a, pause, n)
}

// onQueued goes on after a refusal with which an attempt stands in the line.
func (t *Table) onQueued(a *Attempt, p wire.Position, hint time.Duration, now clock.Instant, n *notice.List) Step {
	pause := a.way.pause(t, a, &p, hint, now)
	if p.Missed && a.place.Stands {
		n.Report(notice.PlaceLost, a.Handle.Name, notice.LogPlaceLost, nil)
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
	case a.place.Unsure || !t.countsListeners(a.Handle):
		return t.ask(a, asking, now, n)
	}
	s := t.rest(a, pause, n)
	if _, line := a.way.(lineWay); line && s.Do == Sleep && a.place.Stands && p.Ahead < wire.Watching && hint > wire.FirstTerm {
		a.place.Pause, s.Pause = pause, -1 // also if it is yet to be subscribed: then an inquiry says that it must ask
		t.inquireAt(a, now.Add(pause), n)
	}
	return s
}
