package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	var l Latest[int]
	find := func(n int) int { return l.Find(func(item int) bool { return item == n }) }
	require.Zero(t, find(1))
	for n := 1; n <= 2*maxLatest+1; n++ {
		l.Add(n)
		require.Equal(t, n, find(n))
		require.Zero(t, find(n-maxLatest), "it is forgotten")
		if oldest := n - maxLatest + 1; oldest > 0 {
			require.Equal(t, oldest, find(oldest))
		}
	}
}
