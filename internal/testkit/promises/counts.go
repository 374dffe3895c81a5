package promises

import (
	"fmt"
	"slices"
)

// Latch is a count-down latch, and what is known of the calls of it.
type Latch struct {
	Name  string
	Count int64 // that it was set to

	started, done int64
	numbers       []int64 // to which it was counted down
}

// Starts records a call that may count down.
func (l *Latch) Starts() { l.started++ }

// Counted records a call that counted down, and to which number. It checks that no other call counted down to that.
func (l *Latch) Counted(j Judge, who fmt.Stringer, to int64) {
	l.done++
	if to > 0 && slices.Contains(l.numbers, to) {
		j("latch: %v counted %s down to %d, as another one did before", who, l.Name, to)
	}
	l.numbers = append(l.numbers, to)
}

// IsOpen reports whether the latch certainly is open.
func (l *Latch) IsOpen() bool { return l.done >= l.Count }

// Passed checks that the latch may be open, which somebody has passed.
func (l *Latch) Passed(j Judge, who fmt.Stringer) {
	if l.started < l.Count {
		j("latch: %v passed %s, which was counted down %d times of %d", who, l.Name, l.started, l.Count)
	}
}

// Rest checks what is left of the count at the end.
func (l *Latch) Rest(j Judge, left int64) {
	j.Rest(l.Name, left, max(l.Count-l.started, 0), max(l.Count-l.done, 0))
}

// Rest checks what is left at the end of something that counts.
func (j Judge) Rest(what string, left, least, most int64) {
	if left < least || left > most {
		j("left: %s has %d at the end instead of %d to %d", what, left, least, most)
	}
}

// Gauges are what a client says about itself, and what is known about it.
type Gauges struct {
	Who           fmt.Stringer
	Held, Waiting int
	Least, Most   int // that its owners have; what a call may have or not counts only as the most
	Calls         int // that wait at most
}

// Gauges checks that they agree. It reports that.
func (j Judge) Gauges(g Gauges) bool {
	agree := g.Held >= g.Least && g.Held <= g.Most && g.Waiting <= g.Calls
	if !agree {
		j("gauges: %v says that %d locks are held and %d calls wait, but it is %d to %d, and at most %d", g.Who, g.Held, g.Waiting, g.Least, g.Most, g.Calls)
	}
	return agree
}
