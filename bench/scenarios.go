package main

import (
	"fmt"
	"slices"
	"time"
)

// scenario is one part of the comparison.
type scenario struct {
	id, title string
	how       string // the description in the report
	sizes     []size
	rounds    int
	pinned    bool // client and server share one core
	cluster   bool
	head      string // the main metric; the report shows its ratios
	lowIsGood bool
	columns   []string // the other metrics of the report
	across    string   // what the sizes count, if the plot shows curves across them
	only      []string // the entrants; empty means all that do not choose their scenarios
	whole     bool     // -compare does not shorten the durations, because a fleet, or many waiters, take their time
	worst     bool     // the worst round counts, not the median
	fine      bool     // the report has twice as many rounds, of half the time: load that comes and goes then hits all libraries
}

// size is one configuration of a scenario.
type size struct {
	id   string // in the report and for -check
	cell Cell
	// guard means that only -check measures the size, and the report leaves it out.
	guard bool
	// rounds limits the rounds of a long cell; zero means those of the scenario.
	rounds int
	// unplotted means that only the table shows the size.
	unplotted bool
}

// inRounds returns the scenario with another number of rounds for all sizes.
func (sc scenario) inRounds(n int) scenario {
	sc.rounds, sc.fine, sc.sizes = n, false, slices.Clone(sc.sizes)
	for i := range sc.sizes {
		sc.sizes[i].rounds = 0
	}
	return sc
}

const (
	rounds      = 5
	steady      = 3 // of cells whose ratios hardly differ
	heldLease   = 3 * time.Second
	shortWarmup = 200 * time.Millisecond
)

// scenarios returns all scenarios. A complete run takes 35 minutes.
func scenarios() []scenario {
	return append(append(append(slices.Concat(passedOn(), kept(), fleets()), faults()), permits()...), togethers())
}

// passedOn returns the scenarios in which owners acquire and release as fast as they can.
func passedOn() []scenario {
	return []scenario{
		{
			id: "S1", title: "An uncontended pair", rounds: steady, fine: true, pinned: true,
			how: "One goroutine locks and unlocks: one name through one handle, or each time another name through a handle of its own, " +
				"or that with a context that can end. Latency is the median of all pairs; commands, and the time that they take Redis, " +
				"are those of one pair.",
			head: mLatency, lowIsGood: true, columns: []string{mLatency99, mAllocs, mCommands, mScriptCPU, mCPU},
			sizes: []size{
				{id: "one name", cell: pairOf(Cell{})},
				{id: "distinct names", cell: pairOf(Cell{Fresh: true})},
				{id: "context that can end", cell: pairOf(Cell{Fresh: true, CanEnd: true})},
			},
		},
		{
			id: "S2", title: "Many goroutines, each its own name", rounds: rounds, fine: true,
			how:  "Each goroutine locks and unlocks a name of its own.",
			head: mPairs, columns: []string{mLatency99, mCommands},
			sizes: []size{aloneOf(64), aloneOf(256)},
		},
		{
			id: "S3", title: "One name in one process", rounds: rounds,
			how: "All goroutines lock, hold and unlock one name in a tight loop. The floor is one goroutine alone: " +
				"it shows the cost of one release and one acquisition without any waiting. " +
				"\"2 × 0s\" means two goroutines and no hold. \"p99 to FIFO\" compares the wait with that of the last waiter in a queue " +
				"whose hand-offs take the floor's time. \"Left waiting\" counts the goroutines that still waited for a free lock 2 s after " +
				"all others had finished.",
			head: mHandOffs, columns: []string{mWait50, mWait99, mTail, mFIFO, mCommands, mPerHandOff, mSpread, mLeft},
			sizes: contendedSizes(), across: "goroutines",
		},
		{
			id: "S4", title: "One name in four processes", rounds: rounds,
			how:  "Like S3, but in four processes of 8 goroutines each, and without a hold. The floor is one goroutine alone.",
			head: mHandOffs,
			columns: []string{
				mBetween, mWait50, mWait99, mPerHandOff, mShares, mShare, mLongest, mLeft,
			},
			sizes: []size{{id: "4 × 8", cell: Cell{
				Processes: 4, Goroutines: 8, Names: 1, Poll: 2 * time.Millisecond,
				Warmup: 300 * time.Millisecond, Measure: 1200 * time.Millisecond,
			}}},
		},
		{
			id: "S5", title: "From process to process", rounds: rounds, pinned: true,
			how: "Two processes pass a lock back and forth. Latency is the time from before the release until the other process has " +
				"the lock; it has been waiting for 3 ms. A message wakes the floor's waiter, which takes the lock with one EVALSHA.",
			head: mLatency, lowIsGood: true, columns: []string{mLatency99},
			sizes: []size{{id: "2", cell: Cell{Processes: 2, Goroutines: 1, Warmup: shortWarmup, Measure: 900 * time.Millisecond}}},
		},
	}
}

// kept returns the scenarios with held locks and with waiters, and the one on a cluster.
func kept() []scenario {
	brief := waitersOf(2000, 4*time.Second, 0) // for -check, whose figures of it are no rates
	brief.guard, brief.cell.Measure = true, 0
	million := heldOf(1000000)
	million.cell.Lease, million.cell.Period, million.cell.Measure = 30*time.Second, 10*time.Second, 0 // rlock alone, every third of a lease
	return []scenario{
		{
			id: "S6", title: "Held locks", rounds: 1,
			how: "Locks with a lease of 3 s are held for 5 s while the benchmark samples their keys, and a million with a lease of 30 s for " +
				"30 s: at least three of the longest periods of renewals. \"Late\" counts the samples with less than a third of the lease left, " +
				"\"lost\" the keys that were gone at the end. Bytes are heap at the end, including the handle.",
			head: mBytes, lowIsGood: true, columns: []string{mStack, mGoroutines, mRate, mLowest, mLate, mLost},
			sizes: []size{heldOf(1000), heldOf(10000), heldOf(100000), million},
		},
		{
			id: "S7", title: "Waiters, each for a name of its own", rounds: 1, whole: true,
			how: "Another client of the same process holds all names. The figures are the cost of waiting in steady state. " +
				"Libraries that poll do so every 250 ms here, and their commands are counted for 5 s. Those of the others are counted over " +
				"three of the longest periods, the renewals of 15 s (10 s for 100,000), and those of the holder are among them. " +
				"\"Settled\" is the beginning of the first second in which all send at most one command for a hundred waiters. It is " +
				"missing if there is none in the first 6 s, or 30 s for 100,000.",
			head: mBytes, lowIsGood: true, columns: []string{mStack, mGoroutines, mSockets, mPubSub, mSettled, mRate},
			sizes: []size{waitersOf(10000, 6*time.Second, 15*time.Second), waitersOf(100000, 30*time.Second, 10*time.Second), brief},
		},
		{
			id: "S8", title: "Many goroutines, each its own name, on a cluster of six nodes", rounds: steady, fine: true, cluster: true,
			how:  "Like S2, on three masters with a replica each, all on the same machine.",
			head: mPairs, columns: []string{mLatency99, mCommands},
			sizes: []size{aloneOf(64), aloneOf(256)},
		},
	}
}

// scenarioOf returns one of several scenarios.
func scenarioOf(scs []scenario, id string) (sc scenario, ok bool) {
	i := slices.IndexFunc(scs, func(sc scenario) bool { return sc.id == id })
	if i < 0 {
		return scenario{}, false
	}
	return scs[i], true
}

func pairOf(c Cell) Cell {
	c.Goroutines, c.Warmup, c.Measure = 1, shortWarmup, 800*time.Millisecond
	return c
}

func aloneOf(n int) size {
	return size{id: fmt.Sprint(n), cell: Cell{Goroutines: n, Warmup: shortWarmup, Measure: 800 * time.Millisecond}}
}

func heldOf(n int) size {
	return size{id: fmt.Sprint(n), cell: Cell{
		Locks: n, Lease: heldLease, Measure: 5 * time.Second, Period: heldLease / 2, // the slowest renew every half of a lease
	}}
}

// waitersOf returns a size with so many waiters, which settle within a time. The period is that of the holder's renewals.
func waitersOf(n int, settle, period time.Duration) size {
	return size{id: fmt.Sprint(n), cell: Cell{
		Locks: n, Poll: 250 * time.Millisecond, Warmup: settle, Measure: 5 * time.Second, Period: period,
	}}
}

func contendedSizes() []size {
	var sizes []size
	for _, hold := range []time.Duration{0, 2 * time.Millisecond} {
		for _, n := range []int{2, 16, 128} {
			warmup, measure, poll := shortWarmup, 600*time.Millisecond, time.Millisecond
			if n == 128 {
				poll = 5 * time.Millisecond // polling more often leaves no time for anything else
			}
			if hold > 0 && n == 128 { // a turn for everyone takes a third of a second
				warmup, measure = 400*time.Millisecond, time.Second
			}
			few := 0
			if hold > 0 {
				few = steady
			}
			sizes = append(sizes, size{
				id:   fmt.Sprintf("%d × %v", n, hold),
				cell: Cell{Goroutines: n, Names: 1, Hold: hold, Poll: poll, Warmup: warmup, Measure: measure},
				// With a hold, every library that hands over at once has the same figure.
				unplotted: hold > 0, rounds: few,
			})
		}
	}
	return sizes
}
