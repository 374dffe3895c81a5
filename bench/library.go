package main

import (
	"context"
	"slices"

	"github.com/go-rlock/rlock"
)

// Library adapts a lock library for the benchmark. It is safe for concurrent use.
type Library interface {
	// Handle returns a handle for one goroutine and one name. It is created once, so that work before the first Lock is
	// not measured, and no adapter needs a closure per acquisition.
	Handle(name string) Handle
	// Key returns the key in Redis that exists as long as the name is locked.
	Key(name string) string
}

// Handle locks one name. Only one goroutine at a time may use it.
type Handle interface {
	Lock(ctx context.Context) error // waits until ctx ends
	Unlock(ctx context.Context) error
}

// entrant is a library that takes part in the comparison, or a variant of one.
type entrant struct {
	name string
	peer bool // another library; false for rlock and the floors
	raw  bool // a floor that is not the unit
	open func(Cell) (Library, error)
	// direct lists the commands that the library sends outside scripts although scripts call them too, see sent.
	direct []string
	// only lists the scenarios of the entrant; empty means all that do not list their entrants.
	only []string
	// skips gives, by scenario or by scenario/size, the reason why the entrant does not take part.
	skips map[string]string
	// polls means that it sends the same at each moment, so that a short cell measures it as well as a long one.
	polls bool
}

const (
	floor     = "floor"
	onRueidis = "rlock-rueidis"
	rlockFair = "rlock-fair"
	noWatch   = "does not renew by itself"
	threeFor  = "three keys and goroutines per lock; size 10,000 shows the effect"
	atScale   = "size 10,000 shows the effect"
	million   = "size 100,000 shows the effect"
	letIn     = "with three keys per lock, it loses some of the held ones; see S6"
)

// entrants returns all entrants. A variant of rlock is one line: its name, its options and its scenarios.
func entrants() []entrant {
	raw := []string{"S1", "S2", "S8", "S13"}
	return []entrant{
		{name: floor, open: openFloor, skips: map[string]string{"S7": "has no waiters", "S6/1000000": million}},
		{name: "floor-rueidis", raw: true, open: openRaw(bareOnRueidis, floorPair), only: []string{"S1", "S2", "S8", "S13", "S15"}},
		{name: "layout", raw: true, open: openRaw(bareOnGoRedis, layoutPair), only: raw},
		{name: "layout-rueidis", raw: true, open: openRaw(bareOnRueidis, layoutPair), only: raw},
		{name: "checks", raw: true, open: openRaw(bareOnGoRedis, checksPair), only: raw},
		{name: "checks-rueidis", raw: true, open: openRaw(bareOnRueidis, checksPair), only: raw},
		{name: "rlock", open: openRlock()},
		{name: onRueidis, open: openRlockRueidis()},
		{name: "rlock-alone", open: openRlock(rlock.WithoutAutoPipeline()), only: []string{"S1", "S2", "S8"}},
		{name: rlockPlain, open: openRlockPlain, only: []string{"S13", "S14"}},
		{name: rlockFair, open: openRlockFair, only: []string{"S9", "S11"}},
		{name: "bsm/redislock", peer: true, polls: true, open: openBSM, skips: map[string]string{"S6": noWatch, "S7/100000": atScale}},
		{
			name: "redsync", peer: true, polls: true, open: openRedsync, direct: []string{"set"},
			skips: map[string]string{"S6": noWatch, "S7/100000": atScale},
		},
		{
			name: "rueidislock", peer: true, open: openRueidis(defaults),
			skips: map[string]string{"S6/100000": threeFor, "S6/1000000": threeFor, "S7": letIn},
		},
		{
			name: "rueidislock-m1", peer: true, open: openRueidis(oneKey),
			skips: map[string]string{"S6/1000000": million, "S7/100000": atScale},
		},
	}
}

// enters reports whether the entrant is meant for the scenario.
func (e *entrant) enters(sc scenario) bool {
	if len(sc.only) > 0 {
		return slices.Contains(sc.only, e.name)
	}
	return len(e.only) == 0 || slices.Contains(e.only, sc.id)
}

// ours reports whether the entrant is a variant of rlock.
func (e *entrant) ours() bool { return !e.peer && !e.raw && e.name != floor }

// skip returns why the entrant does not take part in a scenario or in one size of it. An empty string means that it does.
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
