package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

const (
	// hangs is how long a call may go on after the end of its context or wait, which takes milliseconds. It may have been stopped with its
	// process meanwhile.
	hangs = longestStop + 15*time.Second
	// sleeps is how long a waiter may wait for a lock that is free: until the lease of a dead owner and the time of a dead waiter of a fair
	// lock are over, and it polls.
	sleeps = watchdogTimeout + fairWait + 30*time.Second + 20*time.Second
)

// Check returns the promises that a history breaks.
func Check(h *History) []string {
	broken := slices.Clone(h.Found)
	judge := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	h.late(judge)
	if h.Scene.Safe {
		h.exclusion(judge)
	}
	if !slices.ContainsFunc(h.Turns, func(t *Turn) bool { return t.Got }) {
		judge("nobody got a lock")
	}
	return broken
}

// late looks for calls that went on for long after their context or their wait had ended.
func (h *History) late(judge promises.Judge) {
	for _, t := range h.Turns {
		if t.Limit != 0 && t.Answered != 0 && t.Answered.Sub(t.Limit) > hangs {
			judge("late: a call went on for %v: %v", t.Answered.Sub(t.Limit), t)
		}
	}
}

// stuck returns the turns that go on at a moment, although all trouble is over and nobody else has used their locks for so long that they
// must be free, and the turns that hang in a call.
func (h *History) stuck(at Moment) (all []*Turn) {
	if h.Calm == 0 {
		return nil
	}
	used := make(map[string]Moment)
	for _, t := range h.Turns {
		for _, name := range t.Names {
			if t.Got {
				used[name] = max(used[name], t.Answered, t.Last, t.Over)
			}
		}
	}
	for _, t := range h.Turns {
		if t.Over != 0 || h.Dead[t.Site] {
			continue
		}
		since := max(h.Calm, t.Asked)
		for _, name := range t.Names {
			since = max(since, used[name])
		}
		if at.Sub(since) > sleeps {
			all = append(all, t)
		}
	}
	return all
}

// exclusion looks for owners that believed at the same time that they held one lock, and were not all readers, or more permits than
// there are, and for fencing tokens that do not rise from owner to owner. An owner believes by its own clock and Hold.Err, so that a process
// that stood still believes nothing.
func (h *History) exclusion(judge promises.Judge) {
	names := make(map[string][]*Turn)
	for _, t := range h.Turns {
		for _, name := range t.Names {
			if t.First != 0 {
				names[name] = append(names[name], t)
			}
		}
	}
	for name, believers := range names {
		slices.SortFunc(believers, func(a, b *Turn) int { return int(a.First - b.First) })
		var inside []*Turn
		var tokens promises.Tokens
		for _, t := range believers {
			inside = slices.DeleteFunc(inside, func(o *Turn) bool { return o.Last < t.First })
			var others []promises.Owner
			for _, o := range inside {
				others = append(others, o.owner())
			}
			if t.Kind == kindSemaphore {
				judge.Permits(name, t.owner(), others, permits)
			} else {
				judge.Exclusion(name, t.owner(), others)
			}
			tokens.Granted(judge, name, strings.Contains(name, "fenced"), t.owner(), t.Token, tokens.Greatest())
			inside = append(inside, t)
		}
	}
}

// owner returns the owner of a turn as the judges know it.
func (t *Turn) owner() promises.Owner {
	reads := t.Kind == kindRead || t.Kind == kindYieldingRead
	return promises.Owner{Who: t, Asked: t.Asked, Since: t.First, Reads: reads, Permits: t.Permits}
}
