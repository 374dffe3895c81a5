package pubsub

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

var (
	single   = driver.Info{}
	cluster  = driver.Info{Cluster: true}
	sentinel = driver.Info{Sentinel: true}
)

func TestAConfirmationWakes(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		require.True(f, woken(wake), "the subscription is confirmed")
		f.confirmed(true, "a")
		late := f.listen("a")
		require.True(f, woken(late), "a channel that is confirmed already wakes at once")
		require.False(f, woken(wake))
		s, opened := f.driver.latest()
		require.Equal(f, 1, opened)
		require.Equal(f, []string{"+a"}, s.sent(), "the listeners share a subscription")
		s.receives(driver.Subscribed, "a", nil)
		require.True(f, woken(wake), "so does a subscription that the driver renewed")
	})
}

func TestAMessageWakesEveryListener(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		first, second, other := f.listen("a"), f.listen("a"), f.listen("b")
		for _, wake := range []chan struct{}{first, second, other} {
			require.True(f, woken(wake))
		}
		s, _ := f.driver.latest()
		s.receives(driver.Published, "a", nil)
		s.receives(driver.Published, "a", nil)
		s.receives(driver.Published, "unknown", nil)
		require.True(f, woken(first))
		require.False(f, woken(first), "two messages are one token")
		require.True(f, woken(second))
		require.False(f, woken(other))
		messages, _ := f.hub.Received("a")
		require.EqualValues(f, 2, messages)
		f.hub.Unlisten("a", first)
		s.receives(driver.Published, "a", nil)
		require.False(f, woken(first))
		require.True(f, woken(second))
	})
}

func TestTheChannelAndTheWakeIdentifyAListener(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		f.hub.Listen("b", wake, 0)
		f.hub.Listen("a", wake, 0)
		f.after(keeperTick)
		require.Equal(f, 3, f.hub.Listeners(""))
		require.Equal(f, 2, f.hub.Listeners("a"))
		f.hub.Unlisten("a", wake)
		require.Equal(f, Stats{Channels: 2}, f.hub.Stats())
		require.Equal(f, 1, f.hub.Listeners("a"))
		f.hub.Unlisten("a", make(chan struct{}))
		f.hub.Unlisten("nowhere", wake)
		require.Equal(f, 2, f.hub.Listeners(""), "removing an unknown listener does nothing")
	})
}

func TestAnIdleSessionIsPinged(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.listen("a")
		f.after(time.Minute)
		s, opened := f.driver.latest()
		require.Equal(f, 1, opened, "a session that answers is kept")
		require.InDelta(f, 27, len(s.sent()), 4)
		f.confirmed(true, "a")
	})
}

func TestASilentSessionIsReplaced(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		require.True(f, woken(wake))
		silent, _ := f.driver.latest()
		f.driver.set(func() { silent.silent = true })
		f.after(deadAfter + 2*keeperTick)
		s, opened := f.driver.latest()
		require.Equal(f, 2, opened)
		require.True(f, silent.isClosed())
		require.Equal(f, []string{"+a"}, s.sent())
		require.True(f, woken(wake), "messages may have been missed")
		require.Equal(f, 1, f.driver.refreshed)
	})
}

// TestASessionThatHasEnded is about an application that has closed its own client, which ends each subscription at once.
func TestASessionThatHasEnded(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.driver.set(func() { f.driver.over = 1000 })
		f.listen("a")
		f.after(time.Second)
		_, opened := f.driver.latest()
		require.LessOrEqual(f, opened, 6, "the keeper tries again at each tick")
		f.confirmed(false, "a")
		f.driver.set(func() { f.driver.over = 0 })
		f.after(keeperTick)
		f.confirmed(true, "a")
	})
}

func TestASessionThatNeverSpeaksIsGivenMoreTime(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.driver.set(func() { f.driver.fails = network() })
		f.listen("a")
		f.after(deadAfter + 2*keeperTick)
		s, opened := f.driver.latest()
		require.Equal(f, 1, opened)
		require.Greater(f, len(s.sent()), 5, "the keeper tries again at each tick")
		f.after(connectWithin - deadAfter)
		_, opened = f.driver.latest()
		require.Equal(f, 2, opened)
		f.driver.set(func() { f.driver.fails = nil })
		f.after(keeperTick)
		f.confirmed(true, "a")
	})
}

func TestASessionSpeaksByItsHandshake(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.driver.silent = true
		f.listen("a")
		f.after(deadAfter + 2*keeperTick)
		_, opened := f.driver.latest()
		require.Equal(f, 2, opened, "its connection was there")
	})
}

func TestABrokenSessionIsNotConfirmed(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		require.True(f, woken(wake))
		s, _ := f.driver.latest()
		s.receives(driver.Other, "", network())
		f.confirmed(false, "a")
		require.False(f, woken(wake))
		require.Equal(f, 1, f.driver.refreshed)
		s.receives(driver.Subscribed, "a", nil)
		f.after(time.Second) // the pause after an error
		f.confirmed(true, "a")
		require.True(f, woken(wake), "the driver has connected again")
		_, opened := f.driver.latest()
		require.Equal(f, 1, opened)
	})
}

// TestASessionThatConnectsAgainIsNotSilent has the keeper connect again shortly before the session would be silent for too long. Its reader may not
// read for a second, because it pauses after an error, or the confirmation is slow. Messages may lie there already, which a new session would miss.
func TestASessionThatConnectsAgainIsNotSilent(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.listen("a")
		s, _ := f.driver.latest()
		s.receives(driver.Other, "", network())
		f.driver.set(func() { s.silent = true })
		f.after(deadAfter - keeperTick)
		f.listen("b")
		f.after(4 * keeperTick)
		_, opened := f.driver.latest()
		require.Equal(f, 1, opened, "the server answered the handshake")
		f.driver.set(func() { s.silent = false })
		s.receives(driver.Subscribed, "b", nil)
		f.confirmed(true, "b")

		f.driver.set(func() { s.silent = true })
		f.listen("c")
		f.after(deadAfter + 2*keeperTick)
		_, opened = f.driver.latest()
		require.Equal(f, 2, opened, "what is sent on a connection that is there proves nothing")
	})
}

func TestAChannelThatIsNotConfirmedIsSubscribedAgain(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.listen("a")
		s, _ := f.driver.latest()
		f.driver.set(func() { s.silent = true })
		f.listen("b")
		f.driver.set(func() { s.silent = false })
		f.after(retryRefused - keeperTick)
		require.Equal(f, 1, strings.Count(strings.Join(s.sent(), " "), "+b"))
		f.after(2 * keeperTick)
		require.Contains(f, s.sent(), "+b")
		f.confirmed(true, "b")
	})
}

func TestAChannelLingers(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		s, _ := f.driver.latest()
		s.sent()
		f.hub.Unlisten("a", wake)
		f.after(channelLinger / 2)
		wake = f.listen("a")
		f.after(2 * channelLinger)
		require.NotContains(f, s.sent(), "-a", "it has a listener again")
		f.hub.Unlisten("a", wake)
		f.after(channelLinger + keeperTick)
		require.Contains(f, s.sent(), "-a")
		require.Zero(f, f.hub.Stats())
		require.False(f, s.isClosed())
		f.after(connectionLinger)
		require.True(f, s.isClosed())
		f.listen("a")
		_, opened := f.driver.latest()
		require.Equal(f, 2, opened)
		f.confirmed(true, "a")
	})
}

func TestAStaleTopologyMovesASentinelsConnection(t *testing.T) {
	t.Parallel()
	run(t, sentinel, func(f *fixture) {
		wake := f.listen("a")
		require.True(f, woken(wake))
		f.hub.Topology(network())
		f.after(switchWithin - keeperTick)
		f.hub.Topology(network())
		_, opened := f.driver.latest()
		require.Equal(f, 1, opened, "until all Sentinels know the new master")
		f.after(3 * keeperTick)
		_, opened = f.driver.latest()
		require.Equal(f, 2, opened)
		require.True(f, woken(wake))
		f.after(time.Minute)
		_, opened = f.driver.latest()
		require.Equal(f, 2, opened, "once")
	})
}

// The server of the scripts may know nothing of a subscription, because a name or a proxy leads elsewhere since it was made.
func TestASubscriptionThatIsAtAnotherServerIsMadeAgain(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		require.True(f, woken(wake))
		old := f.hub.Epoch("a")
		opened := func() int {
			synctest.Wait()
			_, opened := f.driver.latest()
			return opened
		}
		f.hub.Unheard("a", 0)
		f.hub.Unheard("a", old+1)
		f.hub.Unheard("b", old)
		require.Equal(f, 1, opened(), "this says nothing about the present subscription")
		f.hub.Unheard("a", old)
		f.hub.Unheard("a", old)
		require.Equal(f, 2, opened(), "at once")
		require.True(f, woken(wake))
		f.hub.Unheard("a", old)
		f.after(time.Minute)
		require.Equal(f, 2, opened(), "the old subscription is gone")
		f.hub.Unheard("a", f.hub.Epoch("a"))
		require.Equal(f, 3, opened())
		f.hub.Unheard("a", f.hub.Epoch("a"))
		f.after(switchWithin - keeperTick)
		require.Equal(f, 3, opened(), "not without a pause")
		f.after(2 * keeperTick)
		require.Equal(f, 4, opened())
	})
}

func TestAHubThatIsStoppedStartsNothing(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.listen("a")
		s, _ := f.driver.latest()
		f.hub.Stop(f.Context())
		require.True(f, s.isClosed())
		f.confirmed(false, "a")
		f.listen("b")
		_, opened := f.driver.latest()
		require.Equal(f, 1, opened)
	})
}

func TestPublish(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info    driver.Info
		classic bool
		publish wire.Publish
		counts  bool
	}{
		{single, false, wire.PublishPlain, true},
		{single, true, wire.PublishPlain, true},
		{sentinel, false, wire.PublishPlain, true},
		{cluster, false, wire.PublishSharded, true},
		{cluster, true, wire.PublishPlain, false},
	} {
		hub := New(Config{Classic: c.classic}, &fakeDriver{info: c.info}, task.New())
		require.Equal(t, c.publish, hub.Publish())
		require.Equal(t, c.counts, hub.Counts())
	}
}
