package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// plain returns a new handle on a plain semaphore.
func (f *fixture) plain(c *Client) *Semaphore {
	s := new(Semaphore)
	s.Init(c, wire.PlainPermit, "permits", "permits")
	return s
}

// TestALostReplyTakesNoPermit gives an acquisition up whose reply is lost. What it took comes back.
func TestALostReplyTakesNoPermit(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		s := f.plain(f.client())
		f.do("SET", "permits", "2")
		f.instead(func(_ string, run func() wire.Reply) wire.Reply {
			run()
			return network()
		})
		require.Error(t, s.TakePlain(f.Context(), Terms{Op: "acquire", Limited: true}))
		f.instead(nil)
		f.until(10 * time.Second)
		free, _, err := s.Counts(f.Context(), "free")
		require.NoError(f, err)
		require.EqualValues(f, 2, free)
	})
}

// TestAReleaseOutlivesItsContext, and its command timeout: it counts once.
func TestAReleaseOutlivesItsContext(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		s := f.plain(f.client())
		f.do("SET", "permits", "1")
		require.NoError(f, s.TakePlain(f.Context(), Terms{Op: "acquire"}))
		waits := f.async(func() error { return s.TakePlain(f.Context(), Terms{Op: "acquire"}) })
		f.until(time.Second)
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		require.NoError(f, s.GiveBack(ctx, 1))
		waits.succeeded(time.Second)
		f.refuseConnections()
		require.Error(f, s.GiveBack(ctx, 1))
		f.instead(nil)
		f.until(20 * time.Second)
		free, _, err := s.Counts(f.Context(), "free")
		require.NoError(f, err)
		require.EqualValues(f, 1, free)
	})
}

// TestAReleaseOutlivesItsClient, as an unlock does. Nobody repeats it then, so its error says what came of it.
func TestAReleaseOutlivesItsClient(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		c := f.client()
		s := f.plain(c)
		f.do("SET", "permits", "2")
		require.NoError(f, s.TakePlain(f.Context(), Terms{Op: "acquire", Permits: 2}))
		c.Close()
		require.NoError(f, s.GiveBack(f.Context(), 1))
		require.Equal(f, "1", f.do("GET", "permits"))
		f.refuseConnections()
		start := clock.Now()
		err := s.GiveBack(f.Context(), 1)
		require.ErrorIs(f, err, fault.ErrUnavailable)
		require.NotErrorIs(f, err, fault.ErrClosed)
		require.LessOrEqual(f, clock.Now().Sub(start), c.cfg.Table.CommandTimeout+time.Second)
		f.instead(nil)
		require.ErrorIs(f, s.AddPermits(f.Context(), 1), fault.ErrClosed)
		require.Equal(f, "1", f.do("GET", "permits"))
	})
}

// TestAShortWaitForPermitsSetsUp gives an acquisition with replica acks, for which no replica is needed, the time that the first question has.
func TestAShortWaitForPermitsSetsUp(t *testing.T) {
	t.Parallel()
	runLine(t, func(f *fixture) {
		c := f.client()
		c.cfg.AckTimeout = c.cfg.Table.Floor()
		s := f.plain(c)
		require.NoError(f, s.Total(1))
		require.NoError(f, s.TakePlain(f.Context(), Terms{Op: "acquire", Limited: true, Wait: time.Millisecond}))
	})
}
