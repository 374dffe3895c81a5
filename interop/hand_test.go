package interop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// hand is a lock together with one owner in Go or one thread in Java, and the options of the acquisition.
type hand struct {
	language string
	ask      func() <-chan error // starts to lock
	try      func() (bool, error)
	unlock   func() error
}

// goHand returns the hand of a new owner.
func goHand(ctx context.Context, l *rlock.Lock, opts ...rlock.AcquireOption) hand {
	return goHandOf(rlock.WithOwner(ctx), l, opts...)
}

// goHandOf returns the hand of the owner in a context.
func goHandOf(owner context.Context, l *rlock.Lock, opts ...rlock.AcquireOption) hand {
	return hand{
		language: "Go",
		ask:      func() <-chan error { return async(func() error { return l.Lock(owner, opts...) }) },
		try:      func() (bool, error) { return l.TryLock(owner) },
		unlock:   func() error { return l.Unlock(owner) },
	}
}

// multiHand returns the hand of a new owner on a multi lock.
func multiHand(ctx context.Context, m *rlock.MultiLock) hand {
	owner := rlock.WithOwner(ctx)
	var hold *rlock.Hold
	return hand{
		language: "Go",
		ask: func() <-chan error {
			return async(func() (err error) {
				hold, err = m.Acquire(owner)
				return err
			})
		},
		try: func() (ok bool, err error) {
			if hold, err = m.TryAcquire(owner); errors.Is(err, rlock.ErrNotAcquired) {
				return false, nil
			}
			return err == nil, err
		},
		unlock: func() error { return hold.Unlock(owner) },
	}
}

func javaHand(l *javaLock, opts ...javaOption) hand {
	return hand{
		language: "Java",
		ask: func() <-chan error {
			done, asked := make(chan error, 1), l.LockAsync(opts...)
			go func() { done <- (<-asked).Err }()
			return done
		},
		try:    func() (bool, error) { return l.TryLock() },
		unlock: func() error { return l.Unlock() },
	}
}

// bothOrders returns two hands in both orders.
func bothOrders(a, b hand) [][2]hand { return [][2]hand{{a, b}, {b, a}} }

// granted waits until the hand has the lock that it asked for.
func (h hand) granted(tb testing.TB, asked <-chan error) {
	tb.Helper()
	require.NoError(tb, within(tb, h.language+" has the lock", asked))
}

func (h hand) lock(tb testing.TB) {
	tb.Helper()
	h.granted(tb, h.ask())
}

func (h hand) release(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, h.unlock(), h.language)
}

func (h hand) refused(tb testing.TB, why string) {
	tb.Helper()
	ok, err := h.try()
	require.NoError(tb, err, h.language)
	require.False(tb, ok, "%s: %s", h.language, why)
}

// watchdogOf returns the lease of locks that Java waits for. It is short before Redisson 3.28.0, because waiters of those
// versions sometimes miss a message and then wait for the lease.
func watchdogOf(v version) time.Duration {
	if v.atLeast(3, 28) {
		return time.Minute
	}
	return 3 * time.Second
}

// keysOf returns the keys of a server without the unlock latches. Redisson deletes its latches after the unlock, and rlock
// keeps its tombstones there for two minutes.
func keysOf(tb testing.TB, rdb *redis.Client) []string {
	tb.Helper()
	all, err := rdb.Keys(context.Background(), "*").Result()
	require.NoError(tb, err)
	keys := []string{}
	for _, key := range all {
		if !strings.HasPrefix(key, "redisson_unlock_latch:") {
			keys = append(keys, key)
			continue
		}
		ttl, err := rdb.PTTL(context.Background(), key).Result()
		require.NoError(tb, err)
		require.NotEqual(tb, time.Duration(-1), ttl, "%s has no TTL", key)
	}
	return keys
}
