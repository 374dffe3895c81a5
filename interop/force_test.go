package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/stretchr/testify/require"
)

func TestForceUnlockFreesWhatTheOtherSideHolds(t *testing.T) {
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

// TestTheHolderLearnsThatItsLockWasForced asks him when nobody has it since.
func TestTheHolderLearnsThatItsLockWasForced(t *testing.T) {
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

func TestARenewalLearnsThatJavaForcedTheLock(t *testing.T) {
	t.Parallel()
	onMatches(t, time.Second, func(t *testing.T, m match) {
		t.Helper()
		inGo, ok := m.holder.(goOwner)
		if !ok {
			t.Skip("Redisson's holders are not told")
		}
		hold, err := inGo.lock.Acquire(inGo.ctx)
		require.NoError(t, err)
		lost := hold.Done()
		requireForce(t, m.stranger, true)
		requireTry(t, m.rival, true)
		within(t, "the hold is over", lost)
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
			t.Skip("nobody is told of the release of a spin lock: who waits for it asks again and again")
		}
		inGo, inJava := newParties(t, m.version, m.server, longLease) // who waits is not the client that forces
		for _, s := range []party{inGo, inJava} {
			waiter := m.rivalOf(s)
			requireWoken(t, func() time.Duration {
				require.NoError(t, m.holder.Lock())
				took := m.handOver(t, waiter, func() error {
					_, err := m.stranger.ForceUnlock()
					return err
				})
				_ = m.holder.Unlock() // what it says is for other tests
				return took
			})
		}
		m.requireFree(t)
	})
}

// requireWoken has a waiter woken, at least when it is tried again: an old Redisson may miss a message. A first round does
// not count, because code that never ran may take so long to fall asleep that it finds the lock free by itself.
func requireWoken(t *testing.T, round func() time.Duration) {
	t.Helper()
	round()
	for range 3 {
		if round() != asleepForGood {
			return
		}
	}
	require.Fail(t, "the waiter was not woken")
}
