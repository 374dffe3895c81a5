package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// errBroken means that a library let two owners into a lock.
var errBroken = errors.New("BROKEN: an update was lost under the lock")

// phased runs a cell whose processes begin and end together, and adds up their tallies.
func (l *lab) phased(ctx context.Context, prefix []string, s *servers, c Cell) (Metrics, error) {
	a, remove, err := makeArena(&c)
	if err != nil {
		return nil, err
	}
	defer remove()
	var spent usage
	var elapsed time.Duration
	outcomes, err := l.children(ctx, prefix, c, func(*crew) error {
		spent, elapsed, err = conduct(ctx, a, s, c)
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
		return contendedMetrics(a, tallies, spent, elapsed)
	default:
		return aloneMetrics(tallies, spent.all(), elapsed)
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

// conduct leads the processes through the phases. It returns what they used in the counting phase, and its duration.
func conduct(ctx context.Context, a *arena, s *servers, c Cell) (spent usage, elapsed time.Duration, err error) {
	defer a.phase.Store(phaseOver)
	if !begin(ctx, a, c) {
		return spent, 0, nil // a child has failed and reports the error
	}
	time.Sleep(c.Warmup)
	if err := s.reset(ctx); err != nil {
		return spent, 0, err
	}
	before, err := s.used(ctx, c.Library)
	if err != nil {
		return spent, 0, err
	}
	start := time.Now()
	a.phase.Store(phaseCount)
	time.Sleep(c.Measure)
	a.phase.Store(phaseOver)
	elapsed = time.Since(start)
	spent, err = s.used(ctx, c.Library)
	spent.cpu -= before.cpu
	return spent, elapsed, err
}

// begin starts the first phase when all processes are ready. It reports false if one is not ready in time.
func begin(ctx context.Context, a *arena, c Cell) bool {
	for ready := time.Now().Add(10*time.Second + c.opening()); int(a.ready.Load()) < c.Processes; time.Sleep(time.Millisecond) {
		if time.Now().After(ready) || ctx.Err() != nil {
			return false
		}
	}
	a.phase.Store(phaseWarm)
	return true
}

var errNothing = errors.New("no acquisition in the counting phase")

func aloneMetrics(tallies []*Tally, sent float64, elapsed time.Duration) (Metrics, error) {
	pairs, latencies := int64(0), Waits{}
	for _, t := range tallies {
		latencies.merge(t.Waits)
		for _, n := range t.Pairs {
			pairs += n
		}
	}
	if pairs == 0 {
		return nil, errNothing
	}
	return Metrics{
		mPairs: float64(pairs) / elapsed.Seconds(), mCommands: sent / float64(pairs),
		mLatency99: latencies.quantile(0.99, time.Microsecond),
	}, nil
}

func contendedMetrics(a *arena, tallies []*Tally, spent usage, elapsed time.Duration) (Metrics, error) {
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
	sent := spent.all()
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
		mTail:    waits.quantile(0.99, 1) / waits.quantile(0.5, 1),
		mRound:   waits.quantile(0.99, time.Second) * handOffs / elapsed.Seconds() / float64(len(each)),
		mWaitMax: slices.Max(longest),
		mFewest:  float64(slices.Min(each)), mMost: float64(slices.Max(each)),
		mSpread: spread(each), mLeft: float64(left),
		mScripts:   spent.sum("evalsha", "eval") / handOffs,
		mSubscribe: spent.sum("subscribe", "unsubscribe", "ssubscribe", "sunsubscribe") / handOffs,
		mPings:     spent.sum("ping") / handOffs,
		mScriptCPU: spent.script / handOffs, mCPU: spent.cpu / handOffs,
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
