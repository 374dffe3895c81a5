package torture

import (
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// orphans measures how long Redis kept locks that nobody had or wanted.
func (c *checker) orphans() {
	seen := make(map[string][]sample)
	for _, s := range c.Samples {
		seen[s.Name] = append(seen[s.Name], s)
	}
	for name, turns := range c.names {
		var spans []span // in which somebody had the lock or asked for it
		for _, t := range turns {
			end := c.freed(t)
			switch {
			case t.Answer == refused:
				end = t.Answered
			case end == 0:
				end = now()
			}
			spans = append(spans, span{t.Asked, end})
		}
		var o orphan
		sweep(spans, seen[name], func(s sample, last Moment) {
			if s.Held && last < s.From {
				if o.from == 0 {
					o = orphan{from: max(last, o.free), holder: s.Holder}
				}
				o.to = s.From
				return
			}
			c.orphan(name, o)
			o = orphan{free: s.From}
		})
		c.orphan(name, o)
	}
}

// strays looks for holders that stay in Redis although their owner no longer has the lock. Unlike for orphans,
// waiters are no excuse. The check covers only locks that a single field holds.
func (c *checker) strays() {
	seen := make(map[string][]sample)
	for _, s := range c.Samples {
		if turns := c.names[s.Name]; !slices.ContainsFunc(turns, func(t *Turn) bool {
			return t.reads() || t.writes() || t.Kind == kindRed
		}) {
			seen[s.Name] = append(seen[s.Name], s)
		}
	}
	for name, samples := range seen {
		var spans []span // in which somebody had the lock
		for _, t := range c.names[name] {
			from, to := t.Answered, c.freed(t)
			switch {
			case t.Answer == refused:
				continue
			case t.Answered == 0 || c.stopped(t.Site, t.Asked, t.Answered): // the owner had it before it knew
				from = t.Asked
			}
			if to == 0 {
				to = c.Stop.Add(time.Hour)
			}
			spans = append(spans, span{from, to})
		}
		var o promises.Stray
		sweep(spans, samples, func(s sample, last Moment) {
			next := o.See(s.From, s.Holder, !s.Held || last >= s.From)
			if next.From != o.From {
				c.stray(name, o)
			}
			o = next
		})
		c.stray(name, o)
	}
}

func (c *checker) stray(name string, s promises.Stray) {
	limit := c.orphanLimit(orphan{from: s.From, to: s.To, holder: s.Holder})
	if slices.ContainsFunc(c.names[name], func(t *Turn) bool { return t.Kind == kindMulti }) {
		limit += longestStay
	}
	if !c.judge().Stray(name, s, why(func() string { return c.owner(s.Holder) }), limit) {
		c.meanwhile(name, s.From, s.To)
	}
}

// meanwhile adds to a broken promise who had a lock or wanted it from shortly before a moment to another one: the run may never break the
// promise again.
func (c *checker) meanwhile(name string, from, to Moment) {
	from = from.Add(-500 * time.Millisecond)
	for _, t := range c.names[name] {
		if t.Asked <= to && (t.Answered == 0 || max(t.Unlocked, t.Answered) > from) {
			c.brokenf("  meanwhile: %v, by %s", t, t.Client)
		}
	}
}

// longestStay is how long a multi lock that waits may keep a member that it has while it stands in the queues of the others: a tenth of its
// lease.
const longestStay = watchdogTimeout / 10

// orphanLimit returns how long Redis may keep a lock that nobody has. rlock releases such a lock once Redis replies again,
// after a read timeout and the pause before a retry. A Redis that has forgotten the release keeps the lock until its lease ends.
func (c *checker) orphanLimit(o orphan) time.Duration {
	limit := 300*time.Millisecond + c.noise + c.starved(c.siteOf(o.holder), o.from, o.to)
	if trouble := c.struck(o.from.Add(-readTimeout), o.to); trouble > 0 {
		limit += trouble + readTimeout + 200*time.Millisecond
	}
	for _, e := range c.Events {
		if e.From <= o.to && e.revives() {
			limit = max(limit, e.To.Add(watchdogTimeout+readTimeout).Sub(o.from))
		}
	}
	return limit
}

type span struct{ from, to Moment }

// sweep calls look for every sample, in order, with the latest end of the spans that began before the sample. The samples
// must be sorted.
func sweep(spans []span, samples []sample, look func(s sample, last Moment)) {
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	var last Moment
	for i, s := 0, 0; s < len(samples); s++ {
		for ; i < len(spans) && spans[i].from <= samples[s].To; i++ {
			last = max(last, spans[i].to)
		}
		look(samples[s], last)
	}
}

// orphan is a period in which Redis kept a lock that nobody had.
type orphan struct {
	free     Moment // when the lock was last seen free or in use
	from, to Moment
	holder   string
}

func (c *checker) orphan(name string, o orphan) {
	if o.from == 0 {
		return
	}
	long := o.to.Sub(o.from)
	c.Figures.Orphans = append(c.Figures.Orphans, long)
	if long <= c.orphanLimit(o) {
		return
	}
	c.brokenf("stray: for %v from %v on, Redis kept %s for %s, and nobody had or wanted it", long, o.from, name, c.owner(o.holder))
	c.meanwhile(name, o.from, o.to)
}

// owner describes a holder field: it adds the site whose client created the field.
func (c *checker) owner(field string) string {
	if site := c.siteOf(field); site != "" {
		return site + "'s " + field
	}
	return field
}

// siteOf returns the site whose client created a holder field, or an empty name.
func (c *checker) siteOf(field string) string {
	for site, ids := range c.Clients {
		if slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(field, id) }) {
			return site
		}
	}
	return ""
}
