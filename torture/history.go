package torture

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is something that a nemesis did.
type Event struct {
	From, To Moment
	What     string
	Site     string // whose process it was done to
	Killed   bool   // and which did not come back
	Lost     string // the name of a lock that was taken away from its keeper at From
}

// sample is a look at Redis: whether a lock was held by anyone at some moment between From and To.
type sample struct {
	Name     string
	From, To Moment
	Held     bool
	Holder   string
}

// History is all that is known of a scene when it is over.
type History struct {
	Scene   Scene
	Start   Moment
	Stop    Moment // when the workers were told to stop
	Turns   []*Turn
	Events  []Event
	Samples []sample
	Found   []string            // what was found wrong besides
	Stalls  Spread              // by how much the machine was late
	Clients map[string][]string // their ids, by site
	Closes  []time.Duration
}

// collector gathers a history while it is made.
type collector struct {
	mu      sync.Mutex
	turns   map[string]*Turn
	events  []Event
	samples []sample
	found   []string
	closes  []time.Duration
	stalls  Spread
	clients map[string][]string // their ids, by site
}

func newCollector() *collector {
	return &collector{turns: make(map[string]*Turn), clients: make(map[string][]string)}
}

// hear takes what a site says. What it says last of a turn counts.
func (c *collector) hear(site string, m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Turn != nil {
		c.turns[fmt.Sprintf("%s/%d", site, m.Turn.ID)] = m.Turn
	}
	if m.Client != "" {
		c.clients[site] = append(c.clients[site], m.Client)
	}
	if m.Closed != 0 {
		c.closes = append(c.closes, m.Closed)
	}
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

func (c *collector) foundf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// open returns the turns that have not ended, as a text.
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

// dead returns the ids of clients whose process was killed in a span of time.
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
	h := &History{Scene: scene, Start: start, Stop: stop, Events: c.events, Samples: c.samples, Found: c.found, Closes: c.closes, Clients: c.clients, Stalls: c.stalls}
	for _, t := range c.turns {
		h.Turns = append(h.Turns, t)
	}
	slices.SortFunc(h.Turns, func(a, b *Turn) int { return int(a.Asked - b.Asked) })
	return h
}

// byName returns the turns for each name that more than one owner may want.
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

// stopped tells whether a site stood still, or was killed, at some time between two moments, so that it may have missed
// what went on.
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

// Timeline tells what the nemeses did and when.
func (h *History) Timeline() string {
	var b strings.Builder
	for _, e := range h.Events {
		fmt.Fprintf(&b, "%8.3f s to %8.3f s  %s\n", e.From.sub(h.Start).Seconds(), e.To.sub(h.Start).Seconds(), e.What)
	}
	return b.String()
}
