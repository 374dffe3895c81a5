package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShunned(t *testing.T) {
	t.Parallel()
	var s Shunned[string, int64]
	require.False(t, s.Has("a"))
	s.Add("a", 10)
	s.Add("b", 11)
	s.Add("a", 12)
	require.True(t, s.Has("a"))
	require.False(t, s.Has("c"))
	s.Expire(10)
	require.True(t, s.Has("a"), "it was added again")
	s.Expire(11)
	require.False(t, s.Has("b"))
	s.Expire(12)
	require.False(t, s.Has("a"))
}

func TestTooManyShunnedKeys(t *testing.T) {
	t.Parallel()
	var s Shunned[int64, int64]
	for k := range int64(maxShunned) {
		s.Add(k, 10+k)
	}
	require.False(t, s.Has(-1))
	s.Add(maxShunned, 10+maxShunned)
	require.True(t, s.Has(-1), "all of them")
	require.Empty(t, s.keys)
	s.Add(-2, 1000)
	s.Expire(10 + maxShunned - 1)
	require.True(t, s.Has(-1))
	s.Expire(10 + maxShunned)
	require.False(t, s.Has(-2), "the first one too many decides")
}
