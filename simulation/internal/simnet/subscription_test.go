package simnet

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// listen returns a network and a subscription to two channels, which are confirmed.
func listen(t *testing.T) (*Server, *Link, driver.Subscription) {
	t.Helper()
	s, l, d := open(Faults{Latency: 10 * time.Millisecond})
	sub := d.Subscribe(t.Context(), nil, false)
	require.Nil(t, sub.Subscribe(t.Context(), "b", "a"))
	require.Equal(t, []string{"a", "b"}, confirmed(t, sub))
	return s, l, sub
}

// confirmed receives two confirmations.
func confirmed(t *testing.T, sub driver.Subscription) []string {
	t.Helper()
	var channels []string
	for range 2 {
		m, err := sub.Receive(t.Context())
		require.Nil(t, err)
		require.Equal(t, driver.Subscribed, m.Sort)
		channels = append(channels, m.Channel)
	}
	slices.Sort(channels)
	return channels
}

func TestMessagesArriveInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, sub := listen(t)
		for i := range 100 {
			s.Do("PUBLISH", "a", strconv.Itoa(i))
		}
		for i := range 100 {
			m, err := sub.Receive(t.Context())
			require.Nil(t, err)
			require.Equal(t, driver.Message{Sort: driver.Published, Channel: "a", Payload: strconv.Itoa(i)}, m)
		}
		require.NoError(t, sub.Close())
		time.Sleep(time.Second)
		require.Equal(t, int64(0), s.Do("PUBLISH", "a", "x"), "the server has noticed")
	})
}

// TestASubscriptionThatIsClosedWhileItConnects: nobody would close the connection that comes after the close.
func TestASubscriptionThatIsClosedWhileItConnects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, d := open(Faults{Latency: 10 * time.Millisecond})
		sub := d.Subscribe(t.Context(), nil, false)
		said := make(chan *fault.Error, 1)
		go func() { said <- sub.Subscribe(t.Context(), "a") }()
		synctest.Wait()
		require.NoError(t, sub.Close())
		require.Equal(t, errClosed(), <-said)
		time.Sleep(time.Second)
		require.Equal(t, int64(0), s.Do("PUBLISH", "a", "x"), "nobody listens")
		require.Equal(t, errClosed(), sub.Subscribe(t.Context(), "a"))
		time.Sleep(time.Second)
		require.Equal(t, int64(0), s.Do("PUBLISH", "a", "x"), "nor does it connect later")
	})
}

// TestBrokenSubscriptions breaks the connection with a word, and by a stop of the server.
func TestBrokenSubscriptions(t *testing.T) {
	t.Parallel()
	for what, breaks := range map[string]func(s *Server, l *Link){
		"the connection": func(_ *Server, l *Link) { l.BreakSubscriptions(false, 0) },
		"the server": func(s *Server, _ *Link) {
			data := s.Snapshot()
			s.Stop()
			s.Start(data)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, l, sub := listen(t)
				breaks(s, l)
				_, err := sub.Receive(t.Context())
				require.NotNil(t, err)
				require.True(t, err.Stale)
				require.Equal(t, []string{"a", "b"}, confirmed(t, sub), "it connects and subscribes again")
				require.Equal(t, int64(1), s.Do("PUBLISH", "b", "x"))
				m, err := sub.Receive(t.Context())
				require.Nil(t, err)
				require.Equal(t, "x", m.Payload)
				require.NoError(t, sub.Close())
			})
		})
	}
}

// TestHalfOpenSubscriptions cuts the connection without a word: the server counts the subscriber for a while, who hears nothing.
func TestHalfOpenSubscriptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l, sub := listen(t)
		l.BreakSubscriptions(true, time.Minute)
		require.Equal(t, int64(1), s.Do("PUBLISH", "a", "x"))
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			_, err := sub.Receive(t.Context())
			require.True(t, err != nil, "the end is the first that it hears")
		}()
		require.Nil(t, sub.Ping(t.Context()))
		time.Sleep(2 * time.Minute)
		select {
		case <-heard:
			t.Fatal("nothing arrives")
		default:
		}
		require.Equal(t, int64(0), s.Do("PUBLISH", "a", "x"))
		require.NoError(t, sub.Close())
		<-heard
	})
}

// TestAKilledProcessHearsNothing kills the process of a subscriber.
func TestAKilledProcessHearsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l, sub := listen(t)
		l.Kill()
		time.Sleep(time.Second)
		require.Equal(t, int64(0), s.Do("PUBLISH", "a", "x"))
		require.NoError(t, sub.Close())
	})
}

// TestABusyServer refuses a subscription, and the end of one, which is asked for again.
func TestABusyServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l, sub := listen(t)
		s.With(func(r *simredis.Server) { r.SetBusy(true) })
		require.Nil(t, sub.Subscribe(t.Context(), "c"))
		require.Nil(t, sub.Unsubscribe(t.Context(), "b", "a"))
		for range 2 {
			_, err := sub.Receive(t.Context())
			require.NotNil(t, err)
			require.Equal(t, "BUSY", err.Code)
		}
		s.With(func(r *simredis.Server) { r.SetBusy(false) })
		require.Nil(t, sub.Subscribe(t.Context(), "b")) // it is wanted again
		require.Equal(t, int64(1), s.Do("PUBLISH", "a", "x"))
		time.Sleep(2 * time.Second)
		require.Equal(t, int64(0), s.Do("PUBLISH", "a", "x"))
		require.Equal(t, int64(0), s.Do("PUBLISH", "c", "x"), "which is not asked for again")
		require.Equal(t, int64(1), s.Do("PUBLISH", "b", "x"))
		for m := (driver.Message{}); m.Sort != driver.Published; {
			m, _ = sub.Receive(t.Context())
		}
		require.Greater(t, l.Unread(), time.Second)
		require.Zero(t, l.Unread())
		require.NoError(t, sub.Close())
	})
}
