package promises

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// What is the kind of an operation on a lock.
type What string

// The operations on a lock.
const (
	Take What = "take" // the owner found the lock free and got it
	Give What = "give" // the owner had the lock and gave it back
	Find What = "find" // the owner found the lock taken
)

// Op is an operation of an owner on a lock. It took effect at one moment between From and To. An owner takes
// the lock once, and gives it back after that: both may be known only afterwards.
type Op struct {
	What     What
	Owner    int
	Reads    bool
	From, To Moment
}

func (o Op) String() string {
	how := ""
	if o.Reads {
		how = ", as a reader,"
	}
	return fmt.Sprintf("%s by %d%s between %v and %v", o.What, o.Owner, how, o.From, o.To)
}

// world is one way in which the operations so far may have taken effect. It says who has the lock, and which of the pending operations have
// already taken effect.
type world struct {
	writers, readers []int // owners; at most one writes
	early            []int // operations
}

// free reports whether another owner could get the lock.
func (w *world) free(reads bool) bool { return len(w.writers) == 0 && (reads || len(w.readers) == 0) }

func compare(a, b world) int {
	return cmp.Or(slices.Compare(a.writers, b.writers), slices.Compare(a.readers, b.readers), slices.Compare(a.early, b.early))
}

// side returns the owners that have the lock as readers, or else as the writer.
func (w *world) side(reads bool) *[]int {
	if reads {
		return &w.readers
	}
	return &w.writers
}

// with and without return a sorted set with one more, and with one less.
func with(set []int, n int) []int {
	i, _ := slices.BinarySearch(set, n)
	return slices.Insert(slices.Clone(set), i, n)
}

func without(set []int, n int) []int {
	return slices.DeleteFunc(slices.Clone(set), func(m int) bool { return m == n })
}

// history is a history of operations under examination.
type history struct {
	ops     []Op
	pending []int // those that have begun and are not over
	passing []int // of these, the takes that may be over, because their gives are pending, too
}

// begins notes that an operation has begun.
func (h *history) begins(i int) {
	for _, p := range h.pending {
		take, give := p, i
		if h.ops[i].What == Take {
			take, give = i, p
		}
		if t, g := h.ops[take], h.ops[give]; t.Owner == g.Owner && g.From <= t.To {
			h.passing = append(h.passing, take)
		}
	}
	h.pending = append(h.pending, i)
}

// ends notes that an operation is over.
func (h *history) ends(i int) {
	h.pending = without(h.pending, i)
	h.passing = slices.DeleteFunc(h.passing, func(p int) bool { return h.ops[p].Owner == h.ops[i].Owner })
}

// found returns the world after all finds had their moment that may have it now. They change nothing, so none of them has to wait.
func (h *history) found(w world) world {
	for _, i := range h.pending {
		if o := h.ops[i]; o.What == Find && !w.free(o.Reads) && !slices.Contains(w.early, i) {
			w.early = with(w.early, i)
		}
	}
	return w
}

// given returns the world after an owner gave the lock back, if that may have happened.
func (h *history) given(w world, owner int, reads bool) (world, bool) {
	for _, i := range h.pending {
		if o := h.ops[i]; o.What == Give && o.Owner == owner && !slices.Contains(w.early, i) {
			w.early = with(w.early, i)
			*w.side(reads) = without(*w.side(reads), owner)
			return w, true
		}
	}
	return w, false
}

// taken returns the world after an operation took the lock, for which those that have it must have given it back.
func (h *history) taken(w world, i int) (world, bool) {
	o := h.ops[i]
	for _, reads := range []bool{false, true} {
		for _, owner := range *w.side(reads) {
			if reads && o.Reads {
				continue
			}
			next, ok := h.given(w, owner, reads)
			if !ok {
				return w, false
			}
			w = next
		}
	}
	*w.side(o.Reads) = with(*w.side(o.Reads), o.Owner)
	w.early = with(w.early, i)
	return h.found(w), true
}

// passed returns a world, and those after owners had the lock and gave it back now, of whom both is known only afterwards.
func (h *history) passed(w world) []world {
	all := []world{w}
	for _, i := range h.passing {
		if slices.Contains(w.early, i) {
			continue
		}
		for _, w := range slices.Clone(all) {
			if next, ok := h.taken(w, i); ok {
				if next, ok = h.given(next, h.ops[i].Owner, h.ops[i].Reads); ok {
					all = append(all, next)
				}
			}
		}
	}
	return all
}

// after returns the worlds in which an operation had its moment, which it must have had now. Another operation has its moment only if
// that is necessary: whoever gives the lock back may as well do it later, unless somebody takes it; and whoever takes it, unless somebody
// finds it taken.
func (h *history) after(w world, i int) (all []world) {
	o := h.ops[i]
	switch {
	case slices.Contains(w.early, i):
		all = append(all, w)
	case o.What == Take:
		if next, ok := h.taken(w, i); ok {
			all = append(all, next)
		}
	case o.What == Give:
		if side := w.side(o.Reads); slices.Contains(*side, o.Owner) {
			*side = without(*side, o.Owner)
			all = append(all, w)
		}
	default:
		for _, p := range h.pending {
			if h.ops[p].What != Take || slices.Contains(w.early, p) {
				continue
			}
			if next, ok := h.taken(w, p); ok && slices.Contains(next.early, i) {
				all = append(all, next)
			}
		}
	}
	for n := range all {
		all[n].early = without(all[n].early, i)
	}
	return all
}

// impossible returns the first operation, as an index, that no lock could have done after those before, or -1. A lock is a mutex or a
// read-write lock whose operations are atomic.
func (h *history) impossible() int {
	type event struct {
		at   Moment
		turn int // of the events of one moment
		op   int
	}
	const begins, ends, endsLast = 0, 1, 2 // operations overlap in a moment, and who takes and gives in it does so in this order
	events := make([]event, 0, 2*len(h.ops))
	for i, o := range h.ops {
		last := ends
		if o.What == Give {
			last = endsLast
		}
		events = append(events, event{o.From, begins, i}, event{max(o.From, o.To), last, i})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.turn, b.turn)) })
	worlds := []world{{}}
	for _, e := range events {
		var next []world
		if e.turn == begins {
			h.begins(e.op)
		}
		for _, w := range worlds {
			all := []world{h.found(w)}
			if e.turn != begins {
				all = h.after(w, e.op)
			}
			for _, w := range all {
				next = append(next, h.passed(w)...)
			}
		}
		if e.turn != begins {
			h.ends(e.op)
		}
		slices.SortFunc(next, compare)
		next = slices.CompactFunc(next, func(a, b world) bool { return compare(a, b) == 0 })
		if worlds = next; len(worlds) == 0 {
			return e.op
		}
	}
	return -1
}

// Linearizable checks that a lock whose operations are atomic could have produced a history. It returns the first operation that could not
// happen, and false, or true.
func (j Judge) Linearizable(lock string, ops []Op) (Op, bool) {
	h := history{ops: ops}
	i := h.impossible()
	if i < 0 {
		return Op{}, true
	}
	j("linearizability: of %d operations on %s, no lock could do this: %v%s", len(ops), lock, ops[i], around(ops, ops[i]))
	return ops[i], false
}

// around lists the last operations that began before the end of an operation.
func around(ops []Op, o Op) string {
	near := slices.DeleteFunc(slices.Clone(ops), func(other Op) bool { return other == o || other.From > o.To })
	slices.SortFunc(near, func(a, b Op) int { return cmp.Compare(a.From, b.From) })
	var b strings.Builder
	for _, other := range near[max(0, len(near)-12):] {
		fmt.Fprintf(&b, "\n  %v", other)
	}
	return b.String()
}
