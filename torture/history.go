package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is one strike of a nemesis.
type Event struct {
	From, To Moment
	What     string
	Site     string // the process that it struck
	Killed   bool   // the process was killed
	Held     bool   // it had a lock in Redis then
	Lost     string // the name of a lock that the nemesis took from its keeper at From

	// Redis gave no reply from Silent to Heard.
	Silent, Heard Moment

	// Of a client that was shut down: its id, the error of Shutdown, and which of its fields were then left in Redis.
	Client string
	Err    string
	Left   []string
}

// is reports whether it was a strike of a nemesis.
func (e *Event) is(nemesis string) bool { return strings.HasPrefix(e.What, nemesis+" ") }

// revives reports whether Redis forgot the last writes, so that locks that had been released were held again.
func (e *Event) revives() bool {
	return e.is(n27Restore) || e.is(n15Lossy) || e.is(n14Die) || e.is(n14Hang)
}

// gauges is one look at the Stats of a client.
type gauges struct {
	Client        string
	From, To      Moment
	Held, Waiting int
}

func (g gauges) String() string { return fmt.Sprintf("the client %s, at %v,", g.Client, g.From) }

// stall is a time in which the machine, or Redis, was slow without any nemesis.
type stall struct {
	From, To Moment
}

// sample is one observation of Redis: whether a lock had a holder at some moment between From and To.
type sample struct {
	Name     string
	From, To Moment
	Held     bool
	Holder   string
}

// History is the record of a scene.
type History struct {
	Scene   Scene
	Start   Moment
	Stop    Moment // when the workers were told to stop
	Turns   []*Turn
	Events  []Event
	Samples []sample
	Lines   []lined
	Gauges  []gauges
	Slow    []stall
	Stood   []stall             // when no sleeper woke up, not even in the arena
	Starved map[string][]stall  // when no sleeper of a child woke up, by site
	Found   []string            // faults that the run itself noticed
	Stalls  Spread              // how late the machine woke up sleepers
	Clients map[string][]string // client ids by site
	Closes  []time.Duration
	Parks   []park           // the sleeps of Redisson's peer
	Rest    map[string]int64 // what was left of counts at the end
}

// collector gathers a history during a run. It is safe for concurrent use.
type collector struct {
	mu      sync.Mutex
	turns   map[string]*Turn
	events  []Event
	samples []sample
	lines   []lined
	gauges  []gauges
	slow    []stall
	stood   []stall
	starved map[string][]stall // by site
	found   []string
	closes  []time.Duration
	parks   []park
	stalls  Spread
	clients map[string][]string // client ids by site
	left    map[string]int64    // of counts, by name
}

func newCollector() *collector {
	return &collector{
		turns: make(map[string]*Turn), clients: make(map[string][]string), left: make(map[string]int64),
		starved: make(map[string][]stall),
	}
}

// hear records a message of a site. A later message about a turn replaces the earlier one.
func (c *collector) hear(site string, m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Turn != nil {
		c.turns[fmt.Sprintf("%s/%d", site, m.Turn.ID)] = m.Turn
	}
	if m.Client != "" {
		c.clients[site] = append(c.clients[site], m.Client)
	}
	if m.Stood != nil {
		c.starved[site] = append(c.starved[site], *m.Stood)
	}
	if m.Found != "" {
		c.found = append(c.found, site+": "+m.Found)
	}
	if m.Closed != 0 {
		c.closes = append(c.closes, m.Closed)
	}
}

// counted returns the kinds and names of what counts.
func (c *collector) counted() [][2]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make(map[[2]string]bool)
	for _, t := range c.turns {
		if t.counts() {
			names[[2]string{t.Kind, t.Names[0]}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(names), func(a, b [2]string) int { return strings.Compare(a[1], b[1]) })
}

// rest records what was left of a count.
func (c *collector) rest(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[name] = n
}

func (c *collector) happened(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

func (c *collector) see(samples []sample, stalled time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalls = append(c.stalls, stalled)
	c.samples = append(c.samples, samples...)
}

// sawLine records a look at the line of writers.
func (c *collector) sawLine(l lined) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, l)
}

// parked records a sleep of Redisson's peer.
func (c *collector) parked(p park) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parks = append(c.parks, p)
}

// clientsOf returns the ids of the clients of a site.
func (c *collector) clientsOf(site string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.clients[site])
}

// looked records the gauges of clients.
func (c *collector) looked(g []gauges) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gauges = append(c.gauges, g...)
}

// slowed records that something that should take no time took longer.
func (c *collector) slowed(from, to Moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = append(c.slow, stall{from, to})
}

// stoodStill records that the machine woke up nobody.
func (c *collector) stoodStill(from, to Moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stood = append(c.stood, stall{from, to})
}

func (c *collector) foundf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// open describes the turns that have not ended, one per line.
func (c *collector) open() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, t := range c.turns {
		if t.Answer == "" || t.Answer == got && t.Unlock == "" {
			fmt.Fprintln(&b, t)
		}
	}
	return b.String()
}

// dead returns the ids of the clients whose process was killed between two moments.
func (c *collector) dead(from, to Moment) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for _, e := range c.events {
		if e.Killed && from <= e.To && e.To <= to {
			ids = append(ids, c.clients[e.Site]...)
		}
	}
	return ids
}

func (c *collector) history(scene Scene, start, stop Moment) *History {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &History{
		Scene: scene, Start: start, Stop: stop, Events: c.events, Samples: c.samples, Lines: c.lines, Found: c.found, Closes: c.closes,
		Clients: c.clients, Stalls: c.stalls, Gauges: c.gauges, Slow: c.slow, Stood: c.stood, Starved: c.starved,
		Parks: c.parks, Rest: c.left,
	}
	for _, t := range c.turns {
		h.Turns = append(h.Turns, t)
	}
	slices.SortFunc(h.Turns, func(a, b *Turn) int { return int(a.Asked - b.Asked) })
	return h
}

// byName returns the turns for each name that several owners share.
func (h *History) byName() map[string][]*Turn {
	names := make(map[string][]*Turn)
	for _, t := range h.Turns {
		if !t.Keeper {
			for _, name := range t.Names {
				names[name] = append(names[name], t)
			}
		}
	}
	return names
}

// stopped reports whether a site was stopped or killed between two moments, and so may have missed events.
func (h *History) stopped(site string, from, to Moment) bool {
	return slices.ContainsFunc(h.Events, func(e Event) bool { return e.Site == site && e.From <= to && from <= e.To })
}

// killed returns when a site was killed, or 0.
func (h *History) killed(site string) Moment {
	for _, e := range h.Events {
		if e.Site == site && e.Killed {
			return e.To
		}
	}
	return 0
}

// Timeline lists the strikes of the nemeses, one per line.
func (h *History) Timeline() string {
	var b strings.Builder
	for _, e := range h.Events {
		fmt.Fprintf(&b, "%8.3f s to %8.3f s  %s\n", e.From.Sub(h.Start).Seconds(), e.To.Sub(h.Start).Seconds(), e.What)
	}
	return b.String()
}
