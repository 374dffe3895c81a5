package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARingIsNotLost(t *testing.T) {
	t.Parallel()
	var b Bell
	require.False(t, b.Slept())
	b.Ring()
	b.Ring()
	<-b.C()
	require.True(t, b.Slept())
	require.Empty(t, b.C(), "rings before the sleep count once")
	b.Ring()
	b.Ring()
	<-b.C()
	require.Empty(t, b.C())
	PutToken(nil)
}

func TestOperationsTakeTurns(t *testing.T) {
	t.Parallel()
	var turns Turns
	require.True(t, turns.Begin())
	require.False(t, turns.Begin())
	turns.Announce()
	require.False(t, turns.BeginAnnounced())
	idle := turns.Idle()
	turns.Notify()
	<-idle
	require.False(t, turns.BeginAnnounced(), "a notice ends no operation")
	idle = turns.Idle()
	turns.End()
	<-idle
	require.False(t, turns.Begin(), "the announced one comes first")
	require.True(t, turns.BeginAnnounced())
	turns.End()
	require.True(t, turns.Begin())
}
