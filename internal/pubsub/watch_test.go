package pubsub

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

func TestAWatcherIsSubscribedToTheTwin(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.watch()
		s, _ := f.driver.latest()
		require.Equal(f, []string{"+base,base:twin"}, s.sent(), "in one command")
		require.Equal(f, []string{"base"}, f.heard())
		require.Equal(f, Stats{Channels: 2}, f.hub.Stats())
		require.Zero(f, f.hub.Listeners(""))
		s.published("base", "0", "6 1 2 3 4", "1", "8")
		s.published("base:twin", "0")
		require.Equal(f, []string{"base", "base 6 1 2 3 4", "base"}, f.heard())
		f.watch()
		f.unwatch()
		f.after(2 * channelLinger)
		require.NotContains(f, s.sent(), "-base", "the first call still counts")
		f.unwatch()
		f.unwatch()
		f.hub.Unwatch("nowhere", "nowhere:twin")
		f.after(channelLinger / 2)
		require.NotContains(f, s.sent(), "-base")
		s.published("base", "0")
		require.Equal(f, []string{"base"}, f.heard(), "Redis still counts it as a watcher")
		f.after(channelLinger)
		require.Subset(f, s.sent(), []string{"-base", "-base:twin"})
		require.Zero(f, f.hub.Stats())
		require.Equal(f, []string{"base is unwatched"}, f.heard())
		f.watch()
		require.Equal(f, []string{"+base,base:twin"}, s.sent())
		require.Equal(f, []string{"base"}, f.heard())
	})
}

func TestAWatcherLooksWhateverItMissed(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.watch()
		s, _ := f.driver.latest()
		f.unwatch()
		f.after(channelLinger / 2)
		f.heard()
		s.sent()
		epoch := f.hub.Epoch("base")
		f.watch()
		require.Empty(f, s.sent(), "both channels are still subscribed")
		require.Empty(f, f.heard(), "it missed nothing")
		require.Equal(f, epoch, f.hub.Epoch("base"))
		s.receives(driver.Other, "", network())
		require.Empty(f, f.heard())
		s.receives(driver.Subscribed, "base", nil)
		s.receives(driver.Subscribed, "base:twin", nil)
		f.after(time.Second) // the pause after an error
		require.Equal(f, []string{"base"}, f.heard())
	})
}

func TestAListenerEndsTheTwin(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		s := f.watches()
		wake := f.listen("base")
		require.True(f, woken(wake))
		require.Equal(f, []string{"-base:twin"}, s.sent(), "at once")
		s.published("base", "0")
		require.True(f, woken(wake))
		require.Equal(f, []string{"base"}, f.heard(), "it still watches")
		f.hub.Unlisten("base", wake)
		f.after(channelLinger / 2)
		wake = f.listen("base")
		f.after(2 * channelLinger)
		f.hub.Unlisten("base", wake)
		f.after(channelLinger - keeperTick)
		require.NotContains(f, s.sent(), "+base:twin", "there mostly is another listener soon")
		f.after(2 * keeperTick)
		require.Contains(f, s.sent(), "+base:twin")
		f.confirmed(true, "base:twin")
		require.Empty(f, f.heard(), "no message of the channel was missed")
	})
}

func TestASparedChannelDoesNotLinger(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.hub.Spare("base")
		wake := f.listen("base")
		s, _ := f.driver.latest()
		f.hub.Spare("base")
		f.after(2 * channelLinger)
		require.Equal(f, []string{"+base", "ping"}, s.sent(), "it has a listener")
		f.hub.Unlisten("base", wake)
		f.after(keeperTick)
		require.Empty(f, s.sent(), "there mostly is another listener soon")
		f.hub.Spare("base")
		f.after(0)
		require.Equal(f, []string{"-base"}, s.sent(), "at once")
		require.Zero(f, f.hub.Stats())
		wake = f.listen("base")
		require.Equal(f, []string{"+base"}, s.sent())
		require.True(f, woken(wake), "a message may have been missed")
		f.hub.Unlisten("base", wake)
		f.hub.Spare("base")
		f.listen("base")
		f.after(2 * channelLinger)
		f.confirmed(true, "base")
	})
}

func TestTheTwinOfASparedChannelFollowsAtOnce(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.watch()
		s, _ := f.driver.latest()
		f.hub.Spare("base")
		wake := f.listen("base")
		f.heard()
		require.Equal(f, []string{"+base,base:twin", "-base:twin"}, s.sent())
		f.hub.Unlisten("base", wake)
		f.hub.Spare("base")
		f.after(0)
		require.Equal(f, []string{"+base:twin"}, s.sent())
		require.Empty(f, f.heard(), "no message of the channel was missed")
		require.Equal(f, Stats{Channels: 2}, f.hub.Stats())
	})
}

func TestAWatcherThatListensHasNoTwin(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("base")
		s, _ := f.driver.latest()
		f.watch()
		require.Equal(f, []string{"+base", "+base"}, s.sent(), "the second for the confirmation")
		require.Equal(f, []string{"base"}, f.heard())
		f.unwatch()
		f.after(keeperTick)
		require.Equal(f, Stats{Channels: 1}, f.hub.Stats())
		f.watch()
		f.hub.Unlisten("base", wake)
		f.after(channelLinger + keeperTick)
		require.Equal(f, []string{"+base", "+base:twin"}, s.sent())
		f.unwatch()
		f.after(channelLinger + keeperTick)
		require.Zero(f, f.hub.Stats())
	})
}

func TestAnUnwatchedTwinDoesNotOutliveAListener(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.watch()
		s, _ := f.driver.latest()
		f.unwatch()
		f.listen("base")
		require.Equal(f, []string{"+base,base:twin", "-base:twin"}, s.sent())
		require.Equal(f, Stats{Channels: 1}, f.hub.Stats())
		f.after(time.Minute)
		f.confirmed(true, "base")
	})
}

// TestATwinIsNeverSubscribedAlone has a keeper come late: by then a twin is to be subscribed, and its channel to be forgotten. Without its
// channel, the twin would stand for a listener that somebody else is.
func TestATwinIsNeverSubscribedAlone(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.watch()
		s, _ := f.driver.latest()
		f.hub.Unlisten("base", f.listen("base"))
		f.after(channelLinger / 10)
		f.unwatch()
		f.after(channelLinger / 2)
		f.driver.set(func() { f.driver.delay = channelLinger })
		f.hub.Listen("another", make(chan struct{}, 1), 0)
		f.after(3 * channelLinger)
		require.Equal(f, []string{"+base,base:twin", "-base:twin", "+another", "-base"}, s.sent())
	})
}

func TestAReplacedSessionHasTheTwin(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.watch()
		f.heard()
		silent, _ := f.driver.latest()
		f.driver.set(func() { silent.silent = true })
		f.after(deadAfter + 2*keeperTick)
		s, opened := f.driver.latest()
		require.Equal(f, 2, opened)
		require.Equal(f, []string{"+base,base:twin"}, s.sent())
		require.Equal(f, []string{"base"}, f.heard())
		silent.driver.set(func() { silent.silent = false })
		silent.published("base", "6 1 2 3 4")
		require.Empty(f, f.heard())
	})
}

func TestTheTwinFollowsWhereCommandsHaveOneChannel(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{"other", "base", "base:twin"} {
		for _, info := range []driver.Info{single, cluster} {
			t.Run(fmt.Sprintf("%s cluster=%v", refused, info.Cluster), func(t *testing.T) {
				t.Parallel()
				run(t, info, func(f *fixture) {
					f.driver.home = nodeA
					f.driver.refuses = func(channel string) *fault.Error {
						if channel == refused {
							return rejected("NOPERM", false)
						}
						return nil
					}
					f.listen("other")
					f.watch()
					f.after(time.Minute)
					f.confirmed(refused != "base", "base")
					f.confirmed(refused == "other", "base:twin") // without the channel it would hide a listener
					require.Equal(f, refused != "base", slices.Contains(f.heard(), "base"))
				})
			})
		}
	}
}

func TestAShardedTwinFollows(t *testing.T) {
	t.Parallel()
	runSharded(t, func(f *fixture) {
		f.watch()
		s, opened := f.driver.latest()
		require.Equal(f, 1, opened)
		require.Equal(f, nodeA, s.node)
		require.Equal(f, []string{"+base", "+base:twin"}, s.sent())
		require.Equal(f, []string{"base"}, f.heard())
		wake := f.listen("base")
		require.Equal(f, []string{"-base:twin"}, s.sent())
		require.Zero(f, f.driver.refreshed, "no slot has moved")
		f.hub.Unlisten("base", wake)
		f.after(channelLinger + keeperTick)
		f.confirmed(true, "base:twin")
		f.unwatch()
		f.after(channelLinger + connectionLinger + 2*keeperTick)
		require.Zero(f, f.hub.Stats())
		require.True(f, s.isClosed())
	})
}

func TestASlotThatMovesTakesItsWatchersAlong(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"base", "base:twin"}, {"base:twin", "base"}} {
		t.Run(order[0], func(t *testing.T) {
			t.Parallel()
			runSharded(t, func(f *fixture) {
				f.watch()
				f.heard()
				old, _ := f.driver.latest()
				epoch := f.hub.Epoch("base")
				f.driver.set(func() { f.driver.home = nodeB })
				for _, channel := range order {
					old.receives(driver.Unsubscribed, channel, nil)
				}
				s, opened := f.driver.latest()
				require.Equal(f, 2, opened)
				require.Equal(f, nodeB, s.node)
				sent := s.sent()
				f.confirmed(true, "base")
				f.confirmed(true, "base:twin")
				if order[0] == "base" {
					require.Equal(f, []string{"+base", "+base:twin"}, sent)
				}
				require.Equal(f, []string{"base"}, f.heard())
				require.NotEqual(f, epoch, f.hub.Epoch("base"))
			})
		})
	}
}

func TestAPublicReleaseIsLeftToItsProcess(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.watch()
		s, _ := f.driver.latest()
		f.heard()
		s.published("base:twin", "5")
		s.published("base", "0")
		require.Empty(f, f.heard())
		s.published("base", "0")
		require.Equal(f, []string{"base"}, f.heard(), "one of the others released")
		s.published("base:twin", "5")
		s.receives(driver.Subscribed, "base", nil)
		s.published("base", "0")
		require.Equal(f, []string{"base", "base"}, f.heard(), "the announced message was missed, and this is another one")
	})
}
