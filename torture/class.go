package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
)

// Class is what an error says happened.
type Class string

const (
	contention Class = "contention" // another owner has the lock
	outage     Class = "outage"     // nobody could say
	loss       Class = "loss"
	closing    Class = "closing" // the client is closed, or shuts down
	neither    Class = "neither"
)

// class returns the class of an error, and an empty one for nil. No error may be both an outage and contention or a loss.
func (t *Turn) class(err error) Class {
	if err == nil {
		return ""
	}
	var all []Class
	for _, c := range []struct {
		class Class
		err   error
	}{{contention, rlock.ErrNotAcquired}, {outage, rlock.ErrUnavailable}, {loss, rlock.ErrLost}, {closing, rlock.ErrClosed}} {
		if errors.Is(err, c.err) {
			all = append(all, c.class)
		}
	}
	switch {
	case len(all) == 0:
		return neither
	case slices.Contains(all, outage) && len(all) > 1 && !slices.Contains(all, closing):
		t.wrong("L1: the error %q is %v at the same time", err, all)
	}
	return all[0]
}

// called records the outcome of a call that began at a moment, other than the attempt and the unlock. It returns the class.
func (t *Turn) called(from Moment, err error) Class {
	class := t.class(err)
	if class == outage {
		t.Outages = append(t.Outages, [2]Moment{from, now()})
	}
	return class
}

// floor is how long a command may have no reply before rlock calls that an outage.
const floor = commandTimeout / 5

// errorClasses (L1 to L3) checks that an outage is not reported as contention, nor contention as an outage. A cancellation
// alone is neither.
func (c *checker) errorClasses() {
	for _, t := range c.Turns {
		if t.Answered == 0 || c.stopped(t.Site, t.Asked, t.Answered) {
			continue
		}
		if t.Class == outage {
			c.Figures.Outages++
			c.explained(t, t.Asked, t.Answered)
		}
		for _, call := range t.Outages {
			c.Figures.Outages++
			c.explained(t, call[0], call[1])
		}
		if !t.Keeper && c.silent(t.Asked, t.Answered) && c.alone(t) {
			c.judgeSilence(t)
		}
	}
}

// explained checks that a nemesis explains an outage, which a call reported that lasted between two moments.
func (c *checker) explained(t *Turn, from, to Moment) {
	if c.doubtful(t.Site, from.Add(-200*time.Millisecond), to) {
		return // it may have been the latest question
	}
	// A question that a nemesis held, and that its caller abandoned, fails after the command timeout. Then it is the latest
	// outcome, until Redis replies to another question.
	from = from.Add(-commandTimeout - time.Second)
	if c.trouble(from, to) == 0 && c.slow(from, to) == 0 {
		c.brokenf("L2: an outage was reported, but Redis was well: %v (%s)", t, c.before(from.Add(commandTimeout+time.Second)))
	}
}

// doubtful reports whether code of the application left the outcome of scripts of a site open between two moments: it panicked, or ran
// them again.
func (c *checker) doubtful(site string, from, to Moment) bool {
	return slices.ContainsFunc(c.Doubts[site], func(at Moment) bool { return from <= at && at <= to })
}

// before describes what troubled Redis last before a moment, for the message about an outage that nothing explains.
func (c *checker) before(at Moment) string {
	last := "no nemesis had struck before"
	var end Moment
	for _, e := range c.Events {
		if !c.harmless(&e) && e.From <= at && e.To >= end {
			end, last = e.To, fmt.Sprintf("the nemesis before was %s, until %v before", e.What, at.Sub(e.To))
		}
	}
	return fmt.Sprintf("at %.3f s; %s", at.Sub(c.Start).Seconds(), last)
}

// harmless reports whether a strike of a nemesis disturbs no command of a process that is not stopped.
func (c *checker) harmless(e *Event) bool {
	return e.Lost != "" || e.Client != "" || e.Site != "" || e.is(n8KillPubSub) || e.is(n24Cut)
}

// judgeSilence checks an attempt during which Redis was silent, and nobody else in its process wanted the lock.
func (c *checker) judgeSilence(t *Turn) {
	c.Figures.Silences++
	switch {
	case t.Answer == got:
		c.brokenf("L3: an attempt succeeded although Redis was silent: %v", t)
	case t.Class == closing:
	case t.Limit != 0 && t.Limit <= t.Asked: // the context had ended before the call, which says only that
	case t.Ended != 0 && !t.Timed:
		if t.Answered.Sub(t.Asked) < floor-20*time.Millisecond && t.Class != neither {
			c.brokenf("L3: a cancellation alone was reported as %s: %v", t.Class, t)
		}
	case t.Class != outage:
		c.brokenf("L2: an outage was reported as %s: %v", t.Class, t)
	}
}

// silent reports whether Redis gave no reply between two moments.
func (c *checker) silent(from, to Moment) bool {
	return c.Scene.Topology == topologySingle && slices.ContainsFunc(c.Events, func(e Event) bool {
		return e.Silent != 0 && e.Silent <= from && to <= e.Heard
	})
}

// alone reports whether nobody else in the process of a turn held one of its locks, or wanted one, while it asked. Otherwise
// the process may know the lock without Redis.
func (c *checker) alone(t *Turn) bool {
	for _, name := range t.Names {
		for _, other := range c.all[name] {
			if other == t || other.Site != t.Site || other.Asked > t.Answered {
				continue
			}
			if end := max(other.Answered, c.freed(other)); other.Answered == 0 || end >= t.Asked ||
				other.Answer == got && c.freed(other) == 0 {
				return false
			}
		}
	}
	return true
}

// trouble returns the total duration of the nemeses between two moments that may disturb a command.
func (c *checker) trouble(from, to Moment) time.Duration {
	var total time.Duration
	for _, e := range c.Events {
		if !c.harmless(&e) && e.From <= to && from <= e.To {
			total += max(e.To.Sub(e.From), 1)
		}
	}
	return total
}

// slow returns the longest time for which the machine stalled between two moments.
func (c *checker) slow(from, to Moment) time.Duration {
	var longest time.Duration
	for _, s := range c.Slow {
		if s.From <= to && from <= s.To {
			longest = max(longest, s.To.Sub(s.From))
		}
	}
	return longest
}

// bounds (L7, L9) checks that limited calls return in time, and that the unlock of a lost lock does not wait for Redis.
func (c *checker) bounds() {
	slack := 150*time.Millisecond + c.noise
	if c.Scene.Acks > 0 {
		slack += ackTimeout
	}
	for _, t := range c.Turns {
		if limit := t.limit(); limit != 0 && t.Answered > limit.Add(slack) && !c.stopped(t.Site, t.Asked, t.Answered) {
			c.brokenf("L7: a call with Wait(%v) returned %v late: %v", t.Wait, t.Answered.Sub(limit), t)
		}
		group := t.Kind == kindMulti || t.Kind == kindRed // it releases the members that are still held
		if !t.Over || t.Unlocked == 0 || c.stopped(t.Site, t.Unlocking, t.Unlocked) {
			continue
		}
		c.Figures.Over++
		if t.Unlock != lost {
			c.brokenf("L9: the unlock of a lost lock returned %q: %v", t.Unlock, t)
		} else if took := t.Unlocked.Sub(t.Unlocking); !group && took > slack {
			c.brokenf("L9: the unlock of a lost lock took %v: %v", took, t)
		}
	}
}

// limit returns when the attempt has to return, or 0 if nothing limits it.
func (t *Turn) limit() Moment {
	end := Moment(0)
	switch {
	case t.Wait > 0:
		end = t.Asked.Add(max(t.Wait, floor))
	case t.Try && t.Limit == 0:
		end = t.Asked.Add(floor)
	case t.Try:
		end = t.Asked.Add(commandTimeout)
	}
	if t.Limit != 0 && (end == 0 || t.Limit < end) {
		end = t.Limit
	}
	return end
}

// endedContext checks that a call with an ended context says only that.
func (t *Turn) endedContext(lock rlock.Acquirer) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if hold, err := lock.Acquire(ctx); !errors.Is(err, context.Canceled) || t.class(err) != neither {
		t.wrong("L3: an attempt with an ended context returned %v %v", hold, err)
	}
}
