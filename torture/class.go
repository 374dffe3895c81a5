package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// Class is what an error says happened.
type Class = promises.Class

const (
	contention = promises.Contention
	outage     = promises.Outage
	loss       = promises.Loss
	closing    = promises.Closing
	neither    = promises.Neither
)

// class returns the class of an error, and an empty one for nil.
func (t *Turn) class(err error) Class { return t.judge().Class(err) }

// class returns the class of the error that an unlock had.
func (a Answer) class() Class {
	switch a {
	case lost:
		return loss
	case failed:
		return outage
	case got, refused, left:
	}
	return ""
}

// called records the outcome of a call that began at a moment, other than the attempt and the unlock. It returns the class.
func (t *Turn) called(from Moment, err error) Class {
	class := t.class(err)
	if class == outage {
		t.Outages = append(t.Outages, [2]Moment{from, now()})
	}
	return class
}

// errorClasses checks that an outage is not reported as contention, nor contention as an outage. A cancellation
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
			c.Figures.Silences++
			c.judge().Silence(t.call(), 20*time.Millisecond)
		}
	}
}

// explained checks that a nemesis explains an outage, which a call reported that lasted between two moments.
func (c *checker) explained(t *Turn, from, to Moment) {
	call := t.call()
	call.Asked, call.Answered, call.Err = from, to, why(func() string { return c.before(from) })
	c.judge().Outage(call, func(since, until Moment) bool {
		return c.trouble(since, until) > 0 || c.slow(since, until) > 0 ||
			c.starved(t.Site, from, to) > 0 // the reply was late
	})
}

// why is a text that is not written until somebody reads it.
type why func() string

func (w why) String() string { return w() }

// call returns the attempt of a turn as the checkers know it.
func (t *Turn) call() promises.Call {
	ends := t.Limit
	if t.Ended != 0 && (ends == 0 || t.Ended < ends) {
		ends = t.Ended
	}
	return promises.Call{
		Who: t, Lock: strings.Join(t.Names, " "), Asked: t.Asked, Answered: t.Answered, Try: t.Try, Wait: t.Wait, Ends: ends,
		Canceled: !t.Timed, Class: t.Class, Err: t.Err, Timeout: commandTimeout,
	}
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

// bounds checks that limited calls return in time, and that the unlock of a lost lock does not wait for Redis.
func (c *checker) bounds() {
	slack := 150*time.Millisecond + c.noise
	if c.Scene.Acks > 0 {
		slack += ackTimeout
	}
	for _, t := range c.Turns {
		if !c.stopped(t.Site, t.Asked, t.Answered) {
			call := t.call()
			late := slack + c.starved(t.Site, t.Asked, t.Answered)
			c.judge().Bound(call, late, late)
		}
		if t.Over && t.Unlocked != 0 && !c.stopped(t.Site, t.Unlocking, t.Unlocked) {
			c.Figures.Over++
			c.judge().AfterLoss(t.ending(), slack+c.starved(t.Site, t.Unlocking, t.Unlocked))
		}
	}
}

// endedContext checks that a call with an ended context says only that.
func (t *Turn) endedContext(lock handles.Any) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if hold, err := lock.Acquire(ctx); !errors.Is(err, context.Canceled) || t.class(err) != neither {
		t.wrong("error: an attempt with an ended context returned %v %v", hold, err)
	}
}
