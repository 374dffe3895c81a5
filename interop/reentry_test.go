package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOtherSideSeesReentries(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		if isNonReentrant(m.kind) {
			t.Skip("see TestNonReentrantLockRefusesItsOwner")
		}
		const entries = 3
		for n := 1; n <= entries; n++ {
			require.NoError(t, m.holder.Lock())
			m.requireEntries(t, n)
		}
		for n := entries - 1; n > 0; n-- {
			require.NoError(t, m.holder.Unlock())
			m.requireEntries(t, n)
		}
		require.NoError(t, m.holder.Unlock())
		m.requireFree(t)
	})
}

func isNonReentrant(k kindOf) bool { return strings.HasPrefix(k.java, "nonreentrant") }

// requireEntries requires that both sides see this number of entries of the holder.
func (m match) requireEntries(t *testing.T, n int) {
	t.Helper()
	m.requireHeldBy(t, m.holder, n)
	count, err := m.holder.HoldCount()
	require.NoError(t, err)
	require.Equal(t, n, count)
	count, err = m.stranger.HoldCount()
	require.NoError(t, err)
	require.Zero(t, count, "another owner holds the lock")
	for _, o := range []owner{m.holder, m.stranger} {
		locked, err := o.IsLocked()
		require.NoError(t, err)
		require.True(t, locked)
	}
	requireTry(t, m.rival, false)
}

func TestStrangerMayNotUnlock(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		require.NoError(t, m.holder.Lock())
		for _, o := range []owner{m.stranger, m.rival, m.home.owner(m.kind, m.name)} {
			err := o.Unlock()
			require.True(t, o.notHeld(err), "%v", err)
			m.requireHeldBy(t, m.holder, 1)
		}
		require.NoError(t, m.holder.Unlock())
		m.requireUnlockOfNothing(t, m.holder)
		m.requireUnlockOfNothing(t, m.stranger)
		m.requireFree(t)
	})
}

// requireUnlockOfNothing requires that the unlock of a free lock fails. In Redisson it succeeds for a fair lock, and before
// 3.44.0 also for a read-write lock.
func (m match) requireUnlockOfNothing(t *testing.T, o owner) {
	t.Helper()
	err := o.Unlock()
	if _, ok := o.(javaOwner); ok && (m.kind.fair || m.isReadWrite() && !m.version.atLeast(3, 44)) {
		require.NoError(t, err)
		return
	}
	require.True(t, o.notHeld(err), "%v", err)
}

func TestNonReentrantLockRefusesItsOwner(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		if !isNonReentrant(m.kind) {
			t.Skip("the lock is re-entrant")
		}
		require.NoError(t, m.holder.Lock())
		before := m.ttl(t)
		time.Sleep(10 * time.Millisecond)
		err := m.holder.Lock()
		require.True(t, m.holder.reentered(err), "%v", err)
		for _, wait := range []time.Duration{0, time.Second} {
			_, err = m.holder.TryLock(wait)
			require.True(t, m.holder.reentered(err), "%v", err)
		}
		m.requireEntries(t, 1)
		require.Less(t, m.ttl(t), before, "the lease was not extended")
		require.NoError(t, m.holder.Unlock())
		m.requireFree(t)
	})
}
