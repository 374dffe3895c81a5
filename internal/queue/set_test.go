package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/queue"
)

func TestASetHasTheQueuesThatHaveWaiters(t *testing.T) {
	t.Parallel()
	var s queue.Set[string, int, string]
	require.Nil(t, s.Of("name"))
	l, head := s.Join("name", 1)
	require.True(t, head)
	l.Shared = "seen"
	again, head := s.Join("name", 2)
	require.False(t, head)
	require.Same(t, l, again)
	require.Same(t, l, s.Of("name"))
	_, head = s.Join("other", 4)
	require.True(t, head, "names have queues of their own")
	require.Equal(t, 2, s.Len())

	s.Join("name", 3)
	require.Zero(t, s.Leave("name", 2), "it was not the head")
	require.Equal(t, 3, s.Leave("name", 1))
	require.Equal(t, "seen", l.Shared)
	require.Zero(t, s.Leave("name", 3), "nobody is left")
	require.Nil(t, s.Of("name"))
	require.Equal(t, 1, s.Len())
}

func TestAQueueIsReusedWithoutWhatItsWaitersShared(t *testing.T) {
	t.Parallel()
	var s queue.Set[string, int, string]
	l, _ := s.Join("name", 1)
	l.Shared = "seen"
	s.Leave("name", 1)
	again, _ := s.Join("other", 2)
	require.Same(t, l, again)
	require.Empty(t, again.Shared)
	require.Equal(t, []int{2}, again.All())
}

func TestItemsAreDividedBySort(t *testing.T) {
	t.Parallel()
	sortOf := func(i int) (odd, alone bool) { return i%2 == 1, i > 10 }
	require.Equal(t, [][]int{{1, 3}, {2, 4}, {11}, {5}, {13}, {6}}, queue.Batches([]int{1, 2, 3, 11, 4, 5, 13, 6}, 2, sortOf))
	require.Empty(t, queue.Batches([]int(nil), 2, sortOf))
}

// timed is an item of a heap.
type timed struct{ queue.Timed[int64] }

func TestAHeapAsksForEarlierAlarmsOnly(t *testing.T) {
	t.Parallel()
	var h queue.Heap[*timed, int64]
	require.Zero(t, h.Alarm())
	require.Nil(t, h.Due(100))
	first, second := new(timed), new(timed)
	h.Set(second, 20)
	require.EqualValues(t, 20, h.Alarm())
	require.Zero(t, h.Alarm(), "it was asked for")
	h.Set(first, 10)
	require.EqualValues(t, 10, h.Alarm())
	h.Set(first, 30)
	require.Zero(t, h.Alarm(), "an earlier one was asked for")
	h.Rang()
	require.EqualValues(t, 20, h.Alarm())
	require.Nil(t, h.Due(19))
	require.Same(t, second, h.Due(20))
	require.Equal(t, []*timed{second}, h.Before(30))
	h.Remove(second)
	h.Remove(second)
	require.Same(t, first, h.All()[0])
	require.EqualValues(t, 30, first.DueAt())
	require.Equal(t, 1, h.Len())
}
