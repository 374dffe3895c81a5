package interop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortLease is a watchdog timeout for tests with waiters of Redisson before 3.28.0. They may miss a message, and try again
// only after this time.
const shortLease = 5 * time.Second

func TestBothSidesExcludeEachOther(t *testing.T) {
	t.Parallel()
	onMatches(t, shortLease, func(t *testing.T, m match) {
		t.Helper()
		require.NoError(t, m.holder.Lock())
		m.requireHeldBy(t, m.holder, 1)
		requireTry(t, m.rival, false)
		ok, err := m.rival.TryLock(100 * time.Millisecond)
		require.NoError(t, err)
		require.False(t, ok)

		got := async(m.rival.Lock)
		m.asleep(t)
		require.Empty(t, got, "the lock is still held")
		m.requireHeldBy(t, m.holder, 1)
		require.NoError(t, m.holder.Unlock())
		require.NoError(t, within(t, "the waiter has the lock", got))
		m.requireHeldBy(t, m.rival, 1)
		requireTry(t, m.holder, false)
		require.NoError(t, m.rival.Unlock())
		m.requireFree(t)
	})
}

func TestWaitersOfBothSidesAreServed(t *testing.T) {
	t.Parallel()
	onMatches(t, shortLease, func(t *testing.T, m match) {
		t.Helper()
		require.NoError(t, m.holder.Lock())
		var served []<-chan error
		for _, o := range []owner{m.rivalOf(m.home), m.rivalOf(m.away)} {
			served = append(served, async(func() error {
				if err := o.Lock(); err != nil {
					return err
				}
				return o.Unlock()
			}))
		}
		m.asleep(t)
		require.NoError(t, m.holder.Unlock())
		for _, done := range served {
			require.NoError(t, within(t, "the waiter has had the lock", done))
		}
		m.requireFree(t)
	})
}

func TestReleaseWakesOtherSide(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		if m.kind.java == "spin" {
			t.Skip("spin locks do not announce their release: their waiters poll")
		}
		requirePrompt(t, func() (took, usual time.Duration) {
			require.NoError(t, m.holder.Lock())
			usual = m.roundTrips(t)
			return m.handOver(t, m.rival, m.holder.Unlock), usual
		})
		m.requireFree(t)
	})
}

const (
	// longLease is a watchdog timeout that no test waits for.
	longLease = time.Minute
	// wakeLimit is the longest wait of a waiter that must be woken, much shorter than longLease.
	wakeLimit = 5 * time.Second
	// neverWoken stands for the time of a waiter that was not woken at all.
	neverWoken = time.Hour
)

// handOver lets an owner wait and calls release. It returns how long the owner then took to get the lock, or neverWoken. The
// owner unlocks it again.
func (m match) handOver(t *testing.T, waiter owner, release func() error) time.Duration {
	t.Helper()
	type result struct {
		got bool
		err error
		at  time.Time
	}
	done := make(chan result, 1)
	go func() {
		ok, err := waiter.TryLock(wakeLimit)
		done <- result{ok, err, time.Now()}
	}()
	m.asleep(t)
	start := time.Now()
	require.NoError(t, release())
	waited := within(t, "the waiter is woken or gives up", done)
	require.NoError(t, waited.err)
	if !waited.got {
		return neverWoken
	}
	require.NoError(t, waiter.Unlock())
	return waited.at.Sub(start)
}

// roundTrips returns how long one command of each side takes, one after the other. It shows the load on the machine.
func (m match) roundTrips(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	for _, o := range []owner{m.holder, m.stranger} {
		_, err := o.IsLocked()
		require.NoError(t, err)
	}
	return time.Since(start)
}

// requirePrompt requires that most of many rounds take no longer than a message. The limit is 50 ms, or ten times the usual
// round trips on a busy machine. A few rounds may be late, or miss the message in an old Redisson.
func requirePrompt(t *testing.T, round func() (took, usual time.Duration)) {
	t.Helper()
	const rounds = 11
	var all []time.Duration
	var limit time.Duration
	for range 3 {
		var usuals []time.Duration
		all = nil
		for lost := 0; len(all) < rounds && lost <= rounds/2; {
			took, usual := round()
			if took == neverWoken {
				lost++
			}
			all, usuals = append(all, took), append(usuals, usual)
		}
		slices.Sort(all)
		slices.Sort(usuals)
		limit = max(50*time.Millisecond, 10*usuals[len(usuals)/2])
		if len(all) == rounds && all[rounds/2] < limit {
			return
		}
	}
	require.Fail(t, "most rounds took too long", "more than %v: %v", limit, all)
}
