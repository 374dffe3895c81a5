package main

import (
	"math"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 0.03*math.Abs(want)) && !(math.IsNaN(got) && math.IsNaN(want)) {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	near(t, "of none", median(nil), math.NaN())
	near(t, "of one", median([]float64{7}), 7)
	near(t, "of an odd number", median([]float64{9, 1, 5}), 5)
	near(t, "of an even number", median([]float64{9, 1, 5, 7}), 6)
	values := []float64{3, 1, 2}
	median(values)
	near(t, "first value, unsorted", values[0], 3)
}

func TestWaitsAddUp(t *testing.T) {
	t.Parallel()
	a, b := Waits{}, Waits{}
	near(t, "of none", a.quantile(0.5, 1), math.NaN())
	for i := 1; i <= 50; i++ {
		a.add(time.Duration(i) * time.Millisecond)
		b.add(time.Duration(50+i) * time.Millisecond)
	}
	b.add(0) // the clock may not have advanced
	a.merge(b)
	near(t, "median", a.quantile(0.5, time.Millisecond), 50)
	near(t, "p99", a.quantile(0.99, time.Millisecond), 99)
	near(t, "in µs", a.quantile(1, time.Microsecond), 100000)
}

func TestSpread(t *testing.T) {
	t.Parallel()
	near(t, "of none", spread(nil), math.NaN())
	near(t, "of some", spread([]int64{10, 5, 8}), 2)
	if v := spread([]int64{10, 0}); !math.IsInf(v, 1) {
		t.Errorf("with a zero count: %v", v)
	}
}

// roundsOf returns samples with one figure per round; NaN stands for a failed round.
func roundsOf(values map[string][]float64) samples {
	s := samples{}
	for library, rounds := range values {
		for _, v := range rounds {
			if math.IsNaN(v) {
				s[library] = append(s[library], nil)
			} else {
				s[library] = append(s[library], Metrics{mLatency: v, mHandOffs: 1000 / v, mWait99: v})
			}
		}
	}
	return s
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	s := roundsOf(map[string][]float64{
		floor:   {10, 100, 10}, // the machine was slow in the second round
		"rlock": {11, 110, 12},
		"a":     {20, 150, nan},
		"b":     {30, 120, 30},
		"none":  {nan, nan, nan},
	})
	near(t, "to the floor", s.ratio("rlock", floor, mLatency), 1.1)
	if got, want := s.ratioRange(floor, mLatency), " (1.00 to 10.00)"; got != want {
		t.Errorf("the floor varies by%s, want%s", got, want)
	}
	near(t, "with a failed round", s.ratio("a", floor, mLatency), 1.75)
	near(t, "of nothing", s.ratio("none", floor, mLatency), nan)
	near(t, "to nothing", s.ratio("rlock", "absent", mLatency), nan)
	peers := []string{"a", "b", "none"}
	near(t, "to the lowest", s.ratioToBest("rlock", peers, mLatency, true), 0.55)       // 11/20, 110/120, 12/30
	near(t, "to the highest", s.ratioToBest("rlock", peers, mHandOffs, false), 20.0/11) // 20/11, 120/110, 30/12
	near(t, "to none", s.ratioToBest("rlock", []string{"none"}, mLatency, true), nan)   // no ratio, and no panic
}

func TestWaitsAreComparedToAQueue(t *testing.T) {
	t.Parallel()
	s := roundsOf(map[string][]float64{floor: {10}, "rlock": {60}})
	s.compareToFIFO(4) // the fourth waits for three hand-offs of 10 ms
	near(t, "p99", s.at("rlock", 0, mFIFO), 2)
	near(t, "the floor has none", s.at(floor, 0, mFIFO), math.NaN())
}

func TestWorse(t *testing.T) {
	t.Parallel()
	low, high := guarded{lowIsGood: true}, guarded{}
	for _, c := range []struct {
		g          guarded
		now, was   float64
		worse      bool
		becauseThe string
	}{
		{low, 1.3, 1, false, "tolerance is 40 %"},
		{low, 1.5, 1, true, "limit is 1.4"},
		{low, 0.1, 1, false, "less is better"},
		{high, 0.75, 1, false, "limit is 1/1.4"},
		{high, 0.70, 1, true, "limit is 1/1.4"},
		{high, 9, 1, false, "more is better"},
		{low, math.NaN(), 1, true, "figure is missing"},
		{guarded{lowIsGood: true, slack: 2}, 2, 0, false, "slack is 2"},
		{low, 1, 0, true, "record is 0, like that of lost locks"},
	} {
		if got := c.g.worse(c.now, c.was, 0.4); got != c.worse {
			t.Errorf("%v after %v: worse is %v, but the %s", c.now, c.was, got, c.becauseThe)
		}
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 2: "2", 1.234: "1.23", 22.04: "22.0", 345.6: "346", 12345.6: "12,346", 1234567: "1,234,567",
		-1234: "-1,234", -123456: "-123,456", math.Inf(1): "∞",
	} {
		if got := figure(v); got != want {
			t.Errorf("%v is formatted as %q, not %q", v, got, want)
		}
	}
	if got := figure(math.NaN()); got != "" {
		t.Errorf("NaN is formatted as %q", got)
	}
}
