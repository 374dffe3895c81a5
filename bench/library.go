package main

import (
	"context"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
)

// Library is a lock library in one process, as it is measured.
type Library interface {
	// Handle returns what one goroutine locks a name with. It is made once: what a library can do before the first
	// Lock is not measured, and no adapter needs a closure for each acquisition.
	Handle(name string) Handle
	// Key returns the key in Redis that exists as long as the name is locked.
	Key(name string) string
}

// Handle locks one name for one goroutine at a time.
type Handle interface {
	Lock(ctx context.Context) error // waits
	Unlock(ctx context.Context) error
}

// entrant is a library, or a variant of one, that takes part.
type entrant struct {
	name string
	peer bool // of rlock; neither rlock itself nor the floor
	open func(Cell) (Library, error)
	// direct has the commands that it sends outside scripts and that scripts call too, see sent.
	direct []string
	// only has the scenarios that a variant is for; empty: all.
	only []string
	// skips has the reasons why it does not take part in a scenario.
	skips map[string]string
}

const (
	floor    = "floor"
	noWatch  = "does not renew by itself"
	threeFor = "three keys, and goroutines, for each lock: 10,000 show it"
)

// entrants lists who takes part. A variant of rlock is one line: its name, its options, and what it is for.
func entrants() []entrant {
	return []entrant{
		{name: floor, open: openFloor, skips: map[string]string{"S7": "has no waiters"}},
		{name: "rlock", open: openRlock()},
		{name: "rlock-pipelined", open: openRlock(rlock.WithAutoPipeline()), only: []string{"S1", "S2", "S8"}},
		{
			name: "rlock-lazy", only: []string{"S3", "S4"},
			open: openRlock(rlock.WithLazyHandOver(), rlock.WithHandOver(1000, 5*time.Millisecond)),
		},
		{name: "rlock-1", open: openRlock(rlock.WithHandOver(1, 5*time.Millisecond)), only: []string{"S4"}},
		{name: "bsm/redislock", peer: true, open: openBSM, skips: map[string]string{"S6": noWatch}},
		{name: "redsync", peer: true, open: openRedsync, direct: []string{"set"}, skips: map[string]string{"S6": noWatch}},
		{name: "rueidislock", peer: true, open: openRueidis(asItComes), skips: map[string]string{"S6/100000": threeFor}},
		{name: "rueidislock-m1", peer: true, open: openRueidis(oneKey)},
	}
}

// enters says whether an entrant is for a scenario at all.
func (e *entrant) enters(scenario string) bool {
	return len(e.only) == 0 || slices.Contains(e.only, scenario)
}

// skip returns why an entrant does not take part in a scenario, or in one size of it; "": it does.
func (e *entrant) skip(scenario, size string) string {
	if why := e.skips[scenario]; why != "" {
		return why
	}
	return e.skips[scenario+"/"+size]
}

func entrantNamed(name string) (entrant, bool) {
	for _, e := range entrants() {
		if e.name == name {
			return e, true
		}
	}
	return entrant{}, false
}
