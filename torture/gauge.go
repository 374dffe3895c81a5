package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/observe"
)

// gauges looks at the Stats of the site's present clients.
func (r *running) gauges() []gauges {
	clients := r.all()
	all := make([]gauges, 0, len(clients))
	for _, client := range clients {
		from := now()
		s := client.Stats()
		all = append(all, gauges{Client: client.ID(), From: from, To: now(), Held: s.Held, Waiting: s.Waiting})
	}
	return all
}

// unsettled waits until all gauges of the site's clients are zero. It describes each one that stays above zero.
func (r *running) unsettled() (found []string) {
	for _, client := range r.all() {
		var s observe.Stats
		for deadline := now().Add(2*watchdogTimeout + commandTimeout); now() < deadline; pause(context.Background(), 20*time.Millisecond) {
			if s = client.Stats(); s.Held == 0 && s.Waiting == 0 && s.InDoubt == 0 {
				break
			}
		}
		switch {
		case s.Held != 0 || s.Waiting != 0 || s.InDoubt != 0:
			found = append(found, fmt.Sprintf("gauges: after all locks were unlocked, they are %+v", s))
		case s.HandOvers > s.Acquired:
			found = append(found, fmt.Sprintf("gauges: more hand-overs than acquisitions: %+v", s))
		}
	}
	return found
}

// gauged compares the gauges with the turns: a client holds what its owners believe to hold, and at most what they have
// asked for and not yet given back.
func (c *checker) gauged() {
	if c.Scene.Topology == topologyRed {
		return // a client there has one member of each lock
	}
	turns := make(map[string][]*Turn)
	for _, t := range c.Turns {
		turns[t.Client] = append(turns[t.Client], t)
	}
	for _, g := range c.Gauges {
		c.gauge(g, turns[g.Client])
	}
}

func (c *checker) gauge(g gauges, turns []*Turn) {
	least, most, waiting := 0, 0, 0
	for _, t := range turns {
		if t.Asked > g.To {
			break // the turns are sorted
		}
		if locks := len(t.Names); t.Kind == kindPlain { // nothing is held
			if t.Answered == 0 || t.Answered >= g.From {
				waiting += locks
			}
			continue
		}
		handing := t.Export != 0 && t.Export <= g.To && (t.Adopted == 0 || t.Adopted >= g.From)
		if t.First != 0 && t.First < g.From && t.Last > g.To && !handing {
			least += len(t.Names)
		}
		end := max(c.freed(t), t.Answered)
		if t.Answered == 0 || t.Answer == got && t.Unlocked == 0 || end >= g.From {
			most += len(t.Names)
		}
		again := t.Adopted != 0 && (t.Unlocked == 0 || t.Unlocked >= g.From) // it tries to adopt a second time, in vain
		if t.Answered == 0 || t.Answered >= g.From || handing || again {
			waiting += len(t.Names)
		}
	}
	c.Figures.Gauges++
	c.judge().Gauges(promises.Gauges{Who: g, Held: g.Held, Waiting: g.Waiting, Least: least, Most: most, Calls: waiting})
}

// within reports whether a field of a client belongs to one of the names.
func within(field string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(field, name+" ") || strings.Contains(field, name) })
}
