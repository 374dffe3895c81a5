package place

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoIsAlive(t *testing.T) {
	t.Parallel()
	var a Alive[string]
	_, ok := a.Of(1)
	require.False(t, ok)
	a.Forget(1, "one")
	a.Pass(1, "one", "two")
	require.Zero(t, a.Len())
	a.Note(1, "one")
	a.Note(2, "other")
	a.Pass(1, "somebody", "two")
	w, ok := a.Of(1)
	require.True(t, ok)
	require.Equal(t, "one", w)
	a.Pass(1, "one", "two")
	a.Forget(1, "one")
	require.Equal(t, []int64{1}, a.Numbers(func(w string) bool { return w == "two" }), "another one has its number")
	a.Forget(1, "two")
	require.Equal(t, 1, a.Len())
}

// TestWhatAChannelIsAbout has far more channels than a client hears at a time. It knows those that it hears, and few others.
func TestWhatAChannelIsAbout(t *testing.T) {
	t.Parallel()
	var o Origins[int]
	require.Zero(t, o.Of("c1"))
	heard := make(map[string]bool)
	for i := range 10_000 {
		heard[fmt.Sprint("c", i)] = true
		delete(heard, fmt.Sprint("c", i-100))
		o.Note(fmt.Sprint("c", i), i, func(channel string) bool { return heard[channel] })
		for k := max(0, i-99); k <= i; k++ {
			require.Equal(t, k, o.Of(fmt.Sprint("c", k)))
		}
		require.LessOrEqual(t, len(o.channels), 201)
	}
}
