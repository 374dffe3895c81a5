package main

import (
	"errors"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
	"github.com/go-rlock/rlock/simulation/internal/overlay"
)

var runsFlag = flag.Int("runs", 3, "how often TestASeedDecidesEverything plays each seed")

// TestASeedDecidesEverything plays seeds again and again, each time in a fresh process. If a goroutine, a random number, a clock or the order
// of a map leaks in from outside, the traces differ.
func TestASeedDecidesEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runtime of Go")
	}
	b, err := build(t.TempDir(), nil)
	require.NoError(t, err)
	for _, seed := range []uint64{1, 18} { // with faults of single commands, and with processes that come and go
		var first uint64
		for i := range *runsFlag {
			cmd, file := b.command(seed)
			out, err := cmd.CombinedOutput()
			res := result(seed, file, err, out)
			require.True(t, res.Exact, "the overlay of the runtime is missing: see %s", "TestEveryEditFits")
			require.Positive(t, res.Got)
			if i == 0 {
				first = res.Hash
			}
			require.Equal(t, first, res.Hash, "run %d of seed %d", i+1, seed)
		}
	}
}

// TestWithoutTheRuntime is about a version of Go that the edits do not fit: the simulation runs nevertheless.
func TestWithoutTheRuntime(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the scenes")
	}
	b, err := buildWith(func(string) (overlay.File, error) { return overlay.File{}, errors.New("an edit does not fit") }, t.TempDir(), nil)
	require.NoError(t, err)
	cmd, file := b.command(1)
	out, err := cmd.CombinedOutput()
	res := result(1, file, err, out)
	require.False(t, res.Exact)
	require.Positive(t, res.Got)
	require.Empty(t, res.Broken)
}

// TestMutantsAreRead reads the planted bugs of the torture and of the table, and plants each. Nearly all share one build.
func TestMutantsAreRead(t *testing.T) {
	all, err := allMutants()
	require.NoError(t, err)
	require.Greater(t, len(all), 60+len(mutants.Table))
	names := make(map[string]bool)
	for _, m := range all {
		require.False(t, names[m.Name], m.Name)
		names[m.Name] = true
		require.NotEmpty(t, m.What, m.Name)
		require.NotEmpty(t, m.Edits, m.Name)
	}
	for name := range elsewhere {
		require.True(t, names[name], name)
	}
	_, rest, err := mutants.Schemata("..", all)
	require.NoError(t, err)
	require.Less(t, len(rest), 10)
}
