package owner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAValueIsMadeOnce(t *testing.T) {
	t.Parallel()
	var o Owner
	require.Nil(t, o.Attached("key"))
	require.Equal(t, 1, o.Value("key", func() any { return 1 }))
	require.Equal(t, 1, o.Value("key", func() any { return 2 }))
	require.Equal(t, 1, o.Attached("key"))
	require.Equal(t, 1, o.Len())
}

func TestOnlyTheValueThatIsThereIsDetached(t *testing.T) {
	t.Parallel()
	var o Owner
	o.Detach("key", 1)
	o.Attach("key", 1)
	o.Attach("key", 2)
	o.Detach("key", 1)
	require.Equal(t, 2, o.Attached("key"))
	o.Detach("key", 2)
	require.Zero(t, o.Len())
}

type holding struct{ key string }

func (h *holding) HeldAs() string { return h.key }

func TestAnOwnerHoldsOneUnderAKey(t *testing.T) {
	t.Parallel()
	var s Holdings[string, *holding]
	var shared, single Owner
	a, b, c := &holding{"a"}, &holding{"b"}, &holding{"a"}
	require.Nil(t, s.Of("a", nil))
	require.Nil(t, s.Of("a", &shared))
	s.Add(a, &shared, true)
	s.Add(b, &shared, true)
	s.Add(c, &single, false)
	require.Same(t, a, s.Of("a", &shared))
	require.Same(t, b, s.Of("b", &shared))
	require.Same(t, c, s.Of("a", &single))
	require.Nil(t, s.Of("b", &single))
	require.Equal(t, 2, s.Len())

	s.Remove(c, &shared, true)
	require.Same(t, a, s.Of("a", &shared), "another one is there")
	s.Remove(a, &shared, true)
	s.Remove(c, &single, false)
	require.Nil(t, s.Of("a", &shared))
	require.Nil(t, s.Of("a", &single))
	require.Equal(t, 1, s.Len())
}

func TestWithoutAnOwnerThePlainThenTheLostThenTheSoonestIsUnlocked(t *testing.T) {
	t.Parallel()
	inOrder := []State{
		{Plain: true, Lost: true, Deadline: 7},
		{Plain: true, Lost: true, Deadline: 9},
		{Plain: true, Deadline: 1},
		{Plain: true, Deadline: 3},
		{Lost: true, Deadline: 5},
		{Deadline: 2},
		{Deadline: 4},
	}
	of := func(i int) State { return inOrder[i-1] }
	soonest := func(all ...int) int {
		var u Unlocks[int]
		for _, i := range all {
			u.Add(i)
		}
		return u.Soonest(func(int) bool { return true }, of)
	}
	require.Zero(t, soonest())
	for first := 1; first <= len(inOrder); first++ {
		for other := first + 1; other <= len(inOrder); other++ {
			require.Equal(t, first, soonest(first, other))
			require.Equal(t, first, soonest(other, first))
		}
	}
}
