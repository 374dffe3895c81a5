package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fleet is a library in which every handle belongs to a client of its own: a Redis client with its own connections, and a
// lock client on top of it. The clients share a process, because a machine with two cores cannot run 1,024 processes.
type fleet struct {
	clients []Library
	handles atomic.Int64 // that have been created
}

// openFleet opens a client for each goroutine of the cell.
func openFleet(e entrant, c Cell) (Library, error) {
	const workers = 32
	f := &fleet{clients: make([]Library, c.Goroutines)}
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(f.clients) && errs[w] == nil; i += workers {
				f.clients[i], errs[w] = e.open(c)
			}
		})
	}
	wg.Wait()
	return f, errors.Join(errs...)
}

// Handle returns a handle of the next client.
func (f *fleet) Handle(name string) Handle {
	next := int(f.handles.Add(1)-1) % len(f.clients)
	return f.clients[next].Handle(name)
}

// Key returns the key of the first client; all have the same.
func (f *fleet) Key(name string) string { return f.clients[0].Key(name) }

// fleets returns the scenarios with many clients, and those of fair locks.
func fleets() []scenario {
	spent := []string{mPerHandOff, mScripts, mSubscribe, mPings, mScriptCPU, mCPU}
	columns := slices.Concat([]string{mWait50, mWait99, mWaitMax, mRound}, spent, []string{mFewest, mMost})
	return []scenario{
		{
			id: "S9", title: "One name and a fleet of clients", rounds: 3, whole: true,
			how: "Clients that share nothing but Redis lock, hold and unlock one name in a tight loop. \"64 × 1ms\" means 64 clients and a " +
				"hold of 1 ms. Each stands for a process: it has a Redis client with its own connections, and a lock client on top. But " +
				"all are goroutines of one process, because the machine cannot run 1,024 processes. So hand-offs are those between " +
				"clients, and no wake-up of a process is in the figures. The floor is one client alone. \"p99 to a round\" compares the wait " +
				"with the time that one turn for every client takes; it says little where some clients had no turn (\"fewest turns\"), " +
				"because waits without an end are in \"longest wait\" alone. Commands per hand-off count everything that clients send, also " +
				"while they wait. They are mostly scripts (EVALSHA); \"subscribes\" counts (S)SUBSCRIBE and (S)UNSUBSCRIBE, and " +
				"\"pings\" the keep-alives. What is missing is redsync's SET. \"Script µs\" is the time of all these commands " +
				"(INFO commandstats), \"Redis µs\" that of Redis's main thread (INFO cpu), both per hand-off. 1,024 clients and " +
				"holds of 0 and 20 ms have one round, 256 clients two.",
			head: mHandOffs, columns: columns, sizes: fleetSizes(), across: "clients",
		},
		{
			id: "S10", title: "One fair lock in one process", rounds: rounds, only: []string{floor, rlockFair},
			how:  "Like S3 without a hold, but with a fair lock. None of the other libraries here has one.",
			head: mHandOffs, columns: []string{mWait50, mWait99, mTail, mFIFO, mPerHandOff, mScriptCPU, mCPU, mSpread, mLeft},
			across: "goroutines",
			sizes:  []size{fairOf(2), fairOf(16), fairOf(128)},
		},
		{
			id: "S11", title: "One name and a fleet of clients, on a cluster of six nodes", rounds: 1, cluster: true, whole: true,
			how:  "Like S9, on three masters with a replica each. rlock uses sharded pub/sub there. \"Redis µs\" is that of all masters.",
			head: mHandOffs, columns: columns, across: "clients",
			sizes: []size{fleetOf(4, time.Millisecond), fleetOf(64, time.Millisecond), fleetOf(256, time.Millisecond)},
		},
	}
}

func fleetSizes() []size {
	var sizes []size
	for _, n := range []int{1, 4, 16, 64, 256, 1024} {
		sizes = append(sizes, fleetOf(n, time.Millisecond))
	}
	for _, hold := range []time.Duration{0, 20 * time.Millisecond} {
		for _, n := range []int{4, 64, 256} {
			if n == 256 && hold > 0 {
				continue // more than a minute, for the same ratios of rlock as with 64
			}
			s := fleetOf(n, hold)
			s.rounds, s.unplotted = 1, true
			sizes = append(sizes, s)
		}
	}
	return sizes
}

// fleetOf returns a size whose phases are long enough for some turns of every client.
func fleetOf(n int, hold time.Duration) size {
	s := size{id: fmt.Sprintf("%d × %v", n, hold), cell: Cell{Fleet: true, Goroutines: n, Names: 1, Hold: hold}}
	switch c := &s.cell; {
	case n <= 16:
		c.Warmup, c.Measure, c.Poll = shortWarmup, 800*time.Millisecond, time.Millisecond
	case n <= 64:
		c.Warmup, c.Measure, c.Poll = 400*time.Millisecond, 1500*time.Millisecond, 5*time.Millisecond
	case n <= 256:
		c.Warmup, c.Measure, c.Poll = time.Second, 2500*time.Millisecond, 20*time.Millisecond
		s.rounds = 2
	default:
		c.Warmup, c.Measure, c.Poll = 3*time.Second, 6*time.Second, 100*time.Millisecond
		s.rounds = 1
	}
	if turns := time.Duration(n) * hold; hold > time.Millisecond { // one turn of each, and then at least one more
		s.cell.Warmup, s.cell.Measure = s.cell.Warmup+turns/4, s.cell.Measure+turns
	}
	return s
}

func fairOf(n int) size {
	return size{id: fmt.Sprint(n), cell: Cell{
		Goroutines: n, Names: 1, Warmup: shortWarmup, Measure: 800 * time.Millisecond,
	}}
}
