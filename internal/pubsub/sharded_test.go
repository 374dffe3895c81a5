package pubsub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

const (
	nodeA = fakeNode("a:6379")
	nodeB = fakeNode("b:6379")
)

// runSharded runs a test with a hub whose channels are sharded, and all on node A.
func runSharded(t *testing.T, test func(f *fixture)) {
	t.Helper()
	run(t, cluster, func(f *fixture) {
		f.driver.home = nodeA
		test(f)
	})
}

func TestAShardedChannelIsOnItsNode(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		wake := f.listen("x")
		require.True(f, woken(wake))
		f.listen("y")
		s, opened := f.driver.latest()
		require.Equal(f, 1, opened, "one connection to the node, and none elsewhere")
		require.Equal(f, nodeA, s.node)
		require.True(f, s.sharded)
		require.Equal(f, []string{"+x", "+y"}, s.sent())
		require.Equal(f, Stats{Channels: 2, Shards: 1}, f.hub.Stats())
		f.hub.Unlisten("x", wake)
		f.after(channelLinger + keeperTick)
		require.Contains(f, s.sent(), "-x")
		f.confirmed(true, "y")
	})
}

func TestTheConnectionOfAShardEnds(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		wake := f.listen("x")
		f.hub.Unlisten("x", wake)
		f.after(channelLinger + connectionLinger + 2*keeperTick)
		s, _ := f.driver.latest()
		require.True(f, s.isClosed())
		require.Zero(f, f.hub.Stats())
	})
}

func TestASlotThatMovesTakesItsWaitersAlong(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		wake := f.listen("x")
		require.True(f, woken(wake))
		old, _ := f.driver.latest()
		f.driver.set(func() { f.driver.home = nodeB })
		old.receives(driver.Unsubscribed, "x", nil)
		s, opened := f.driver.latest()
		require.Equal(f, 2, opened)
		require.Equal(f, nodeB, s.node)
		require.True(f, woken(wake), "messages may have been missed")
		f.confirmed(true, "x")
		require.Equal(f, 1, f.driver.refreshed)
		f.after(2 * keeperTick)
		require.Equal(f, 2, f.driver.roles, "each node was asked once whether it is a master")
		require.False(f, old.isClosed())
	})
}

func TestAChannelThatANodeDoesNotTakeGoesBack(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.driver.refuses = func(string) *fault.Error {
			if f.driver.home == nodeA {
				return rejected("MOVED", true)
			}
			return nil
		}
		f.listen("x")
		f.confirmed(false, "x")
		require.Positive(f, f.driver.refreshed)
		f.driver.set(func() { f.driver.home = nodeB })
		f.after(2 * keeperTick)
		s, _ := f.driver.latest()
		require.Equal(f, nodeB, s.node)
		f.confirmed(true, "x")
	})
}

func TestARefusedShardedChannelStays(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.driver.refuses = func(channel string) *fault.Error {
			if channel == "bad" {
				return rejected("NOPERM", false)
			}
			return nil
		}
		f.listen("bad")
		f.listen("good")
		f.after(time.Second)
		f.confirmed(true, "good")
		f.confirmed(false, "bad")
		require.Equal(f, "NOPERM", f.hub.Refused("bad").Code)
		_, opened := f.driver.latest()
		require.Equal(f, 1, opened)
	})
}

func TestAReplicaIsLeftForTheMaster(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		wake := f.listen("x")
		require.True(f, woken(wake))
		s, _ := f.driver.latest()
		f.driver.set(func() { f.driver.home, f.driver.replica = nodeB, nodeB })
		s.receives(driver.Unsubscribed, "x", nil)
		f.confirmed(false, "x")
		f.driver.set(func() { f.driver.home = nodeA })
		f.after(2 * keeperTick)
		f.confirmed(true, "x")
		require.True(f, woken(wake))
		require.Equal(f, 2, f.driver.refreshed, "the slot moved, and a replica had it")
		s.receives(driver.Published, "x", nil)
		require.True(f, woken(wake), "it is on the first connection again")
	})
}

func TestAMasterThatIsDemotedIsLeft(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		x, y := f.listen("x"), f.listen("y")
		require.True(f, woken(x))
		require.True(f, woken(y))
		s, _ := f.driver.latest()
		f.driver.set(func() { f.driver.home, f.driver.replica = nodeB, nodeA })
		for range 4 { // a busy channel is no proof
			f.after(pingAfter / 4)
			s.receives(driver.Published, "x", nil)
			woken(x)
		}
		f.after(2 * keeperTick)
		require.True(f, s.isClosed(), "a replica's subscribers are not counted")
		require.Positive(f, f.driver.refreshed)
		f.movedToB(x, y)
	})
}

// movedToB requires a second session, at node B, which has the channels x and y and has woken their listeners.
func (f *fixture) movedToB(x, y chan struct{}) {
	f.Helper()
	s, opened := f.driver.latest()
	require.Equal(f, 2, opened)
	require.Equal(f, nodeB, s.node)
	f.confirmed(true, "x")
	f.confirmed(true, "y")
	require.True(f, woken(x), "messages may have been missed")
	require.True(f, woken(y))
}

func TestAReplicaIsLeftThatWasTakenForTheMaster(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.driver.replica = nodeA
		f.listen("x")
		f.after(keeperTick / 2)
		f.confirmed(false, "x")
		require.Positive(f, f.driver.refreshed)
		f.driver.set(func() { f.driver.home = nodeB })
		f.after(2 * keeperTick)
		f.confirmed(true, "x")
		s, opened := f.driver.latest()
		require.Equal(f, nodeB, s.node)
		require.Equal(f, 2, opened)
	})
}

// A user may lack the right to ask for the role.
func TestANodeThatTheScriptsDoNotReachIsLeft(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.driver.hidden = rejected("NOPERM", false)
		x, y := f.listen("x"), f.listen("y")
		require.True(f, woken(x))
		require.True(f, woken(y))
		f.driver.set(func() { f.driver.home, f.driver.replica = nodeB, nodeA })
		f.hub.Unheard("x", f.hub.Epoch("x"))
		f.after(2 * keeperTick)
		require.Positive(f, f.driver.refreshed)
		f.movedToB(x, y)
	})
}

func TestTheRoleOfANodeIsAskedNowAndThen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      *fault.Error
		min, max int
	}{
		"of any number of channels":  {nil, 8, 11},
		"once if Redis denies it":    {rejected("NOPERM", false), 1, 1},
		"again if no answer arrives": {network(), 8, 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSharded(t, func(f *fixture) {
				f.driver.hidden = c.err
				for _, channel := range []string{"x", "y", "z"} {
					f.listen(channel)
				}
				f.after(10 * pingAfter)
				require.GreaterOrEqual(f, f.driver.roles, c.min)
				require.LessOrEqual(f, f.driver.roles, c.max)
				f.confirmed(true, "x")
				f.confirmed(true, "z")
			})
		})
	}
}

func TestABrokenShardIsGivenUp(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.listen("x")
		broken, _ := f.driver.latest()
		broken.receives(driver.Other, "", network())
		require.True(f, broken.isClosed())
		f.confirmed(false, "x") // a session that breaks at once would do so again
		f.after(2 * keeperTick)
		s, opened := f.driver.latest()
		require.Equal(f, 2, opened)
		require.Equal(f, nodeA, s.node)
		f.confirmed(true, "x")
		f.after(time.Second)
		s.receives(driver.Other, "", network())
		_, opened = f.driver.latest()
		require.Equal(f, 3, opened)
		f.confirmed(true, "x") // without a pause
	})
}

func TestAShardThatCannotBeReachedIsNotStormed(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.driver.fails = network()
		f.listen("x")
		f.after(2 * time.Second)
		s, opened := f.driver.latest()
		require.Greater(f, opened, 2)
		require.Less(f, opened, 20)
		require.True(f, s.isClosed())
		f.driver.set(func() { f.driver.fails = nil })
		f.after(2 * keeperTick)
		f.confirmed(true, "x")
	})
}

func TestAChannelThatCannotBePlacedWaitsForATick(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.driver.unreachable = network()
		f.listen("x")
		f.listen("y")
		f.listen("z")
		require.Equal(f, 3, f.driver.placed, "each once")
		f.driver.set(func() { f.driver.unreachable = nil })
		f.after(2 * keeperTick)
		f.confirmed(true, "x")
	})
}

func TestALateEndOfASubscriptionMovesNothing(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		wake := f.listen("x")
		f.listen("y")
		s, _ := f.driver.latest()
		f.driver.set(func() { s.silent = true })
		f.hub.Unlisten("x", wake)
		f.after(channelLinger + keeperTick)
		f.listen("x")
		require.Equal(f, []string{"+x", "+y", "-x", "+x"}, s.sent())
		f.driver.set(func() { s.silent = false })
		s.receives(driver.Unsubscribed, "x", nil)
		s.receives(driver.Subscribed, "x", nil)
		f.confirmed(true, "x")
		require.Empty(f, s.sent())
		require.Zero(f, f.driver.refreshed)
	})
}
