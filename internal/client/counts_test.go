package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestCounts follows the gauges and the counts of a client.
func TestCounts(t *testing.T) {
	run(t, func(f *fixture) {
		c := f.client(func(cfg *Config) { cfg.Table.HandOverTime = time.Hour })
		l := f.lock(c, wire.Plain)
		counts := func() table.Counts { return c.Table().Counts() }
		require.Zero(f, counts())
		h := f.hold(f.Context(), l, Terms{})
		again := f.hold(h.Context(), l, Terms{})
		waits := f.async(func() error { return acquire(f.Context(), l) })
		require.Equal(f, table.Counts{Held: 1, Waiting: 1, Acquired: 1}, counts(), "a re-entry counts once")
		f.until(watchdogTimeout/3 + time.Second)
		require.Equal(f, table.Counts{Held: 1, Waiting: 1, Acquired: 1, Renewals: 1}, counts())
		require.NoError(f, again.Unlock(f.Context()))
		require.NoError(f, h.Unlock(f.Context()))
		<-waits.done
		handOvers := either[uint64](f, 0, 1) // the line has granted the lock to it
		require.Equal(f, table.Counts{Held: 1, Acquired: 2, HandOvers: handOvers, Renewals: 1}, counts())

		f.instead(func(command string, do func() wire.Reply) wire.Reply {
			if command == "renew" {
				return network()
			}
			return do()
		})
		f.until(2 * watchdogTimeout)
		now := counts()
		require.Greater(f, now.RenewalFailures, uint64(1))
		now.RenewalFailures = 0
		require.Equal(f, table.Counts{Acquired: 2, HandOvers: handOvers, Renewals: 1, Losses: 1}, now, "it was lost, once")
		require.ErrorIs(f, l.Unlock(f.Context()), fault.ErrLost)

		f.instead(nil)
		require.NoError(f, acquire(f.Context(), l))
		f.drop()
		require.ErrorIs(f, l.Unlock(f.Context()), fault.ErrLost)
		require.Equal(f, uint64(2), counts().Losses, "the unlock noticed it")

		f.refuseConnections()
		require.Error(f, f.tryFor(l, time.Second))
		require.Equal(f, 1, counts().InDoubt)
		f.instead(nil)
		f.until(time.Since(f.start) + time.Minute)
		require.Zero(f, counts().InDoubt)

		require.NoError(f, acquire(f.Context(), l))
		require.Equal(f, 1, counts().Held)
		c.Close()
		require.Equal(f, table.Counts{
			Acquired: 4, HandOvers: handOvers, Renewals: 1, Losses: 2, RenewalFailures: counts().RenewalFailures,
		}, counts(), "a closed client holds nothing")
		require.NoError(f, l.Unlock(f.Context()))
		require.Zero(f, counts().Held)
	})
}
