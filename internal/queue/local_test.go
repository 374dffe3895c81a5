package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/queue"
)

func TestWaitersOfALocalQueueTakeTheirTurns(t *testing.T) {
	t.Parallel()
	var l queue.Local[string, int]
	first := l.Join("a")
	require.Nil(t, first.Head(), "it is the head at once")
	second, third := l.Join("a"), l.Join("a")
	require.Nil(t, l.Join("b").Head(), "each name has a queue of its own")
	require.Equal(t, 3, l.Waiting("a"))
	require.Zero(t, l.Waiting("c"))
	require.Equal(t, 2, l.Len())

	isHead := func(w *queue.Waiter[string, int]) bool {
		select {
		case <-w.Head():
			return true
		default:
			return false
		}
	}
	require.False(t, isHead(second))
	first.Share(7)
	require.Equal(t, 7, second.Leave(), "one that leaves before its turn has what the head shared")
	require.False(t, isHead(third))
	require.Equal(t, 7, first.Leave())
	require.True(t, isHead(third))
	require.Equal(t, 7, third.Leave(), "it outlives the one that shared it")
	require.Zero(t, l.Waiting("a"))
	require.Equal(t, 1, l.Len())

	var none *queue.Waiter[string, int]
	none.Share(1)
	require.Zero(t, none.Leave())
}
