package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNotReached reads a profile, and what `go tool cover -func` says of it.
func TestNotReached(t *testing.T) {
	t.Parallel()
	const a, b = internalPath + "table/a.go", internalPath + "table/b.go"
	profile := "mode: set\n" +
		a + ":10.20,12.3 2 1\n" +
		a + ":15.9,17.4 2 0\n" + // not in the order of the lines
		a + ":12.3,14.9 1 0\n" +
		a + ":18.2,18.9 0 0\n" + // no statement
		a + ":21.2,21.9 1 0\n" +
		a + ":31.2,33.9 1 0\n" +
		b + ":7.2,9.9 1 1\n"
	functions := a + ":9:\tFirst\t\t50.0%\n" +
		a + ":30:\tSecond\t\t0.0%\n" +
		b + ":5:\tThird\t\t100.0%\n" +
		"total:\t\t(statements)\t50.0%\n"
	got, err := notReached(profile, functions)
	require.NoError(t, err)
	require.Equal(t, "  table/a.go:12-17,21 First\n  table/a.go:31-33 Second\n", got)

	_, err = notReached("mode: set\n"+a+":x.2,y.9 1 0\n", functions)
	require.Error(t, err)
}
