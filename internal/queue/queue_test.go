package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/queue"
)

func TestAnEmptyQueue(t *testing.T) {
	t.Parallel()
	var q queue.Queue[string]
	require.Zero(t, q.Len())
	require.Empty(t, q.Head())
	require.Empty(t, q.All())
	require.False(t, q.Leave("stranger"))
}

func TestTheHeadIsTheWaiterThatCameFirst(t *testing.T) {
	t.Parallel()
	var q queue.Queue[string]
	require.True(t, q.Join("a"))
	require.False(t, q.Join("b"))
	require.False(t, q.Join("c"))
	require.Equal(t, []string{"a", "b", "c"}, q.All())

	require.False(t, q.Leave("b"), "it was not the head")
	require.Equal(t, "a", q.Head())
	require.True(t, q.Leave("a"))
	require.Equal(t, "c", q.Head())
	require.False(t, q.Leave("a"), "it left before")
	require.True(t, q.Leave("c"))
	require.Zero(t, q.Len())
	require.True(t, q.Join("d"), "an emptied queue can be used again")
}

func TestWaitersThatLeftAreNotKeptAlive(t *testing.T) {
	t.Parallel()
	var q queue.Queue[*int]
	q.Join(new(int))
	q.Join(new(int))
	array := q.All()
	q.Leave(array[1])
	require.Nil(t, array[1])
}

func TestAQueueKeepsTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	var q queue.Queue[int]
	var want []int
	for next := 1; next < 2000; next++ {
		if len(want) > 0 && rand.N(2) == 0 {
			i := rand.N(len(want))
			require.Equal(t, i == 0, q.Leave(want[i]))
			want = slices.Delete(want, i, i+1)
		} else {
			require.Equal(t, len(want) == 0, q.Join(next))
			want = append(want, next)
		}
		require.Equal(t, len(want), q.Len())
		if len(want) > 0 {
			require.Equal(t, want, q.All())
			require.Equal(t, want[0], q.Head())
		}
	}
}
