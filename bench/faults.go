package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// The faults of S12. All but the last hit one waiter, or its subscriptions, while the others go on.
const (
	faultKill  = "killed"  // kill -9
	faultStop  = "stopped" // SIGSTOP
	faultCut   = "cut off" // all subscriptions of all processes
	faultQueue = "killed in front"
)

// queueLength is the number of processes of faultQueue: the owner, three waiters that are killed, and the fourth.
const queueLength = 5

// faults returns the scenario in which waiters fail.
func faults() scenario {
	sc := scenario{
		id: "S12", title: "Failing waiters", rounds: 3, whole: true, worst: true, only: []string{"rlock", rlockFair},
		how: "Processes lock one name in a tight loop, and hold it for 20 ms. Then the waiter whose turn is next, or would be in a queue, " +
			"is killed (kill -9) or stopped (SIGSTOP), or all subscriptions are cut (CLIENT KILL TYPE pubsub). The figure is the longest " +
			"time between the beginnings of two turns from then on, in ms; it is 22 ms without a fault. \"3 killed in front\" is " +
			"another cell: three waiters are killed one after another, then the owner unlocks, and the figure is the time until the " +
			"fourth has the lock. A cell ends after some seconds, so a longer time shows as these.",
		head: mGap, lowIsGood: true,
	}
	for _, fault := range []string{faultKill, faultStop, faultCut} {
		for _, n := range []int{2, 4, 16} {
			c := Cell{Fault: fault, Processes: n, Warmup: time.Second, Measure: 2 * time.Second}
			if fault == faultStop { // longer than the lease of a waiter that was granted the lock and cannot know it
				c.Measure = 5 * time.Second
			}
			sc.sizes = append(sc.sizes, size{id: fmt.Sprintf("1 of %d %s", n, fault), cell: c})
		}
	}
	sc.sizes = append(sc.sizes, size{id: "3 " + faultQueue, cell: Cell{
		Fault: faultQueue, Processes: queueLength, Warmup: time.Second, Measure: 6 * time.Second,
	}})
	for i := range sc.sizes {
		c := &sc.sizes[i].cell
		c.Goroutines, c.Names, c.Hold = 1, 1, 20*time.Millisecond
	}
	return sc
}

var errOverlap = errors.New("BROKEN: two owners at the same time")

// turn is the critical section of S12. Unlike section it needs no tallies, which a killed process cannot deliver.
func (a *arena) turn(me int64, hold time.Duration) {
	if a.inside.Swap(me) != 0 {
		a.overlaps.Add(1)
	}
	now := time.Now().UnixNano()
	if gap := now - a.turnAt.Load(); a.phase.Load() == phaseCount && gap > a.gap.Load() {
		a.gap.Store(gap)
	}
	a.turnAt.Store(now)
	a.last.Store(me)
	if a.phase.Load() < phaseOver {
		time.Sleep(hold)
	}
	a.inside.CompareAndSwap(me, 0)
}

// runFaulty is one process of S12.
func runFaulty(ctx context.Context, c Cell, lib Library) (*Tally, error) {
	a, err := openArena(c.Arena)
	if err != nil {
		return nil, err
	}
	drain, cancel := untilDrained(ctx, a)
	defer cancel()
	h := lib.Handle(oneName)
	me := ownerID(c.Process, 0)
	once := c.Fault == faultQueue
	a.ready.Add(1)
	a.await(phaseWarm)
	for once && int(a.admitted.Load()) <= c.Process { // until it is its turn to wait
		time.Sleep(time.Millisecond)
	}
	t := &Tally{}
	for a.phase.Load() < phaseOver {
		if err := h.Lock(drain); err != nil {
			if drain.Err() != nil {
				break
			}
			return nil, err
		}
		a.turn(me, c.Hold)
		if once && c.Process == 0 {
			a.await(phaseCount)
			a.releasedAt.Store(time.Now().UnixNano())
		}
		if err := h.Unlock(ctx); err != nil {
			return nil, err
		}
		if t.Sections++; once {
			break
		}
	}
	return t, nil
}

// faulty runs a cell of S12.
func (l *lab) faulty(ctx context.Context, prefix []string, s *servers, c Cell) (Metrics, error) {
	a, remove, err := makeArena(&c)
	if err != nil {
		return nil, err
	}
	defer remove()
	var gap time.Duration
	_, err = l.children(ctx, prefix, c, func(crew *crew) error {
		defer a.phase.Store(phaseOver)
		if !begin(ctx, a, c) {
			return nil // a child has failed and reports the error
		}
		var err error
		if c.Fault == faultQueue {
			gap, err = killQueue(a, crew, c)
		} else {
			gap, err = hitWaiter(ctx, a, s, crew, c)
		}
		return err
	})
	if err == nil && a.overlaps.Load() > 0 {
		err = fmt.Errorf("%w, %d times", errOverlap, a.overlaps.Load())
	}
	if err != nil {
		return nil, err
	}
	return Metrics{mGap: float64(gap) / float64(time.Millisecond)}, nil
}

// hitWaiter lets the processes take turns, does the cell's fault, and returns the longest gap from then on.
func hitWaiter(ctx context.Context, a *arena, s *servers, crew *crew, c Cell) (time.Duration, error) {
	victim, err := nextInLine(ctx, a, c)
	if err != nil {
		return 0, err
	}
	a.phase.Store(phaseCount)
	switch c.Fault {
	case faultKill:
		err = crew.kill(victim)
	case faultStop:
		err = crew.signal(victim, syscall.SIGSTOP)
	case faultCut:
		err = s.nodes[0].Do(ctx, "client", "kill", "type", "pubsub").Err()
	}
	if err != nil {
		return 0, err
	}
	time.Sleep(c.Measure)
	gap := max(a.gap.Load(), time.Now().UnixNano()-a.turnAt.Load())
	if c.Fault == faultStop {
		err = crew.signal(victim, syscall.SIGCONT)
	}
	return time.Duration(gap), err
}

// nextInLine watches the turns during the warm-up. It returns early in a turn, with the process whose own turn is the
// longest ago: it waits, and would be the next in a queue.
func nextInLine(ctx context.Context, a *arena, c Cell) (int, error) {
	seen := make([]time.Time, c.Processes)
	var last int64 // the beginning of the turn that was seen last
	for warm := time.Now().Add(c.Warmup); ; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		turn := a.turnAt.Load()
		if turn == last {
			continue
		}
		last = turn
		owner := int(a.last.Load() >> 32)
		seen[owner] = time.Now()
		if seen[owner].Before(warm) {
			continue
		}
		victim := (owner + 1) % c.Processes
		for i, at := range seen {
			if i != owner && at.Before(seen[victim]) {
				victim = i
			}
		}
		time.Sleep(c.Hold / 4)
		if a.turnAt.Load() == turn { // otherwise this process was slow, and another turn has begun
			return victim, nil
		}
	}
}

// killQueue lets the processes wait one after another, kills all waiters but the last one, and returns how long that one
// waits for the owner's release.
func killQueue(a *arena, crew *crew, c Cell) (time.Duration, error) {
	pause := c.Warmup / 10 // for a process to stand in the queue
	a.admitted.Store(1)
	for end := time.Now().Add(10 * time.Second); a.turnAt.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return 0, errNothing
		}
	}
	for i := 1; i < c.Processes; i++ {
		a.admitted.Store(int32(i + 1))
		time.Sleep(pause)
	}
	for i := 1; i < c.Processes-1; i++ {
		if err := crew.kill(i); err != nil {
			return 0, err
		}
		time.Sleep(pause)
	}
	owner := a.turnAt.Load()
	a.phase.Store(phaseCount)
	for end := time.Now().Add(c.Measure); a.turnAt.Load() == owner; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return c.Measure, nil
		}
	}
	return time.Duration(a.turnAt.Load() - a.releasedAt.Load()), nil
}
