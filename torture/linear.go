package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// op is an operation of an owner on a lock, for the model.
type op struct {
	what  what
	owner int32
	reads bool
}

type what uint8

const (
	take what = iota // the owner found the lock free and got it
	give             // the owner had the lock and gave it back
	find             // the owner found the lock taken
)

// state holds the owners of the lock: one writer, or readers.
type state struct {
	writer  int32
	readers string // sorted, so that states compare
}

func (s state) String() string { return fmt.Sprintf("writer %d, readers %x", s.writer, s.readers) }

// free reports whether another owner could get the lock.
func (s state) free(reads bool) bool { return s.writer == 0 && (reads || s.readers == "") }

func (s state) has(o op) bool {
	if o.reads {
		return slices.Contains([]rune(s.readers), o.owner)
	}
	return s.writer == o.owner
}

func (s state) with(o op) state {
	if !o.reads {
		return state{writer: o.owner}
	}
	readers := append([]rune(s.readers), o.owner)
	slices.Sort(readers)
	return state{readers: string(readers)}
}

func (s state) without(o op) state {
	if !o.reads {
		return state{}
	}
	return state{readers: string(slices.DeleteFunc([]rune(s.readers), func(r rune) bool { return r == o.owner }))}
}

// lockModel is a lock as its users understand it: a mutex, or a read-write lock.
var lockModel = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, input, _ any) (bool, any) {
		st, o := s.(state), input.(op)
		switch o.what {
		case take:
			if st.free(o.reads) {
				return true, st.with(o)
			}
		case give:
			if st.has(o) {
				return true, st.without(o)
			}
		case find:
			if !st.free(o.reads) {
				return true, st
			}
		}
		return false, s
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// linearizable (I3) checks that the history of every name is linearizable: a lock whose operations are atomic could have
// produced it. The check applies to safe scenes only, in which Redis forgets nothing.
func (c *checker) linearizable() {
	if !c.Scene.Safe || c.Scene.Fleet > 0 { // in a fleet, too many orders are possible
		return
	}
	for name, turns := range c.names {
		ops := c.operations(name, turns)
		result := porcupine.CheckOperationsTimeout(lockModel, ops, 5*time.Second)
		if result == porcupine.Unknown { // too many orders to try; refusals add the most
			all := len(ops)
			ops = slices.DeleteFunc(ops, func(o porcupine.Operation) bool { return o.Input.(op).what == find })
			c.Figures.Unchecked += all - len(ops)
			result = porcupine.CheckOperationsTimeout(lockModel, ops, 5*time.Second)
		}
		switch result {
		case porcupine.Ok:
			c.Figures.Checked += len(ops)
		case porcupine.Illegal:
			c.brokenf("I3: no lock could produce the history of %s: %d operations%s", name, len(ops), written(ops))
		case porcupine.Unknown:
			c.Figures.Unchecked += len(ops)
		}
	}
}

// written lists operations with the moments between which they took effect, if there are few.
func written(ops []porcupine.Operation) string {
	if len(ops) > 12 {
		return ""
	}
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "\n  %+v, by client %d, between %v and %v", o.Input, o.ClientId, time.Duration(o.Call), time.Duration(o.Return))
	}
	return b.String()
}

// operations returns the operations of the turns on a name. An attempt that failed may have had the lock for a moment.
// Refusals in that time are excused and left out.
func (c *checker) operations(name string, turns []*Turn) []porcupine.Operation {
	// A free lock may still refuse an owner: a waiter in a fair queue comes first, or a group has taken only some members.
	silent := isFair(name) ||
		slices.ContainsFunc(turns, func(t *Turn) bool { return t.Kind == kindMulti || t.Kind == kindRed })
	excused := func(t *Turn) bool {
		return slices.ContainsFunc(turns, func(other *Turn) bool {
			return other.Answer != got && other.Answer != refused && other.Asked < t.Answered && t.Asked < c.spent(other)
		})
	}
	var ops []porcupine.Operation
	for i, t := range turns {
		add := func(w what, from, to Moment) {
			ops = append(ops, porcupine.Operation{
				ClientId: i, Input: op{w, int32(i + 1), t.reads()}, Call: int64(from), Return: int64(max(from, to)),
			})
		}
		switch {
		case t.Answer == got && t.Unlock == got:
			add(take, t.Asked, t.Answered)
			add(give, t.Unlocking, t.Unlocked)
		case t.Answer == got:
			add(take, t.Asked, t.Answered)
			add(give, c.kept(t), c.freed(t))
		case t.Answer == refused && !silent && t.Try && !excused(t): // a turn that waited may have waited in the local queue
			c.Figures.Refusals++
			add(find, t.Asked, t.Answered)
		}
	}
	return ops
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
	if t.Answered == 0 || c.stopped(t.Site, t.Asked, t.Answered.add(watchdogTimeout)) {
		return max(t.Answered, c.killed(t.Site), t.Asked).add(watchdogTimeout + 2*commandTimeout)
	}
	return t.Answered.add(c.orphanLimit(orphan{from: t.Answered, to: t.Answered.add(time.Second)}))
}
