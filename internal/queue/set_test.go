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
