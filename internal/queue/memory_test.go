package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLatestKeysAreRemembered sets more keys than a memory has room for.
func TestTheLatestKeysAreRemembered(t *testing.T) {
	t.Parallel()
	const size = 8
	m := NewMemory[int, string](size)
	_, ok := m.Of(0)
	require.False(t, ok)
	for k := range size {
		m.Set(k, "first")
	}
	m.Set(0, "second")
	for k := range size {
		_, ok := m.Of(k)
		require.True(t, ok, "the second value of a key takes no second place")
	}
	v, _ := m.Of(0)
	require.Equal(t, "second", v, "the latest one counts")
	require.Empty(t, m.Forgotten())
	m.Set(size, "new")
	_, ok = m.Of(1)
	require.False(t, ok, "the one that was set first makes way")
	require.Equal(t, "first", m.Forgotten())
	_, ok = m.Of(0)
	require.True(t, ok, "it was set again")
	for k := range 3 * size {
		m.Set(2*size+k, "later")
		require.Len(t, m.values, size)
		require.Len(t, m.order, size)
	}
	for k := range 4 * size {
		_, ok := m.Of(k)
		require.False(t, ok, "%d was set before the latest %d", k, size)
	}
	for k := range size {
		_, ok := m.Of(4*size + k)
		require.True(t, ok)
	}
}

// TestValuesExpire has values that are moments, which are set in their order.
func TestValuesExpire(t *testing.T) {
	t.Parallel()
	m := NewMemory[string, int](3)
	expire := func(now int) { m.Expire(func(until int) bool { return until <= now }) }
	has := func(k string) bool {
		_, ok := m.Of(k)
		return ok
	}
	m.Set("a", 10)
	m.Set("b", 11)
	m.Set("a", 12)
	require.True(t, has("a"))
	require.False(t, has("c"))
	expire(10)
	require.True(t, has("a"), "it was set again")
	require.True(t, has("b"))
	expire(11)
	require.False(t, has("b"))
	expire(12)
	require.False(t, has("a"))

	for i, k := range []string{"c", "d", "e", "f"} {
		m.Set(k, 20+i)
	}
	require.Equal(t, 20, m.Forgotten())
	expire(19)
	require.Equal(t, 20, m.Forgotten())
	expire(20)
	require.Zero(t, m.Forgotten())
	require.True(t, has("d"))
}
