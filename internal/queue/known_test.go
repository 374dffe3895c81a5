package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKnown(t *testing.T) {
	t.Parallel()
	var s Known[int]
	require.False(t, s.Mark(0), "not known")
	for k := range maxKnown {
		s.Add(k)
		s.Add(k) // changes nothing
	}
	require.True(t, s.Mark(0))
	require.False(t, s.Mark(0), "marked before")
	s.Add(0)
	require.False(t, s.Mark(0), "a mark stays")
	for k := range 3 * maxKnown {
		s.Add(maxKnown + k)
		require.Len(t, s.marked, maxKnown)
		require.Len(t, s.order, maxKnown)
	}
	for k := range 3 * maxKnown {
		require.False(t, s.Mark(k), "%d was added before the %d known ones", k, maxKnown)
	}
	for k := range maxKnown {
		require.True(t, s.Mark(3*maxKnown+k))
	}
	s.Add(0)
	require.True(t, s.Mark(0), "it is known again, without its mark")
}
