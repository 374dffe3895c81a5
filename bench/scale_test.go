package main

import (
	"testing"
	"time"
)

// TestACellMeasuresThreePeriods checks that no scale has a figure come from a trough between two bursts.
func TestACellMeasuresThreePeriods(t *testing.T) {
	t.Parallel()
	for by, want := range map[float64]time.Duration{0.1: 30 * time.Second, 1: 30 * time.Second, 2: 40 * time.Second} {
		c := Cell{Warmup: time.Second, Measure: 20 * time.Second, Period: 10 * time.Second}
		if c.scale(by); c.Measure != want || c.Warmup != scaled(time.Second, by) {
			t.Errorf("scale %v: %v, %v", by, c.Warmup, c.Measure)
		}
	}
}
