package interop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// hand is a lock in the hands of one owner in Go, or of one thread in Java, with the options it is taken with.
type hand struct {
	language string
	ask      func() <-chan error // locks, and returns when that is on its way
	try      func() (bool, error)
	unlock   func() error
}

// goHand returns the hand of an owner of its own.
func goHand(ctx context.Context, l rlock.Locker, opts ...rlock.AcquireOption) hand {
	return goHandOf(rlock.WithOwner(ctx), l, opts...)
}

// goHandOf returns the hand of the owner that owner stands for.
func goHandOf(owner context.Context, l rlock.Locker, opts ...rlock.AcquireOption) hand {
	return hand{
		language: "Go",
		ask:      func() <-chan error { return async(func() error { return l.Lock(owner, opts...) }) },
		try:      func() (bool, error) { return l.TryLock(owner) },
		unlock:   func() error { return l.Unlock(owner) },
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

// bothOrders returns two hands one way round and the other.
func bothOrders(a, b hand) [][2]hand { return [][2]hand{{a, b}, {b, a}} }

// granted waits until a hand has the lock that it asked for.
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

// watchdogOf is the lease of locks that Java waits for: who is not woken finds out when it is over, as waiters do now and
// then in Redisson before 3.28.0.
func watchdogOf(v version) time.Duration {
	if v.atLeast(3, 28) {
		return time.Minute
	}
	return 3 * time.Second
}

// keysOf returns the keys of a server, but for those that say how an unlock went: Redisson deletes its own behind the
// unlock, and rlock keeps those of what it gave up for two minutes.
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
		require.NotEqual(tb, time.Duration(-1), ttl, "%s stays for ever", key)
	}
	return keys
}
