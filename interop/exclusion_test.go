package interop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortLease is a watchdog timeout after which also those try again who missed that they were woken, as waiters of
// Redisson before 3.28.0 may.
const shortLease = 5 * time.Second

func TestWhatOneSideHoldsTheOtherHasToWaitFor(t *testing.T) {
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
		require.Empty(t, got, "it is still held")
		m.requireHeldBy(t, m.holder, 1)
		require.NoError(t, m.holder.Unlock())
		require.NoError(t, within(t, "who waits has the lock", got))
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
			require.NoError(t, within(t, "who waits has had the lock", done))
		}
		m.requireFree(t)
	})
}

func TestAReleaseWakesTheOtherSide(t *testing.T) {
	t.Parallel()
	onMatches(t, longLease, func(t *testing.T, m match) {
		t.Helper()
		if m.kind.java == "spin" {
			t.Skip("nobody is told of the release of a spin lock: who waits for it asks again and again")
		}
		requirePrompt(t, func() (took, usual time.Duration) {
			require.NoError(t, m.holder.Lock())
			usual = m.questionTime(t)
			return m.handOver(t, m.rival, m.holder.Unlock), usual
		})
		m.requireFree(t)
	})
}

const (
	// longLease is a watchdog timeout that no test waits for.
	longLease = time.Minute
	// wakeLimit is how long a waiter waits who must be woken, far from the end of a longLease.
	wakeLimit = 5 * time.Second
	// asleepForGood is the time of a waiter who was not woken at all.
	asleepForGood = time.Hour
)

// handOver has an owner wait, calls release, and returns how long after that he had the lock, which he gives back.
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
	waited := within(t, "the waiter is woken, or gives up", done)
	require.NoError(t, waited.err)
	if !waited.got {
		return asleepForGood
	}
	require.NoError(t, waiter.Unlock())
	return waited.at.Sub(start)
}

// questionTime returns how long both sides take to answer a question one after the other: what is usual at the moment.
func (m match) questionTime(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	for _, o := range []owner{m.holder, m.stranger} {
		_, err := o.IsLocked()
		require.NoError(t, err)
	}
	return time.Since(start)
}

// requirePrompt has most of many rounds take no longer than a message: 50 ms, or on a machine so busy that a question
// takes more than 5 ms, ten times as long as that. One that missed the message, in an old Redisson, or two that came
// late do not count.
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
			if took == asleepForGood {
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
