package pubsub

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

func TestARefusedChannelHarmsNoOther(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.driver.refuses = func(channel string) *fault.Error {
			if channel == "bad" {
				return rejected("NOPERM", false)
			}
			return nil
		}
		good, bad := make(chan struct{}, 1), make(chan struct{}, 1)
		f.hub.Listen("bad", bad, 0)
		f.hub.Listen("good", good, 0)
		f.after(10 * time.Second)
		f.confirmed(true, "good")
		f.confirmed(false, "bad")
		require.True(f, woken(good))
		require.True(f, woken(bad), "by the refusal")
		require.ErrorContains(f, f.hub.Refused("bad"), `subscribe to "bad": `)
		require.Nil(f, f.hub.Refused("good"))
		_, opened := f.driver.latest()
		require.Equal(f, 1, opened)
	})
}

func TestARefusedChannelIsReported(t *testing.T) {
	t.Parallel()
	for _, info := range []driver.Info{single, cluster} {
		run(t, info, func(f *fixture) {
			f.driver.set(func() { f.driver.home = nodeA })
			f.driver.refuses = func(channel string) *fault.Error {
				if channel == "bad" {
					return rejected("NOPERM", false)
				}
				return nil
			}
			f.listen("good")
			f.listen("bad")
			f.after(time.Second)
			require.Equal(f, "NOPERM", f.hub.Refused("bad").Code)
			require.True(f, woken(f.listen("bad")), "a later listener learns of it at once")
			f.confirmed(true, "good")

			s, _ := f.driver.latest()
			s.receives(driver.Other, "", network())
			f.after(2 * keeperTick)
			require.Nil(f, f.hub.Refused("good"), "messages may be missed, but it was not refused")
			f.driver.set(func() { f.driver.refuses = nil })
			f.after(2 * retryRefused)
			f.confirmed(true, "bad")
			require.Nil(f, f.hub.Refused("bad"), "it is tried again now and then")
		})
	}
}

func TestAnUnknownSubscribeIsARefusal(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.driver.refuses = func(string) *fault.Error { return rejected("unknown", false) }
		f.listen("a")
		f.after(time.Second)
		require.ErrorContains(f, f.hub.Refused("a"), "unknown")
		require.NotContains(f, f.hub.Refused("a").Error(), "WithClassicPubSub")
	})
}

func TestAnUnexpectedRefusalUnconfirmsEveryChannel(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		wake := f.listen("a")
		require.True(f, woken(wake))
		s, _ := f.driver.latest()
		s.sent()
		s.receives(driver.Other, "", rejected("NOPERM", false)) // of a command by which the driver connected again
		require.Equal(f, []string{"-a", "+a"}, s.sent())
		require.True(f, woken(wake))
	})
}

func TestChannelsAreAskedForOneByOneAfterABreak(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.driver.refuses = func(channel string) *fault.Error {
			if channel == "bad" {
				return rejected("NOPERM", false)
			}
			return nil
		}
		f.listen("bad")
		f.listen("good")
		f.after(2 * time.Second)
		s, _ := f.driver.latest()
		s.sent()
		s.receives(driver.Other, "", network())
		require.Subset(f, s.sent(), []string{"-bad", "-good", "+bad", "+good"})
		f.after(time.Second)
		f.confirmed(true, "good")
	})
}

// busy is what a server replies while it runs a script of somebody else for long.
func busy() *fault.Error {
	return &fault.Error{Fate: fault.Rejected, Code: "BUSY", Transient: true, Err: errors.New("BUSY Redis is busy running a script")}
}

// refusing is a hub with channels of which Redis refuses one for good, so that each has a SUBSCRIBE of its own. It returns the others.
func (f *fixture) refusing() (channels []string) {
	f.driver.refuses = func(channel string) *fault.Error {
		if channel == "bad" {
			return rejected("NOPERM", false)
		}
		return nil
	}
	f.listen("bad")
	for n := range 10 {
		channels = append(channels, fmt.Sprint("channel ", n))
		f.listen(channels[n])
	}
	f.after(2 * retryRefused)
	return channels
}

func TestRefusalsHoldUpNoMessage(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		channels := f.refusing()
		own := channels[0] + ":" + clientID
		f.listen(own)
		s, _ := f.driver.latest()
		f.driver.set(func() { f.driver.refuses = func(string) *fault.Error { return busy() } })
		for n := range 10 {
			f.listen(fmt.Sprint("late ", n))
		}
		f.after(keeperTick)
		began := clock.Now()
		s.published(own, "6 1 2 3")
		require.Contains(f, f.heard(), own+" 6 1 2 3", "behind many refusals it is heard at once")
		require.Equal(f, began, clock.Now())
	})
}

// TestRefusalsHoldUpNoMessageHoweverLong has Redis refuse all commands for a minute. Each second, there are as many refusals as channels.
func TestRefusalsHoldUpNoMessageHoweverLong(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		channels := f.refusing()
		own := channels[0] + ":" + clientID
		f.listen(own)
		f.driver.set(func() { f.driver.refuses = func(string) *fault.Error { return busy() } })
		for n := range 10 {
			f.listen(fmt.Sprint("late ", n))
		}
		f.after(time.Minute)
		s, opened := f.driver.latest()
		require.Equal(f, 1, opened, "the connection works")
		began := clock.Now()
		s.published(own, "6 1 2 3")
		require.Contains(f, f.heard(), own+" 6 1 2 3")
		require.Equal(f, began, clock.Now())
		f.confirmed(true, own)
	})
}

// TestRefusalsWithoutEndArePaced has a driver whose Receive fails by itself, without an error of its connection before.
func TestRefusalsWithoutEndArePaced(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.listen("a")
		s, _ := f.driver.latest()
		f.driver.set(func() {
			for range 500 {
				s.push(arrival{err: busy()})
			}
		})
		f.after(3 * time.Second)
		require.NotEmpty(f, s.arrives)
	})
}

func TestWhatIsRefusedForNowIsAskedForAgainSoon(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		channels := f.refusing()
		s, _ := f.driver.latest()
		s.sent()
		f.driver.set(func() { f.driver.refuses = func(string) *fault.Error { return busy() } })
		f.listen("late")
		f.after(3 * time.Second)
		commands := s.sent()
		require.Contains(f, commands, "+late")
		require.Less(f, len(commands), 20, "in a storm of commands: %v", commands)
		f.confirmed(true, channels[0])
		f.driver.set(func() { f.driver.refuses = nil })
		f.after(retryBusy + keeperTick)
		f.confirmed(true, "late")
		_, opened := f.driver.latest()
		require.Equal(f, 1, opened)
	})
}

func TestAServerThatWantsNoConnectionIsNotAskedWithoutAPause(t *testing.T) {
	t.Parallel()
	run(t, single, func(f *fixture) {
		f.listen("a")
		s, _ := f.driver.latest()
		s.receives(driver.Other, "", network())
		began := clock.Now()
		full := &fault.Error{Fate: fault.Rejected, Code: "max", Transient: true, Err: errors.New("ERR max number of clients reached")}
		f.driver.set(func() {
			for range 10 {
				s.push(arrival{err: full})
			}
			s.push(arrival{message: driver.Message{Sort: driver.Published, Channel: "a", Payload: "0"}})
		})
		for messages := uint64(0); messages == 0; messages, _ = f.hub.Received("a") {
			f.after(time.Millisecond)
		}
		require.Greater(f, clock.Now().Sub(began), time.Second)
	})
}
