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
	b.Looked()
	b.Ring()
	b.Ring()
	<-b.C()
	require.Empty(t, b.C())
	PutToken(nil)
}

// TestASleeperKnowsWhoHasWokenIt lets a bell and somebody else put tokens into one channel, in every order of six events, and the sleeper
// take one at any moment.
func TestASleeperKnowsWhoHasWokenIt(t *testing.T) {
	t.Parallel()
	const events, length = 4, 6
	stories := 1
	for range length {
		stories *= events
	}
	for story := range stories {
		var b Bell
		c := b.C()
		rang, told, took, what := false, false, false, ""
		for i, rest := 0, story; i < length; i, rest = i+1, rest/events {
			switch rest % events {
			case 0:
				what += "r"
				b.Ring()
				rang = true
			case 1:
				what += "m"
				PutToken(c)
				told = true
			case 2: // it wakes, and looks later
				what += "w"
				if !took && len(c) > 0 {
					<-c
					took = true
				}
			default:
				what += "l"
				if took {
					require.Equal(t, told, b.Heard(c), what)
					require.Empty(t, c, what)
					rang, told, took = false, false, false
				}
			}
			require.True(t, took || !rang && !told || len(c) > 0, "after %s nothing wakes it", what)
		}
	}
}

func TestABellLeavesItsChannelToOthers(t *testing.T) {
	t.Parallel()
	var b Bell
	c := b.C()
	b.Leave(make(chan struct{}))
	b.Ring()
	require.Len(t, c, 1, "that was another channel")
	PutToken(c)
	b.Leave(c)
	require.Len(t, c, 1, "the token of the others")
	<-b.C()
	require.Len(t, c, 1, "the ring is not lost, and nobody else gets it")
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
