package pubsub

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
)

func TestMessagesAreHeardInOrder(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		require.True(f, woken(wake))
		s, _ := f.driver.latest()
		s.published("a", "6 17 1700000000000000 3000 0", "7", "", "0 ")
		s.published("gone", "6 18 1 2 3", "0", "8")
		require.Equal(f, []string{"a 6 17 1700000000000000 3000 0", "a 7", "a ", "a 0 ", "gone 6 18 1 2 3"}, f.heard())
		require.False(f, woken(wake))
		messages, _ := f.hub.Received("a")
		require.EqualValues(f, 4, messages)
		for _, payload := range []string{"0", "1", "8"} {
			s.published("a", payload)
			require.True(f, woken(wake), payload)
		}
		require.Empty(f, f.heard(), "nobody watches the channel")
	})
}

func TestEveryMessageOfASemaphoreOrLatchIsASignal(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		const latch, semaphore = "redisson_countdownlatch__channel__{a}", "redisson_sc:{a}"
		own := semaphore + ":" + clientID
		s, _ := f.driver.latest()
		for _, channel := range []string{latch, semaphore} {
			wake := f.listen(channel)
			require.True(f, woken(wake))
			s, _ = f.driver.latest()
			for _, payload := range []string{"0", "1", "5", "7", "8", "17", "6 1 2 3 4"} {
				s.published(channel, payload)
				require.True(f, woken(wake), payload)
				require.Empty(f, f.heard())
			}
		}
		s.published("redisson_sc:{gone}", "1")
		require.Empty(f, f.heard())

		wake := f.listen(own)
		require.True(f, woken(wake))
		s.published(own, "17", "5")
		require.False(f, woken(wake), "the messages to one client are those of the line")
		require.Equal(f, []string{own + " 17"}, f.heard())

		f.hub.Watch(semaphore, semaphore+":rlock-twin")
		f.after(0)
		f.heard()
		s.published(semaphore, "3")
		require.Equal(f, []string{semaphore}, f.heard(), "a permit may be free")
		s.published(semaphore+":rlock-twin", "5")
		require.Empty(f, f.heard())
		f.hub.Unwatch(semaphore, semaphore+":rlock-twin")
	})
}

func TestEveryConfirmationIsAnEpoch(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		require.Zero(f, f.hub.Epoch("a"))
		seen := map[uint64]bool{0: true}
		isNew := func(channel string) (epoch uint64) {
			f.Helper()
			epoch = f.hub.Epoch(channel)
			require.False(f, seen[epoch], epoch)
			require.Equal(f, epoch, f.hub.Epoch(channel))
			seen[epoch] = true
			return epoch
		}
		f.listen("a")
		f.listen("b")
		first := isNew("a")
		isNew("b")
		s, _ := f.driver.latest()
		s.published("a", "6 1 2 3 4")
		require.Equal(f, first, f.hub.Epoch("a"))
		s.published("a", "0")
		isNew("a")
		s.receives(driver.Subscribed, "a", nil)
		isNew("a")
		s.receives(driver.Other, "", network())
		require.Zero(f, f.hub.Epoch("a"))
		s.receives(driver.Subscribed, "a", nil)
		f.after(time.Second) // the pause after an error
		isNew("a")
		f.driver.set(func() { s.silent = true })
		f.after(deadAfter + 2*keeperTick)
		isNew("a")
		isNew("b")
	})
}

func TestAListenerThatMissedNothingIsNotWoken(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.listen("a")
		f.listen("b")
		s, _ := f.driver.latest()
		epoch := f.hub.Epoch("a")
		since := func(channel string, epoch uint64) bool {
			wake := make(chan struct{}, 1)
			f.hub.Listen(channel, wake, epoch)
			defer f.hub.Unlisten(channel, wake)
			return woken(wake)
		}
		require.False(f, since("a", epoch))
		require.True(f, since("a", 0))
		require.True(f, since("b", epoch))
		f.driver.set(func() { s.silent = true })
		require.False(f, since("c", 0), "it is not confirmed yet")
		synctest.Wait()
		f.driver.set(func() { s.silent = false })
		s.published("a", "6 1 2 3 4", "7")
		require.False(f, since("a", epoch), "OnMessage has these")
		for _, payload := range []string{"8", "0", "1"} {
			s.published("a", payload)
			require.True(f, since("a", epoch), "it may have been for this listener")
			epoch = f.hub.Epoch("a")
			require.False(f, since("a", epoch))
		}
		s.receives(driver.Other, "", network())
		wake := make(chan struct{}, 1)
		f.hub.Listen("a", wake, epoch)
		require.False(f, woken(wake))
		s.receives(driver.Subscribed, "a", nil)
		f.after(time.Second)
		require.True(f, woken(wake))
	})
}
