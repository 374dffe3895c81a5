package group

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/table"
)

// observe has the end of the acquisition reported to those who observe it, once they are told how it went.
func (a *acquisition) observe(seen *observe.Span, err error) {
	if err != nil || seen == nil {
		seen.End(observe.Acquired{}, err)
		return
	}
	held := observe.Acquired{By: true, Reentered: a.Reentered()} // asked once: a member of a red lock may come or go meanwhile
	a.mu.Lock()
	told := func() {}
	if a.witnessed = !held.Reentered; a.why != nil {
		told = a.tellEnd()
	}
	a.mu.Unlock()
	told()
	seen.End(held, nil)
}

// tellEnd returns the function that tells those who observe the acquisition how it ended. It must be called without a.mu. a.mu must
// be held.
func (a *acquisition) tellEnd() func() {
	if !a.witnessed {
		return func() {}
	}
	at, how, why := clock.Now(), table.EndOf(a.why), a.why
	if !a.leaked && how == notice.Abandoned {
		how, why = notice.Unlocked, nil
	}
	return func() { a.seen.Ended(at, how, why) }
}

// Reentered reports whether the owner had the group before: enough members, of which a red lock may not have asked all yet.
func (a *acquisition) Reentered() bool {
	n := 0
	for i, h := range a.held() {
		if h != nil && h.Reentered() || h == nil && a.members[i].had {
			n++
		}
	}
	return n >= a.group.need
}

// holdsWhich returns which members of the group, or of a group among its members, the owner holds.
func (r *request) holdsWhich(g *Group) []bool {
	had := make([]bool, len(g.members))
	for i, m := range g.members {
		if inner, ok := m.(*Group); ok {
			had[i] = count(r.holdsWhich(inner)) >= inner.need
		} else {
			had[i] = r.holds(m.Locks()[0])
		}
	}
	return had
}

func count(all []bool) (n int) {
	for _, yes := range all {
		if yes {
			n++
		}
	}
	return n
}
