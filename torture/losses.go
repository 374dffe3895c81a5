package torture

import (
	"strings"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// losses counts losses of renewed locks, and unlocks that reported a loss, that no event explains. A process that
// was stopped may have lost its locks.
func (c *checker) losses() {
	if !c.Scene.Safe {
		return
	}
	for _, t := range c.Turns {
		if t.Refused {
			c.brokenf("ticket: one was refused although its lease was not over: %v", t)
		}
		if t.Unlock == failed {
			c.judge().Unconfirmed(t.ending(), func(from, to Moment) bool { // the machine may stand still for a third of the command timeout
				return c.struck(from, to) > 0 || c.stood(t.Unlocking, t.Unlocked) >= commandTimeout/3
			})
		}
		if t.Answer != got || c.stopped(t.Site, t.Answered.Add(-t.Lease), max(t.Unlocked, t.Lost, c.Stop)) {
			continue
		}
		if t.Renew && t.Lost != 0 && !c.excused(t) {
			c.Figures.FalseLosses++
			c.judge().Lost(t.owner(), strings.Join(t.Names, " "), t.Err, false)
		} else if !c.judge().EarlyLoss(t.ending()) {
			c.Figures.FalseAlarms++
		}
	}
}

// ending returns the end of the hold of a turn as the checkers know it.
func (t *Turn) ending() promises.Ending {
	e := promises.Ending{
		Who: t, Lock: strings.Join(t.Names, " "), Group: t.Kind == kindMulti || t.Kind == kindRed, Deadline: t.Deadline,
		Unlocking: t.Unlocking, Unlocked: t.Unlocked, After: t.Unlock.class(), Err: t.Err,
	}
	if t.Over {
		e.Before = loss
	}
	return e
}

// excused reports whether a renewed lock was lost because the machine stood still for a third of its lease, or, with a lease that is shorter
// than that of the client, because no renewal got through.
func (c *checker) excused(t *Turn) bool {
	from := t.Lost.Add(-2 * t.Renewal)
	return c.stood(t.Lost.Add(-t.Lease), t.Lost) > t.Lease/3 || t.Renewal < watchdogTimeout && (c.trouble(from, t.Lost) > 0 || c.slow(from, t.Lost) > t.Renewal/6)
}

// takenAway checks that the keeper of a lock that a nemesis took notices it by its next renewal.
func (c *checker) takenAway() {
	limit := noticed + c.noise
	for _, e := range c.Events {
		if e.Lost == "" {
			continue
		}
		for _, t := range c.Turns {
			// A keeper whose acquire had not returned yet notices later.
			if t.Keeper && t.Names[0] == e.Lost && t.Answer == got && t.Answered < e.From && (t.Unlocked == 0 || t.Unlocked > e.From) &&
				c.struck(e.From, e.From.Add(noticed)) == 0 {
				seen := c.Stop
				if t.Lost != 0 {
					seen = min(seen, t.Lost)
				}
				c.judge().Unnoticed(t.owner(), e.Lost, e.From, seen, limit)
			}
		}
	}
}

// lateNotices checks that a keeper learns of a loss no later than its deadline, when the lock is no longer guaranteed.
func (c *checker) lateNotices() {
	for _, t := range c.Turns {
		if t.Keeper && t.Lost != 0 && t.Lost > t.Deadline.Add(c.late+c.starved(t.Site, t.Deadline, t.Lost)) && !c.stopped(t.Site, t.Deadline, t.Lost) {
			c.brokenf("notice: the context of a hold ended %v after its deadline: %v", t.Lost.Sub(t.Deadline), t)
		}
	}
}
