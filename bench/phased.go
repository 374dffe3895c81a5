package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// errBroken means that a library let two owners into a lock.
var errBroken = errors.New("BROKEN: an update was lost under the lock")

// phased runs a cell whose processes begin and end together, and adds up their tallies.
func (l *lab) phased(ctx context.Context, prefix []string, s *servers, c Cell) (Metrics, error) {
	file, err := newArena()
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file) }()
	c.Arena = file
	a, err := openArena(file)
	if err != nil {
		return nil, err
	}
	var sent float64
	var elapsed time.Duration
	outcomes, err := l.children(ctx, prefix, c, func() error {
		sent, elapsed, err = conduct(ctx, a, s, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	tallies := make([]*Tally, len(outcomes))
	for i, o := range outcomes {
		tallies[i] = o.Tally
	}
	if err := lostUpdates(a, tallies); err != nil {
		return nil, err
	}
	switch {
	case c.Scenario == "S5":
		return passingMetrics(tallies)
	case c.Names == 1:
		return contendedMetrics(a, tallies, sent, elapsed)
	default:
		return aloneMetrics(tallies, sent, elapsed)
	}
}

// lostUpdates returns errBroken if the counter missed a section.
func lostUpdates(a *arena, tallies []*Tally) error {
	sections := int64(0)
	for _, t := range tallies {
		sections += t.Sections
	}
	if n := a.counter.Load(); n != sections {
		return fmt.Errorf("%w: %d of %d", errBroken, sections-n, sections)
	}
	return nil
}

// conduct leads the processes through the phases. It returns the number of commands that they sent in the counting phase,
// and its duration.
func conduct(ctx context.Context, a *arena, s *servers, c Cell) (sent float64, elapsed time.Duration, err error) {
	defer a.phase.Store(phaseOver)
	for ready := time.Now().Add(10 * time.Second); int(a.ready.Load()) < c.Processes; time.Sleep(time.Millisecond) {
		if time.Now().After(ready) || ctx.Err() != nil {
			return 0, 0, nil // a child has failed and reports the error
		}
	}
	a.phase.Store(phaseWarm)
	time.Sleep(c.Warmup)
	if err := s.reset(ctx); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	a.phase.Store(phaseCount)
	time.Sleep(c.Measure)
	a.phase.Store(phaseOver)
	elapsed = time.Since(start)
	sent, err = s.sent(ctx, c.Library)
	return sent, elapsed, err
}

var errNothing = errors.New("no acquisition in the counting phase")

func aloneMetrics(tallies []*Tally, sent float64, elapsed time.Duration) (Metrics, error) {
	pairs := int64(0)
	for _, t := range tallies {
		for _, n := range t.Pairs {
			pairs += n
		}
	}
	if pairs == 0 {
		return nil, errNothing
	}
	return Metrics{mPairs: float64(pairs) / elapsed.Seconds(), mCommands: sent / float64(pairs)}, nil
}

func contendedMetrics(a *arena, tallies []*Tally, sent float64, elapsed time.Duration) (Metrics, error) {
	taken, handOffs := float64(a.taken.Load()), float64(a.handOffs.Load())
	if len(tallies) == 1 && len(tallies[0].Pairs) == 1 { // the floor has one goroutine and no hand-offs
		handOffs = taken
	}
	if handOffs == 0 {
		return nil, errNothing
	}
	waits, left := Waits{}, int64(0)
	var each, processes []int64
	var longest []float64
	for _, t := range tallies {
		waits.merge(t.Waits)
		left += t.Left
		each = append(each, t.Pairs...)
		sum := int64(0)
		for _, n := range t.Pairs {
			sum += n
		}
		processes = append(processes, sum)
		longest = append(longest, float64(t.Longest)/float64(time.Millisecond))
	}
	m := Metrics{
		mHandOffs: handOffs / elapsed.Seconds(), mCommands: sent / taken, mPerHandOff: sent / handOffs,
		mWait50: waits.quantile(0.5, time.Millisecond), mWait99: waits.quantile(0.99, time.Millisecond),
		mTail:   waits.quantile(0.99, 1) / waits.quantile(0.5, 1),
		mSpread: spread(each), mLeft: float64(left),
	}
	if len(tallies) > 1 {
		m[mBetween] = float64(a.between.Load()) / elapsed.Seconds()
		m[mShare] = spread(processes)
		var shares []float64
		for _, n := range processes {
			shares = append(shares, 100*float64(n)/taken)
		}
		m.list(mShares, shares)
		m.list(mLongest, longest)
	}
	return m, nil
}

// list sets the figures of a list, the largest first.
func (m Metrics) list(name string, values []float64) {
	slices.Sort(values)
	for i, v := range slices.Backward(values) {
		m[fmt.Sprintf("%s %d", name, len(values)-i)] = v
	}
}

func passingMetrics(tallies []*Tally) (Metrics, error) {
	var all []float64
	w := Waits{}
	for _, t := range tallies {
		for _, d := range t.Samples {
			all = append(all, float64(d)/float64(time.Microsecond))
			w.add(d)
		}
	}
	if len(all) == 0 {
		return nil, errNothing
	}
	slices.Sort(all)
	return Metrics{mLatency: median(all), mLatency99: w.quantile(0.99, time.Microsecond)}, nil
}
