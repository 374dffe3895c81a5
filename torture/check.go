package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// Report is the verdict of the checkers on a history.
type Report struct {
	Broken  []string // the promises that were broken
	Figures Figures
}

// checker is a history under examination.
type checker struct {
	*History
	Report
	all   map[string][]*Turn // the turns for each name that several owners share
	names map[string][]*Turn // the same without what counts, which has checks of its own
	noise time.Duration      // how much a stall of the machine may add to a measurement
	late  time.Duration      // how late anything may be on this machine
}

// Check compares a history with the promises of rlock.
func Check(h *History) Report {
	names := h.byName()
	all := maps.Clone(names)
	maps.DeleteFunc(names, func(_ string, turns []*Turn) bool { return turns[0].counts() })
	c := &checker{
		History: h, all: all, names: names, noise: 2 * max(h.Stalls.at(1), longest(h.Stood)),
		late: 100*time.Millisecond + 3*h.Stalls.at(0.99),
	}
	for _, found := range h.Found { // first, because the end of a process breaks other promises too
		c.brokenf("%s", found)
	}
	c.unconfirmed()
	c.count()
	c.exclusion()
	c.counted()
	c.tokens()
	c.losses()
	c.takenAway()
	c.lateNotices()
	c.returns()
	c.order()
	c.yields()
	c.wakeUps()
	c.orphans()
	c.strays()
	c.linearizable()
	c.errorClasses()
	c.bounds()
	c.shutdowns()
	c.gauged()
	c.fleet()
	for _, t := range h.Turns {
		for _, wrong := range t.Wrong {
			c.brokenf("%s (%v)", wrong, t)
		}
	}
	for _, took := range h.Closes {
		if took > commandTimeout+time.Second {
			c.brokenf("Close took %v", took)
		}
	}
	return c.Report
}

func (c *checker) brokenf(format string, args ...any) {
	c.Broken = append(c.Broken, fmt.Sprintf(format, args...))
}

// judge is told of what no scene may break.
func (c *checker) judge() promises.Judge { return c.brokenf }

// safely is told of what only scenes break in which Redis forgets something.
func (c *checker) safely() promises.Judge {
	if !c.Scene.Safe {
		return promises.Nobody
	}
	return c.brokenf
}

func (c *checker) count() {
	f := &c.Figures
	f.Stalls = c.Stalls
	for _, t := range c.Turns {
		f.Turns++
		switch t.Answer {
		case got:
			f.Got++
		case refused:
			f.Refused++
		case failed:
			f.Failed++
		case lost, left: // only unlocks have these outcomes
		}
		f.Extends += t.Extends
		switch {
		case t.ByDo && t.Verb == verbLead:
			f.Terms++
		case t.ByDo:
			f.Dos++
		}
		if t.Adopted != 0 {
			f.Adoptions++
		}
		if t.Keeper && t.Answer == got {
			f.LockSeconds += t.Last.Sub(t.First).Seconds()
		}
	}
}

// unconfirmed marks the unlocks by Do of which nobody knows whether Redis confirmed them: Do only logs that it did not.
func (c *checker) unconfirmed() {
	for _, t := range c.Turns {
		if t.ByDo && t.Unlock == got && c.struck(t.Unlocking.Add(-time.Second), t.Unlocked) > 0 {
			t.Unlock = failed
		}
	}
}

// exclusion looks for owners that believed at the same time that they held one lock, and were not all readers, or more permits than
// there are.
func (c *checker) exclusion() {
	for name, turns := range c.all {
		believers := slices.DeleteFunc(slices.Clone(turns), func(t *Turn) bool { return t.First == 0 })
		slices.SortFunc(believers, func(a, b *Turn) int { return int(a.First - b.First) })
		var inside []*Turn
		for _, t := range believers {
			inside = slices.DeleteFunc(inside, func(o *Turn) bool { return o.Last < t.First })
			var others []promises.Owner
			for _, o := range inside {
				others = append(others, o.owner())
			}
			if total := t.total(); total == 0 {
				c.Figures.Overlaps += c.safely().Exclusion(name, t.owner(), others)
			} else if !c.safely().Permits(name, t.owner(), others, total) {
				c.Figures.Overlaps++
			}
			inside = append(inside, t)
		}
	}
}

// owner returns the owner of a turn as the checkers know it.
func (t *Turn) owner() promises.Owner {
	return promises.Owner{Who: t, Asked: t.Asked, Since: t.First, Reads: t.reads(), Permits: t.Permits}
}

// tokens checks that later owners of a fenced lock have greater tokens, whichever of them asked first, and that no two tokens are
// equal. In unsafe scenes two owners may hold a lock at once. A late reply then confuses their order, so that only an owner that asked
// later must have a greater one.
func (c *checker) tokens() {
	for name, turns := range c.names {
		granted := slices.DeleteFunc(slices.Clone(turns), func(t *Turn) bool { return t.Answer != got })
		drawn := func(t *Turn) Moment { return max(t.Answered, t.Adopted) } // an adoption draws another token
		slices.SortFunc(granted, func(a, b *Turn) int { return int(drawn(a) - drawn(b)) })
		before := func(at Moment) (most uint64) {
			for _, t := range granted {
				if drawn(t) >= at {
					break
				}
				most = max(most, t.Token)
			}
			return most
		}
		var tokens promises.Tokens
		began := func(t *Turn) Moment { return max(t.First, drawn(t)) }
		for _, t := range slices.SortedFunc(slices.Values(granted), func(a, b *Turn) int { return int(began(a) - began(b)) }) {
			greatest := before(t.Asked)
			if c.Scene.Safe && t.First != 0 {
				greatest = max(greatest, tokens.Greatest())
			}
			tokens.Granted(c.judge(), name, strings.Contains(name, "fenced"), t.owner(), t.Token, greatest)
		}
		c.writes(granted)
	}
}

// writes counts the stale writes, which came after a write with a greater token.
func (c *checker) writes(granted []*Turn) {
	type write struct {
		at    Moment
		token uint64
	}
	var writes []write
	for _, t := range granted {
		for _, at := range t.Writes {
			if t.Token != 0 {
				writes = append(writes, write{at, t.Token})
			}
		}
	}
	slices.SortFunc(writes, func(a, b write) int { return int(a.at - b.at) })
	// The register refuses a token that is lower than one it has seen.
	var register uint64
	for _, w := range writes {
		if w.token < register {
			c.Figures.Stale++
			continue
		}
		register = w.token
	}
}

// struck returns the total duration of the nemeses that were active between two moments.
func (c *checker) struck(from, to Moment) time.Duration {
	var total time.Duration
	for _, e := range c.Events {
		if e.Lost == "" && e.From <= to && from <= e.To {
			total += max(e.To.Sub(e.From), 1)
		}
	}
	return total
}

// stood returns for how long the machine stood still between two moments.
func (c *checker) stood(from, to Moment) time.Duration { return during(c.Stood, from, to) }

// starved returns how much later a site may have done what it did between two moments, because the machine ran nothing of it, without a nemesis
// that had stopped the site. The arena does not notice that of a child: a busy machine has turns for some processes, and none for others. A
// machine that makes a process wait so often also makes its goroutines wait for each other, so it counts twice.
func (c *checker) starved(site string, from, to Moment) time.Duration {
	own := slices.DeleteFunc(slices.Clone(c.Starved[site]), func(s stall) bool { return c.stopped(site, s.From, s.To) })
	return 2 * max(c.stood(from, to), during(own, from, to))
}

// during returns how much of the time between two moments is in stalls.
func during(stalls []stall, from, to Moment) (total time.Duration) {
	for _, s := range stalls {
		total += max(0, min(to, s.To).Sub(max(from, s.From)))
	}
	return total
}

// longest returns the length of the longest stall.
func longest(stalls []stall) (most time.Duration) {
	for _, s := range stalls {
		most = max(most, s.To.Sub(s.From))
	}
	return most
}

// returns measures how late calls returned after their context had ended.
func (c *checker) returns() {
	for _, t := range c.Turns {
		if t.Ended != 0 && t.Answered != 0 && !c.stopped(t.Site, t.Ended, t.Answered) {
			c.Figures.Late = append(c.Figures.Late, max(0, t.Answered.Sub(t.Ended)-c.starved(t.Site, t.Ended, t.Answered)))
		}
	}
	if late := c.Figures.Late.at(0.99); late > c.late {
		c.brokenf("late: one in a hundred calls returned %v after its context had ended", late)
	}
}

// isFair reports whether a name is that of a fair lock.
func isFair(name string) bool { return strings.HasPrefix(strings.TrimPrefix(name, "{"), "fair") }

// order counts how many later waiters overtook each waiter for a fair lock. It counts only waiters that asked so much
// later that they must have been behind in the queue.
func (c *checker) order() {
	later, judge := 300*time.Millisecond+c.noise, promises.Judge(promises.Nobody)
	if c.Scene.Ordered {
		judge = c.judge()
	}
	for name, turns := range c.names {
		if !isFair(name) {
			continue
		}
		granted := slices.DeleteFunc(slices.Clone(turns), func(t *Turn) bool { return t.Answer != got })
		for _, t := range granted {
			overtaken := 0
			for _, other := range granted {
				if other.Answered < t.Answered.Add(-time.Millisecond) && !judge.Order(name, other.owner(), t.owner(), later) {
					overtaken++
				}
			}
			c.Figures.MostOvertaken = max(c.Figures.MostOvertaken, overtaken)
		}
	}
}

// wakeUps measures how long a lock was free before a waiter got it.
func (c *checker) wakeUps() {
	for name, turns := range c.names {
		if strings.HasPrefix(strings.TrimPrefix(name, "{"), "rw") || slices.ContainsFunc(turns, func(t *Turn) bool { return t.Kind == kindSpin }) {
			continue // readers overlap; spinning is slow by nature
		}
		var ends []span // in each of them the lock became free
		for _, t := range turns {
			if end := c.freed(t); end != 0 {
				ends = append(ends, span{end, end})
				if t.Unlock == got {
					ends[len(ends)-1].from = t.Unlocking
				}
			}
		}
		slices.SortFunc(ends, func(a, b span) int { return int(a.from - b.from) })
		for i := 1; i < len(ends); i++ {
			ends[i].to = max(ends[i].to, ends[i-1].to)
		}
		for _, t := range turns {
			if t.Answer != got || t.Kind == kindMulti || c.stopped(t.Site, t.Asked, t.Answered) {
				continue
			}
			i, _ := slices.BinarySearchFunc(ends, t.Answered, func(s span, at Moment) int { return int(s.from - at) })
			if i == 0 || ends[i-1].to < t.Asked {
				continue // it did not wait
			}
			waited := max(t.Answered.Sub(ends[i-1].to), 0) // the unlock may return after the next owner has the lock
			c.Figures.WakeUps = append(c.Figures.WakeUps, waited)
			if c.Scene.WakeUp > 0 {
				c.judge().WakeUp(name, t.owner(), waited, c.Scene.WakeUp+c.noise)
			}
		}
	}
}

// freed returns the moment from which a turn certainly no longer kept others from the lock. Zero means that the turn never
// did, or that it has not ended.
func (c *checker) freed(t *Turn) Moment {
	killed := c.killed(t.Site)
	switch {
	case t.Answer == refused:
		return 0
	case t.Answer == failed && killed != 0 && killed < t.Answered.Add(2*commandTimeout):
		return killed.Add(max(t.Lease, watchdogTimeout)) // perhaps before rlock could release what the attempt may have acquired
	case t.Answer == failed:
		return t.Answered.Add(20 * time.Millisecond) // rlock releases that in the background
	case t.Answer == got && t.Unlock == got:
		return t.Unlocked
	case t.Answer == got && t.Unlock == lost && t.Renew: // its last renewal may have come late
		return max(t.Unlocked.Add(t.Lease), t.Extended)
	case t.Answer == got && (t.Unlock == left || t.Unlock == lost):
		return max(t.Unlocked, t.Answered.Add(t.Lease), t.Extended)
	case t.Unlock == failed:
		return max(t.Unlocked.Add(t.Lease+commandTimeout), t.Extended)
	case killed != 0:
		return max(killed.Add(max(t.Lease, watchdogTimeout)+commandTimeout), t.Extended)
	}
	return 0
}
