package torture

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// linearizable checks that the history of every name is linearizable: a lock whose operations are atomic could have
// produced it. The check applies to safe scenes only, in which Redis forgets nothing.
func (c *checker) linearizable() {
	if !c.Scene.Safe {
		return
	}
	for name, turns := range c.names {
		ops := c.operations(name, turns)
		c.Figures.Checked += len(ops)
		if o, possible := c.judge().Linearizable(name, ops); !possible {
			c.had(name, o.From, o.To)
		}
	}
}

// had adds to a broken promise who got or gave back a lock between two moments: the run may never break the promise again.
func (c *checker) had(name string, from, to Moment) {
	for _, t := range c.names[name] {
		if t.Answer == got && t.Answered <= to && (t.Unlocked == 0 || t.Unlocked >= from) {
			c.brokenf("  had it: %v, by %s", t, t.Client)
		}
	}
}

// operations returns the operations of the turns on a name. An attempt may have had the lock for a while without knowing that, see mayHave.
// Refusals in that time are excused and left out.
func (c *checker) operations(name string, turns []*Turn) []promises.Op {
	// A free lock may still refuse an owner: a waiter in a fair queue comes first, or a group has taken only some members.
	silent := isFair(name) ||
		slices.ContainsFunc(turns, func(t *Turn) bool { return t.Kind == kindMulti || t.Kind == kindRed })
	excused := func(t *Turn) bool {
		return slices.ContainsFunc(turns, func(other *Turn) bool {
			may := c.mayHave(other)
			return may.from < t.Answered && t.Asked < may.to
		})
	}
	var ops []promises.Op
	for i, t := range turns {
		add := func(what promises.What, from, to Moment) {
			ops = append(ops, promises.Op{What: what, Owner: i, Reads: t.reads(), From: from, To: max(from, to)})
		}
		switch {
		case t.Answer == got && t.Unlock == got:
			add(promises.Take, t.Asked, t.Answered)
			add(promises.Give, t.Unlocking, t.Unlocked)
		case t.Answer == got:
			add(promises.Take, t.Asked, t.Answered)
			add(promises.Give, c.kept(t), c.freed(t))
		case t.Kind == kindYieldingRead: // a refusal may be about a writer that waits
		case t.Answer == refused && !silent && t.Try && !excused(t): // a turn that waited may have waited in the local queue
			c.Figures.Refusals++
			add(promises.Find, t.Asked, t.Answered)
		}
	}
	return ops
}

// mayHave returns when Redis may have given the lock to an attempt that does not know that. A wait may be over before the message arrives that
// the lock is its own. After trouble, the message may be lost, which costs a first term; the wait may get the lock later.
func (c *checker) mayHave(t *Turn) span {
	troubled := c.struck(t.Asked.Add(-recovers), t.Answered) > 0
	switch {
	case t.Try && (t.Answer == got || t.Answer == refused):
		return span{}
	case t.Answer == got && troubled:
		return span{t.Asked, t.Answered}
	case t.Answer == got:
		return span{}
	case t.Answer == refused && !troubled:
		return span{max(t.Asked, t.Answered.Add(-c.late)), c.spent(t)}
	}
	return span{t.Asked, c.spent(t)}
}

// kept returns the moment until which a turn certainly had its lock. It is for turns whose unlock was not confirmed. In
// Redis the lease runs out no earlier than in this process, but an unlock may have taken effect at once.
func (c *checker) kept(t *Turn) Moment {
	until := min(t.Deadline, c.freed(t))
	if t.Unlocking != 0 {
		until = min(until, t.Unlocking)
	}
	return max(t.Last, until)
}

// spent returns the moment by which rlock has released a lock that a failed attempt may have acquired. If the process was
// killed, that takes a lease.
func (c *checker) spent(t *Turn) Moment {
	if t.Answered == 0 || c.stopped(t.Site, t.Asked, t.Answered.Add(watchdogTimeout)) {
		return max(t.Answered, c.killed(t.Site), t.Asked).Add(watchdogTimeout + 2*commandTimeout)
	}
	return t.Answered.Add(c.orphanLimit(orphan{from: t.Answered, to: t.Answered.Add(time.Second)}))
}
