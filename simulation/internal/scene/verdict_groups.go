package scene

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// judgesMulti checks that a member of a multi lock has refused if that was refused. Its other errors depend on the order in which it asks. The
// run must be locked.
func (w *worker) judgesMulti(a *attempt, c promises.Call) {
	if c.Class == promises.Contention && !slices.ContainsFunc(w.members(a, 2*commandTimeout), func(k known) bool { return k.ever }) {
		w.brokenf("error: %v was told %s about %s, of which no member has refused it: %v", w.process, c.Class, a.of.name, c.Err)
	}
}

// members returns what the call for a group knows of each of its members.
func (w *worker) members(a *attempt, in time.Duration) (all []known) {
	for i := range w.clients {
		for _, t := range a.of.atoms() {
			of := subject{i, t.name}
			said := w.inquest.since(of, a.asked)
			k := a.knows(&w.inquest, i, t, in)
			k.heard = time.Time{} // a group counts silence from its own questions
			k.unsure = k.unsure || slices.Contains(a.given, of) || left(said) || slices.ContainsFunc(said, func(q question) bool {
				return q.sort == releases && q.told != answered
			})
			all = append(all, k)
		}
	}
	return all
}

// left reports whether the latest question for a lock was refused after its caller had left: by then, it had taken back what it might have got.
func left(said []question) bool {
	i := len(said) - 1
	for ; i >= 0 && said[i].sort != acquires; i-- {
	}
	return i >= 0 && said[i].told == refused && slices.ContainsFunc(said[i:], func(q question) bool { return q.sort == releases && q.sent.Before(said[i].over) })
}

// judgesRed compares the error of a red lock with what its members said. A member has little time for a reply, of which a later one counts for
// nothing. The run must be locked.
func (w *worker) judgesRed(a *attempt, c promises.Call, floor time.Duration) {
	const in = 45 * time.Millisecond
	all := w.members(a, in)
	refuse, may, fail := 0, 0, 0
	for _, k := range all {
		class, certain := k.says(floor)
		switch {
		case certain && class == promises.Contention && len(k.open) == 0: // one that is silent beside one that fails may count as failing
			refuse++
		case certain && class == promises.Outage && len(k.open) == 0:
			fail++
			continue
		}
		if k.ever {
			may++
		}
	}
	switch spare := len(all) - (len(all)/2 + 1); {
	case c.Class != promises.Contention && refuse > spare:
		w.brokenf("error: %v was told %s about %s, which %d of %d members refuse: %v", w.process, c.Class, a.of.name, refuse, len(all), c.Err)
	case c.Class == promises.Contention && (fail > 0 && may <= spare || may+fail == 0):
		w.brokenf("error: %v was told %s about %s, of which %d of %d members refuse, and %d fail: %v", w.process, c.Class, a.of.name, may, len(all), fail, c.Err)
	}
}
