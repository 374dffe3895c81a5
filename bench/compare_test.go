package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestComparisonTakesRatiosWithinARound(t *testing.T) {
	t.Parallel()
	g := guarded{library: "rlock", scenario: "S1", size: "1", metric: mLatency, toFloor: true, lowIsGood: true}
	found := map[string]samples{g.cell(): roundsOf(map[string][]float64{
		"old rlock": {10, 100, 20}, // the machine was slow in the second round
		"new rlock": {11, 90, 22},
	})}
	var out bytes.Buffer
	if err := writeComparison(&out, found, []guarded{g}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[1]), " ")
	if want := "rlock, S1 1: latency µs less 20 22 1.100 0.900-1.100 1.100"; got != want {
		t.Errorf("got %q, not %q", got, want)
	}
}

func TestCompareNeedsACheckout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := buildWith(t.Context(), dir, dir); err == nil || !strings.Contains(err.Error(), "-compare needs") {
		t.Errorf("a directory without go.mod: %v", err)
	}
}
