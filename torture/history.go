package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// Moment is a time of the monotonic clock that all processes of the machine share.
type Moment = promises.Moment

func now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return Moment(t.Nano())
}

// Turn is the record of one use of a lock by one owner. A worker reports it at each step, so that the history also shows
// how far a killed process got.
type Turn struct {
	ID      int64
	Site    string // a process that takes the place of a killed one is another site
	Kind    string
	Names   []string      // several for a group, otherwise one
	Permits int           // of a semaphore
	Lease   time.Duration // that nobody renews; zero means that it is renewed

	Asked    Moment
	Limit    Moment // when the attempt has to be over, by its context or its Wait; zero means never
	Answered Moment
	Got      bool
	Token    uint64

	// The owner believed to hold the lock from First to Last. It reads the clock first and then Hold.Err.
	First, Last Moment

	Over Moment // the turn has ended
	Err  string // of the attempt or the unlock
}

func (t *Turn) String() string {
	return fmt.Sprintf("%s/%d (%s %v, asked %v, limit %v, answered %v, got %v, token %d, believed %v to %v, over %v, %s)",
		t.Site, t.ID, t.Kind, t.Names, t.Asked, t.Limit, t.Answered, t.Got, t.Token, t.First, t.Last, t.Over, t.Err)
}

// Event is one strike of a nemesis.
type Event struct {
	From, To Moment
	What     string
}

// History is the record of a scene.
type History struct {
	Scene  Scene
	Start  Moment
	Calm   Moment // when all trouble was over; zero means not yet
	Turns  []*Turn
	Events []Event
	Dead   map[string]bool // the sites that were killed
	Found  []string        // faults that the run itself noticed
}

// Timeline lists the strikes of the nemeses, one per line.
func (h *History) Timeline() string {
	var b strings.Builder
	for _, e := range h.Events {
		fmt.Fprintf(&b, "%8.3f s to %8.3f s  %s\n", e.From.Sub(h.Start).Seconds(), e.To.Sub(h.Start).Seconds(), e.What)
	}
	return b.String()
}

// String says how much happened.
func (h *History) String() string {
	granted, longest := 0, time.Duration(0)
	for _, t := range h.Turns {
		if t.Got {
			granted++
		}
		if t.Limit != 0 && t.Answered > t.Limit {
			longest = max(longest, t.Answered.Sub(t.Limit))
		}
	}
	return fmt.Sprintf("%d turns, of which %d got their lock; %d strikes; calls returned at most %v after their limit",
		len(h.Turns), granted, len(h.Events), longest)
}

// collector gathers a history during a run. It is safe for concurrent use.
type collector struct {
	mu    sync.Mutex
	h     History
	turns map[string]*Turn
	heard Moment // when a site last said something
}

func newCollector(scene Scene) *collector {
	return &collector{turns: make(map[string]*Turn), h: History{Scene: scene, Start: now(), Dead: make(map[string]bool)}}
}

// hear records a message of a site. A later message about a turn replaces the earlier one.
func (c *collector) hear(site string, m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = now()
	if m.Turn != nil {
		c.turns[fmt.Sprintf("%s/%d", site, m.Turn.ID)] = m.Turn
	}
	if m.Found != "" {
		c.h.Found = append(c.h.Found, site+": "+m.Found)
	}
}

func (c *collector) happened(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h.Events = append(c.h.Events, e)
}

func (c *collector) foundf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h.Found = append(c.h.Found, fmt.Sprintf(format, args...))
}

func (c *collector) died(site string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h.Dead[site] = true
}

// calm records that all trouble is over.
func (c *collector) calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h.Calm, c.heard = now(), now()
}

// silent returns for how long no site has said anything.
func (c *collector) silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now().Sub(c.heard)
}

// history returns what was recorded so far.
func (c *collector) history() *History {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.h
	h.Found, h.Events, h.Dead = slices.Clone(h.Found), slices.Clone(h.Events), maps.Clone(h.Dead)
	for _, t := range c.turns {
		h.Turns = append(h.Turns, t)
	}
	slices.SortFunc(h.Turns, func(a, b *Turn) int { return int(a.Asked - b.Asked) })
	return &h
}
