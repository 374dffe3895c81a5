package interop_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

func tokenKey(name string) string { return derived("redisson_lock_token", name) }

func requireToken(t *testing.T, rdb *redis.Client, name string, want int64) {
	t.Helper()
	got, err := rdb.Get(t.Context(), tokenKey(name)).Int64()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestJavaContinuesTokensOfGo checks the token of a lock that both languages use. While only Java uses the lock, tokens count
// from one. Go's first token is the clock in microseconds, and Java counts on from there.
func TestJavaContinuesTokensOfGo(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		inGo := newClient(t, rdb).NewLock(name, rlock.Fenced())
		inJava := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock("fenced", name)
		requireSeen := func(want int64) {
			t.Helper()
			seen, err := inJava.Token()
			require.NoError(t, err)
			require.Equal(t, want, seen)
		}

		small, err := inJava.LockToken()
		require.NoError(t, err)
		require.Equal(t, int64(1), small)
		require.NoError(t, inJava.Unlock())

		before, err := rdb.Time(t.Context()).Result()
		require.NoError(t, err)
		hold, err := inGo.Acquire(t.Context())
		require.NoError(t, err)
		after, err := rdb.Time(t.Context()).Result()
		require.NoError(t, err)
		token := int64(hold.Token())
		require.GreaterOrEqual(t, token, before.UnixMicro())
		require.LessOrEqual(t, token, after.UnixMicro())
		requireSeen(token)
		require.NoError(t, hold.Unlock(t.Context()))
		requireSeen(token)

		next, err := inJava.LockToken()
		require.NoError(t, err)
		require.Equal(t, token+1, next)
		require.NoError(t, inJava.Unlock())
		require.NoError(t, inJava.Lock())
		requireToken(t, rdb, name, token+2) // a method that returns no token also raises it
		require.NoError(t, inJava.Lock())
		requireToken(t, rdb, name, token+3) // a re-entry also raises it
		require.NoError(t, inJava.Unlock())
		require.NoError(t, inJava.Unlock())

		// Tokens never decrease, even if the clock is behind, for example on a server that took over.
		ahead := time.Now().Add(time.Hour).UnixMicro()
		require.NoError(t, rdb.Set(t.Context(), tokenKey(name), ahead, 0).Err())
		hold, err = inGo.Acquire(t.Context())
		require.NoError(t, err)
		requireSeen(ahead + 1)
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

// tokens holds the tokens of one lock, in the order of its holders.
type tokens struct {
	mu  sync.Mutex // for the race detector, which does not know the lock in Redis
	all []int64
}

func (s *tokens) add(token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, token)
}

// holdInGo holds a lock once and records its token.
func (s *tokens) holdInGo(ctx context.Context, l *rlock.Lock) error {
	hold, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	s.add(int64(hold.Token()))
	return hold.Unlock(ctx)
}

func (s *tokens) holdInJava(l *javaLock) error {
	token, err := l.LockToken()
	if err != nil {
		return err
	}
	s.add(token)
	return l.Unlock()
}

func TestTokensOfBothLanguagesGrow(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		for what, first := range map[string]int{"Go first": 0, "Java first": 1} {
			server, name := redistest.Start(t), newName()
			inGo := newClient(t, server.Client(t)).NewLock(name, rlock.Fenced())
			inJava := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock("fenced", name)
			var seen tokens
			for i := range 200 {
				if (first+i)%2 == 0 {
					require.NoError(t, seen.holdInGo(t.Context(), inGo))
				} else {
					require.NoError(t, seen.holdInJava(inJava))
				}
			}
			require.IsIncreasing(t, seen.all, what)
		}
	})
}

// TestTokensGrowInOrderOfHolders checks under contention that each holder has a greater token than the previous one.
func TestTokensGrowInOrderOfHolders(t *testing.T) {
	t.Parallel()
	const each, rounds = 4, 15
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		watchdog := 3 * time.Second // for Redisson before 3.28.0, which misses more messages under contention
		java := sharedJVM(t, v).open(t, settings{Watchdog: watchdog}, server.Addr)
		var seen tokens
		var done []<-chan error
		for i := range each {
			inGo := newClient(t, server.Client(t), rlock.WithWatchdogTimeout(watchdog)).NewLock(name, rlock.Fenced())
			inJava := java.thread(i).lock("fenced", name)
			for _, hold := range []func() error{
				func() error { return seen.holdInGo(t.Context(), inGo) }, func() error { return seen.holdInJava(inJava) },
			} {
				done = append(done, async(func() error {
					for range rounds {
						if err := hold(); err != nil {
							return err
						}
					}
					return nil
				}))
			}
		}
		for _, d := range done {
			require.NoError(t, within(t, "all rounds are over", d))
		}
		require.Len(t, seen.all, 2*each*rounds)
		require.IsIncreasing(t, seen.all)
		requireToken(t, server.Client(t), name, seen.all[len(seen.all)-1])
	})
}

// TestJavaBearsNoTokenOfOtherKinds checks that tokens order the Go holders of a fair or write lock, and that Java's holders
// in between neither bear one nor change the count.
func TestJavaBearsNoTokenOfOtherKinds(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		rdb := server.Client(t)
		client := newClient(t, rdb)
		for kind, newLock := range map[string]func(*rlock.Client, string) *rlock.Lock{
			"fair":  single((*rlock.Client).NewFairLock, rlock.Fenced()),
			"write": newFencedWriteLock,
		} {
			name := newName()
			inGo := newLock(client, name)
			inJava := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock(kind, name)
			last := int64(0)
			for range 3 {
				hold, err := inGo.Acquire(t.Context())
				require.NoError(t, err, kind)
				token := int64(hold.Token())
				require.Greater(t, token, last, kind)
				last = token
				got, err := inJava.TryLock()
				require.NoError(t, err)
				require.False(t, got, "the Go holder excludes Java's: "+kind)
				require.NoError(t, hold.Unlock(t.Context()))

				require.NoError(t, inJava.Lock())
				require.NoError(t, inJava.Lock(), "a re-entry")
				requireToken(t, rdb, name, last)
				_, err = inGo.TryAcquire(t.Context())
				require.ErrorIs(t, err, rlock.ErrNotAcquired, "the Java holder excludes Go's: "+kind)
				require.NoError(t, inJava.Unlock())
				require.NoError(t, inJava.Unlock())
			}
		}
	})
}
