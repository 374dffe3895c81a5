package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

func TestForceUnlockFreesLocksOfOtherSide(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		requireForce(t, m.stranger, false)
		require.NoError(t, m.holder.Lock())
		if !isNonReentrant(m.kind) {
			require.NoError(t, m.holder.Lock())
		}
		requireForce(t, m.stranger, true)
		require.Empty(t, holders(t, m.rdb, m.name))

		requireTry(t, m.rival, true)
		err := m.holder.Unlock()
		require.True(t, m.holder.notHeld(err), "%v", err)
		m.requireHeldBy(t, m.rival, 1)
		require.NoError(t, m.rival.Unlock())
	})
}

func requireForce(t *testing.T, o owner, want bool) {
	t.Helper()
	freed, err := o.ForceUnlock()
	require.NoError(t, err)
	require.Equal(t, want, freed)
}

// TestHolderNoticesForceUnlock checks the holder after a forced unlock, while nobody else has the lock.
func TestHolderNoticesForceUnlock(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		require.NoError(t, m.holder.Lock())
		requireForce(t, m.stranger, true)
		count, err := m.holder.HoldCount()
		require.NoError(t, err)
		require.Zero(t, count)
		if held, ok := m.holder.(goOwner); ok {
			require.ErrorIs(t, held.Unlock(), rlock.ErrLost)
		}
		m.requireUnlockOfNothing(t, m.holder)
		m.requireFree(t)
	})
}

func TestRenewalNoticesForceUnlockByJava(t *testing.T) {
	t.Parallel()
	onMatches(t, time.Second, func(t *testing.T, m match) {
		t.Helper()
		inGo, ok := m.holder.(goOwner)
		if !ok {
			t.Skip("Redisson does not tell its holders about a loss")
		}
		hold, err := inGo.lock.Acquire(inGo.ctx)
		require.NoError(t, err)
		lost := hold.Done()
		requireForce(t, m.stranger, true)
		requireTry(t, m.rival, true)
		within(t, "the hold reports the loss", lost)
		require.ErrorIs(t, hold.Err(), rlock.ErrLost)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Unlock(t.Context()), rlock.ErrLost)
		m.requireHeldBy(t, m.rival, 1)
		require.NoError(t, m.rival.Unlock())
	})
}

func TestForceUnlockWakesWaitersOfBothSides(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		if m.kind.java == "spin" {
			t.Skip("spin locks do not announce their release: their waiters poll")
		}
		inGo, inJava := newParties(t, m.version, m.server, longLease) // the waiters are not clients that force
		for _, s := range []party{inGo, inJava} {
			waiter := m.rivalOf(s)
			requireWoken(t, func() time.Duration {
				require.NoError(t, m.holder.Lock())
				took := m.handOver(t, waiter, func() error {
					_, err := m.stranger.ForceUnlock()
					return err
				})
				_ = m.holder.Unlock() // other tests check the error
				return took
			})
		}
		m.requireFree(t)
	})
}

// requireWoken requires that the waiter is woken in one of three rounds, because an old Redisson may miss a message. The
// first round does not count. Code that never ran before may fall asleep so late that it finds the lock free by itself.
func requireWoken(t *testing.T, round func() time.Duration) {
	t.Helper()
	round()
	for range 3 {
		if round() != neverWoken {
			return
		}
	}
	require.Fail(t, "the waiter was not woken")
}
