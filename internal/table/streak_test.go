package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStreakEnds(t *testing.T) {
	t.Parallel()
	s := streak{since: start}
	require.False(t, s.over(1, time.Second, start))
	require.True(t, s.over(1, time.Second, start.Add(time.Second)))
	var last, next Grant
	last.streak = s
	next.follow(&last, start.Add(time.Minute))
	require.True(t, next.streak.over(1, time.Hour, start))
	require.Equal(t, start, next.streak.since)
	require.Equal(t, start.Add(time.Minute), next.streak.began())
	require.True(t, s.over(0, time.Second, start), "none is allowed")
}
