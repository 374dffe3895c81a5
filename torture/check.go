package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is what the checkers say of a history.
type Report struct {
	Broken  []string // promises
	Figures Figures
}

// Figures are what was counted and measured.
type Figures struct {
	Turns, Got, Refused, Failed int
	Checked, Unchecked          int // operations, by the model; those that were too many for it
	Refusals                    int // that the model was asked about
	Overlaps                    int
	LockSeconds                 float64 // of locks that are kept
	FalseLosses                 int
	FalseAlarms                 int // unlocks that said "lost" of what was not
	Stale                       int // writes that came after one with a greater token: a fence refuses them
	MostOvertaken               int // how many later waiters for a fair lock came first, at most
	Orphans, Late, WakeUps      Spread
	Stalls                      Spread
}

// Spread is the distribution of some times.
type Spread []time.Duration

func (s Spread) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func (s Spread) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%d: p50 %.1f, p99 %.1f, max %.1f ms", len(s), ms(s.at(0.5)), ms(s.at(0.99)), ms(s.at(1)))
}

func (f *Figures) String() string {
	return fmt.Sprintf(`%d turns: %d got the lock, %d were refused, %d failed; %d operations and %d refusals checked by the model, %d too many for it
overlaps %d; false losses %d in %.0f lock-seconds; false alarms %d; stale writes %d
fair: overtaken by %d at most
wake-ups %v
orphans  %v
late     %v; the machine by itself %v`, f.Turns, f.Got, f.Refused, f.Failed, f.Checked, f.Refusals, f.Unchecked, f.Overlaps, f.FalseLosses, f.LockSeconds, f.FalseAlarms, f.Stale,
		f.MostOvertaken, f.WakeUps, f.Orphans, f.Late, f.Stalls)
}

// add adds the figures of another scene.
func (f *Figures) add(other Figures) {
	f.Turns += other.Turns
	f.Got += other.Got
	f.Refused += other.Refused
	f.Failed += other.Failed
	f.Checked += other.Checked
	f.Refusals += other.Refusals
	f.Unchecked += other.Unchecked
	f.Overlaps += other.Overlaps
	f.LockSeconds += other.LockSeconds
	f.FalseLosses += other.FalseLosses
	f.FalseAlarms += other.FalseAlarms
	f.Stale += other.Stale
	f.MostOvertaken = max(f.MostOvertaken, other.MostOvertaken)
	f.Orphans = append(f.Orphans, other.Orphans...)
	f.Late = append(f.Late, other.Late...)
	f.WakeUps = append(f.WakeUps, other.WakeUps...)
	f.Stalls = append(f.Stalls, other.Stalls...)
}

// checker is a history under examination.
type checker struct {
	*History
	Report
	names map[string][]*Turn // the turns for each name that more than one owner may want
	noise time.Duration      // what a machine that stands still for a moment may add to what is measured
	late  time.Duration      // by how much anything may be late on it
}

// Check holds a history against what rlock promises.
func Check(h *History) Report {
	c := &checker{
		History: h, names: h.byName(), noise: 2 * h.Stalls.at(1), late: 100*time.Millisecond + 3*h.Stalls.at(0.99),
	}
	c.count()
	c.exclusion()
	c.tokens()
	c.losses()
	c.takenAway()
	c.told()
	c.returns()
	c.order()
	c.wakeUps()
	c.orphans()
	c.strays()
	c.linearizable()
	for _, t := range h.Turns {
		for _, wrong := range t.Wrong {
			c.brokenf("%s (%v)", wrong, t)
		}
	}
	for _, found := range h.Found {
		c.brokenf("%s", found)
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
		case lost, left: // of unlocks only
		}
		if t.Keeper && t.Answer == got {
			f.LockSeconds += t.Last.sub(t.First).Seconds()
		}
	}
}

// exclusion (I1) looks for two who believed at the same time that they held one lock, and were not both readers.
func (c *checker) exclusion() {
	for name, turns := range c.names {
		var believers []*Turn
		for _, t := range turns {
			if t.First != 0 {
				believers = append(believers, t)
			}
		}
		slices.SortFunc(believers, func(a, b *Turn) int { return int(a.First - b.First) })
		var open []*Turn
		for _, t := range believers {
			open = slices.DeleteFunc(open, func(o *Turn) bool { return o.Last < t.First })
			for _, o := range open {
				if o.reads() && t.reads() {
					continue
				}
				c.Figures.Overlaps++
				if c.Scene.Safe {
					c.brokenf("I1: two held %s for %v:\n  %v\n  %v", name, min(o.Last, t.Last).sub(t.First), o, t)
				}
			}
			open = append(open, t)
		}
	}
}

// tokens (I2) checks that whoever got a fenced lock later has the greater token, that no two have the same, and counts the
// writes of those who wrote though somebody with a greater token had written before.
func (c *checker) tokens() {
	for name, turns := range c.names {
		if !strings.HasPrefix(name, "fenced") {
			continue
		}
		var granted []*Turn
		for _, t := range turns {
			if t.Answer == got {
				granted = append(granted, t)
			}
		}
		answered := slices.SortedFunc(slices.Values(granted), func(a, b *Turn) int { return int(a.Answered - b.Answered) })
		var highest uint64 // of those who had their answer before t asked
		for _, t := range granted {
			for len(answered) > 0 && answered[0].Answered < t.Asked {
				highest, answered = max(highest, answered[0].Token), answered[1:]
			}
			if t.Token <= highest {
				c.brokenf("I2: the token %d of %s came after %d: %v", t.Token, name, highest, t)
			}
		}
		c.successors(name, granted)
		type write struct {
			at    Moment
			token uint64
		}
		var writes []write
		for _, t := range granted {
			for _, at := range t.Writes {
				writes = append(writes, write{at, t.Token})
			}
		}
		slices.SortFunc(writes, func(a, b write) int { return int(a.at - b.at) })
		// The register refuses a token that is lower than one it has seen; what it accepts rises.
		var register uint64
		for _, w := range writes {
			if w.token < register {
				c.Figures.Stale++
				continue
			}
			register = w.token
		}
	}
}

// successors (I2) checks that a holder's token is greater than that of the holder before him, whoever asked first. Where two may
// hold a lock at once, whose answer was late is not after who had it meanwhile; but their tokens differ.
func (c *checker) successors(name string, granted []*Turn) {
	seen := make(map[uint64]*Turn)
	var before *Turn
	for _, t := range slices.SortedFunc(slices.Values(granted), func(a, b *Turn) int { return int(a.First - b.First) }) {
		if other := seen[t.Token]; other != nil {
			c.brokenf("I2: two have the token %d of %s:\n  %v\n  %v", t.Token, name, other, t)
		}
		seen[t.Token] = t
		if t.First == 0 {
			continue
		}
		if c.Scene.Safe && before != nil && t.Token <= before.Token {
			c.brokenf("I2: the holder of %s before had the token %d: %v", name, before.Token, t)
		}
		before = t
	}
}

// losses (I5, I7) counts renewed locks that were lost, and unlocks that said so, although nothing had happened that explains
// it. Whose process stood still may have lost his lock.
func (c *checker) losses() {
	if !c.Scene.Safe {
		return
	}
	for _, t := range c.Turns {
		// An unlock lasts until it is confirmed, or for the command timeout.
		if t.Unlock == failed && c.struck(t.Unlocking.add(-time.Second), t.Unlocked) == 0 {
			c.brokenf("I7: an unlock failed while nothing was wrong: %v", t)
		}
		if t.Answer != got || c.stopped(t.Site, t.Answered.add(-t.Lease), max(t.Unlocked, t.Lost, c.Stop)) {
			continue
		}
		if t.Renew && t.Lost != 0 {
			c.Figures.FalseLosses++
			c.brokenf("I5: a renewed lock was lost: %v", t)
		} else if t.Unlock == lost && t.Unlocked < t.Deadline {
			c.Figures.FalseAlarms++
			c.brokenf("I7: an unlock said \"lost\" before the deadline %d: %v", t.Deadline, t)
		}
	}
}

// takenAway (I6) checks that the keeper of a lock that was taken from him learnt it by his next renewal.
func (c *checker) takenAway() {
	limit := noticed + c.noise
	for _, e := range c.Events {
		if e.Lost == "" {
			continue
		}
		for _, t := range c.Turns {
			// Who was not told yet that he has it is told later that he has not.
			if t.Keeper && t.Names[0] == e.Lost && t.Answer == got && t.Answered < e.From && (t.Unlocked == 0 || t.Unlocked > e.From) &&
				c.struck(e.From, e.From.add(noticed)) == 0 && (t.Lost == 0 || t.Lost > e.From.add(limit)) && c.Stop > e.From.add(limit) {
				c.brokenf("I6: its keeper did not notice by %v that %s was taken away at %d: %v, lost %d", limit, e.Lost, e.From, t, t.Lost)
			}
		}
	}
}

// told (I6) checks that whoever keeps a lock learns of its loss when it can no longer be guaranteed, at the latest.
func (c *checker) told() {
	for _, t := range c.Turns {
		if t.Keeper && t.Lost != 0 && t.Lost > t.Deadline.add(c.late) && !c.stopped(t.Site, t.Deadline, t.Lost) {
			c.brokenf("I6: Done closed %v after the deadline: %v", t.Lost.sub(t.Deadline), t)
		}
	}
}

// struck returns for how long in all nemeses were at work of those that struck between two moments.
func (c *checker) struck(from, to Moment) time.Duration {
	var total time.Duration
	for _, e := range c.Events {
		if e.Lost == "" && e.From <= to && from <= e.To {
			total += max(e.To.sub(e.From), 1)
		}
	}
	return total
}

// returns (I9) measures how late verbs returned after their context had ended.
func (c *checker) returns() {
	for _, t := range c.Turns {
		if t.Ended != 0 && t.Answered != 0 && !c.stopped(t.Site, t.Ended, t.Answered) {
			c.Figures.Late = append(c.Figures.Late, t.Answered.sub(t.Ended))
		}
	}
	if late := c.Figures.Late.at(0.99); late > c.late {
		c.brokenf("I9: one in a hundred verbs returned %v after its context had ended", late)
	}
}

// order (I4) counts by how many later ones a waiter for a fair lock was overtaken. Who asked so much later stood behind him
// in the queue.
func (c *checker) order() {
	later := 300*time.Millisecond + c.noise
	for name, turns := range c.names {
		if !strings.HasPrefix(name, "fair") {
			continue
		}
		granted := slices.DeleteFunc(slices.Clone(turns), func(t *Turn) bool { return t.Answer != got })
		for i, t := range granted {
			overtaken := 0
			for _, other := range granted[i+1:] {
				if other.Asked > t.Asked.add(later) && other.Answered < t.Answered.add(-time.Millisecond) {
					overtaken++
				}
			}
			c.Figures.MostOvertaken = max(c.Figures.MostOvertaken, overtaken)
			if overtaken > 0 && c.Scene.Ordered {
				c.brokenf("I4: %d who asked later for %s came before %v", overtaken, name, t)
			}
		}
	}
}

// wakeUps (I8) measures for how long a free lock waited for those who waited for it.
func (c *checker) wakeUps() {
	for name, turns := range c.names {
		if strings.HasPrefix(name, "rw") || slices.ContainsFunc(turns, func(t *Turn) bool { return t.Kind == kindSpin }) {
			continue // readers overlap; spinning is slow by nature
		}
		var ends []span // in which the lock became free again
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
			waited := max(t.Answered.sub(ends[i-1].to), 0) // the unlock may return later than the next one has the lock
			c.Figures.WakeUps = append(c.Figures.WakeUps, waited)
			if c.Scene.WakeUp > 0 && waited > c.Scene.WakeUp+c.noise {
				c.brokenf("I8: %s had been free for %v when its waiter got it: %v", name, waited, t)
			}
		}
	}
}

// freed returns when a turn kept a lock from others no more, for sure; 0: it never did, or is not over.
func (c *checker) freed(t *Turn) Moment {
	killed := c.killed(t.Site)
	switch {
	case t.Answer == refused:
		return 0
	case t.Answer == failed:
		return t.Answered.add(20 * time.Millisecond) // what it may have got is released behind it
	case t.Answer == got && t.Unlock == got:
		return t.Unlocked
	case t.Answer == got && (t.Unlock == left || t.Unlock == lost):
		return max(t.Unlocked, t.Answered.add(t.Lease))
	case t.Unlock == failed:
		return t.Unlocked.add(t.Lease + commandTimeout)
	case killed != 0:
		return killed.add(max(t.Lease, watchdogTimeout) + commandTimeout)
	}
	return 0
}
