package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Tally holds the counts of one process of a cell.
type Tally struct {
	Sections int64   // in all phases
	Left     int64   // goroutines that still waited when all others had finished
	Pairs    []int64 // per goroutine, in the counting phase
	Waits    Waits
	Longest  time.Duration
	Samples  []time.Duration `json:",omitempty"` // the latencies of S5
}

// loop is one goroutine's part of a tally.
type loop struct {
	sections, pairs int64
	left            bool
	waits           Waits
	longest         time.Duration
	err             error
}

// drainTimeout limits how long goroutines may wait for a free lock after the last phase.
const drainTimeout = 2 * time.Second

// untilDrained returns a context that ends drainTimeout after the last phase.
func untilDrained(ctx context.Context, a *arena) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		a.await(phaseOver)
		time.Sleep(drainTimeout)
		cancel()
	}()
	return ctx, cancel
}

// runLoops lets goroutines lock and unlock until the phases are over: each its own name, or all the same name.
func runLoops(ctx context.Context, c Cell, lib Library) (*Tally, error) {
	a, err := openArena(c.Arena)
	if err != nil {
		return nil, err
	}
	drain, cancel := untilDrained(ctx, a)
	defer cancel()
	handles := make([]Handle, c.Goroutines)
	for i := range handles {
		name := oneName
		if c.Names != 1 && c.Permits == 0 {
			name = fmt.Sprintf("bench:%d:%d", c.Process, i)
		}
		handles[i] = lib.Handle(name)
	}
	loops := make([]loop, c.Goroutines)
	var inside atomic.Int64
	a.ready.Add(1)
	a.await(phaseWarm)
	var wg sync.WaitGroup
	for i := range loops {
		wg.Go(func() {
			switch {
			case c.Permits > 0:
				loops[i].share(drain, a, handles[i], &c, &inside)
			case c.Names == 1:
				loops[i].contend(drain, a, handles[i], ownerID(c.Process, i), c.Hold)
			default:
				loops[i].alone(ctx, a, handles[i])
			}
		})
	}
	wg.Wait()
	t := &Tally{Waits: Waits{}}
	errs := make([]error, len(loops))
	for i, l := range loops {
		t.Sections += l.sections
		t.Pairs = append(t.Pairs, l.pairs)
		t.Waits.merge(l.waits)
		t.Longest = max(t.Longest, l.longest)
		if l.left {
			t.Left++
		}
		errs[i] = l.err
	}
	return t, errors.Join(errs...)
}

// contend locks a name that all goroutines share.
func (l *loop) contend(ctx context.Context, a *arena, h Handle, me int64, hold time.Duration) {
	l.waits = Waits{}
	unlock := context.WithoutCancel(ctx) // an owner that gets the lock at the last moment still unlocks it
	for a.phase.Load() < phaseOver {
		start := time.Now()
		if err := h.Lock(ctx); err != nil {
			if l.left = ctx.Err() != nil; !l.left {
				l.err = err
			}
			return
		}
		waited := time.Since(start)
		counted := a.section(me, hold)
		if l.err = h.Unlock(unlock); l.err != nil {
			return
		}
		l.sections++
		if counted {
			l.pairs++
			l.waits.add(waited)
		}
		if counted || a.phase.Load() == phaseOver { // the longest wait may end after the last phase
			l.longest = max(l.longest, waited)
		}
	}
}

// alone locks a name of its own.
func (l *loop) alone(ctx context.Context, a *arena, h Handle) {
	l.waits = Waits{}
	for {
		phase := a.phase.Load()
		if phase == phaseOver {
			return
		}
		start := time.Now()
		if l.err = h.Lock(ctx); l.err != nil {
			return
		}
		if l.err = h.Unlock(ctx); l.err != nil {
			return
		}
		if phase == phaseCount {
			l.pairs++
			l.waits.add(time.Since(start))
		}
	}
}

// runPassing passes one lock back and forth between two processes. It measures the time from before the release until the
// other process has the lock.
func runPassing(ctx context.Context, c Cell, lib Library) (*Tally, error) {
	const settle = 3 * time.Millisecond // time for the other process to subscribe and wait
	a, err := openArena(c.Arena)
	if err != nil {
		return nil, err
	}
	drain, cancel := untilDrained(ctx, a)
	defer cancel()
	h := lib.Handle(oneName)
	me := ownerID(c.Process, 0)
	t := &Tally{Waits: Waits{}}
	a.ready.Add(1)
	a.await(phaseWarm)
	for a.phase.Load() < phaseOver {
		if err := h.Lock(drain); err != nil {
			if drain.Err() != nil {
				return t, nil // left waiting; the earlier samples are good
			}
			return nil, err
		}
		acquired := time.Now().UnixNano()
		passed := a.last.Load() != 0 && a.last.Load() != me
		if passed && a.phase.Load() == phaseCount {
			t.Samples = append(t.Samples, time.Duration(acquired-a.releasedAt.Load()))
		}
		t.Sections++
		a.counter.Store(a.counter.Load() + 1)
		a.last.Store(me)
		time.Sleep(settle)
		a.releasedAt.Store(time.Now().UnixNano())
		if err := h.Unlock(ctx); err != nil {
			return nil, err
		}
		for a.last.Load() == me && a.phase.Load() < phaseOver { // until the other process had its turn
			time.Sleep(time.Millisecond)
		}
	}
	return t, nil
}
