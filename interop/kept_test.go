package interop_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// onKept runs a test for every kind of lock that AtLeast keeps taken. Go is at home.
func onKept(t *testing.T, test func(*testing.T, match)) {
	t.Helper()
	server := redistest.Start(t)
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		inGo, inJava := newParties(t, v, server, longLease)
		for _, k := range kindsOf(v) {
			if m := newMatch(t, v, k, server, inGo, inJava); !m.isReadWrite() {
				t.Run(k.java, func(t *testing.T) {
					t.Parallel()
					test(t, m)
				})
			}
		}
	})
}

// keep has Go take the lock, and unlock it before the time is over. It returns the token, or 0.
func (m match) keep(t *testing.T, d time.Duration) (token rlock.Token) {
	t.Helper()
	o, ok := m.holder.(goOwner)
	require.True(t, ok)
	hold, err := o.lock.Acquire(o.ctx, rlock.AtLeast(d))
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(o.ctx))
	m.requireHeldBy(t, m.holder, 0)
	return hold.Token()
}

// TestRedissonSeesAKeptLockAsTaken by somebody else: no thread holds it, none can unlock it, and any can free it by force.
func TestRedissonSeesAKeptLockAsTaken(t *testing.T) {
	t.Parallel()
	onKept(t, func(t *testing.T, m match) {
		t.Helper()
		java, ok := m.stranger.(javaOwner)
		require.True(t, ok)
		m.keep(t, time.Minute)
		requireTry(t, java, false)
		locked, err := java.IsLocked()
		require.NoError(t, err)
		require.True(t, locked)
		held, err := java.IsHeld()
		require.NoError(t, err)
		require.False(t, held)
		count, err := java.HoldCount()
		require.NoError(t, err)
		require.Zero(t, count)
		left, err := java.TTL()
		require.NoError(t, err)
		require.Positive(t, left)
		require.LessOrEqual(t, left, time.Minute)
		err = java.Unlock()
		require.True(t, java.notHeld(err), "%v", err)
		got, err := java.javaLock.TryLock(wait(100 * time.Millisecond))
		if err == nil { // Redisson may fail to subscribe in so short a time
			require.False(t, got)
		}
		m.requireHeldBy(t, m.holder, 0)

		requireForce(t, java, true)
		m.requireFree(t)
	})
}

// TestRedissonTakesALockThatIsNotKeptAnyMore, as soon as its time is over, and the lock is then like any other.
func TestRedissonTakesALockThatIsNotKeptAnyMore(t *testing.T) {
	t.Parallel()
	onKept(t, func(t *testing.T, m match) {
		t.Helper()
		java, ok := m.rival.(javaOwner)
		require.True(t, ok)
		const d = 2 * time.Second
		began := time.Now()
		token := m.keep(t, d)
		if m.kind.fair && !m.version.atLeast(3, 32) { // a waiter that finds its time over sleeps until a message, whoever held the lock
			eventually(t, "Redisson gets the lock", func() bool {
				ok, err := java.TryLock(0)
				require.NoError(t, err)
				return ok
			})
		} else {
			got := within(t, "Redisson gets the lock", java.LockAsync())
			require.NoError(t, got.Err)
		}
		require.GreaterOrEqual(t, time.Since(began), d)
		m.requireHeldBy(t, java, 1)
		requireTry(t, m.holder, false)
		if m.kind.java == "fenced" {
			require.Equal(t, strconv.FormatUint(uint64(token+1), 10), m.rdb.Get(t.Context(), tokenKey(m.name)).Val())
		}
		require.NoError(t, java.Unlock())
		m.requireFree(t)
	})
}

// TestRedissonHearsThatALeaseEndsEarlier than it knows. It then asks: neither an unlock with AtLeast nor a ticket that nobody adopts leaves
// its thread asleep until the end of a longer lease.
func TestRedissonHearsThatALeaseEndsEarlier(t *testing.T) {
	t.Parallel()
	const d = 5 * time.Second
	for what, parks := range map[string]bool{"AtLeast": true, "a ticket": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			onKept(t, func(t *testing.T, m match) {
				t.Helper()
				if m.kind.fair && !m.version.atLeast(3, 32) {
					t.Skip("a waiter that finds its time over sleeps until a message, whoever held the lock")
				}
				o, _ := m.holder.(goOwner)
				java, _ := m.rival.(javaOwner)
				var opts []rlock.AcquireOption
				if parks {
					opts = append(opts, rlock.AtLeast(d))
				}
				hold, err := o.lock.Acquire(o.ctx, opts...)
				require.NoError(t, err)
				got := java.LockAsync()
				m.asleep(t)
				require.Empty(t, got)
				if parks {
					require.NoError(t, hold.Unlock(o.ctx))
				} else {
					_, err = hold.Export(o.ctx, rlock.Lease(d))
					require.NoError(t, err)
				}
				require.NoError(t, within(t, "Redisson gets the lock", got).Err)
				require.NoError(t, java.Unlock())
			})
		})
	}
}

// TestATicketOfAWriterLetsAllReadersOfRedissonIn when its lease is over, also several threads of a process: all of them may read then.
func TestATicketOfAWriterLetsAllReadersOfRedissonIn(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		p := newRWPair(t, v, settings{})
		messages := p.listen(t)
		hold, err := p.inGo.Writer().Acquire(p.owner, rlock.Lease(time.Hour))
		require.NoError(t, err)
		reading := [2]<-chan error{p.javaReads.ask(), javaHand(p.java.thread(3).lock("read", p.name)).ask()}
		p.asleep(t)
		_, err = hold.Export(p.owner, rlock.Lease(2*time.Second))
		require.NoError(t, err)
		require.Equal(t, "1", within(t, "the end is announced", messages).Payload)
		p.javaReads.granted(t, reading[0])
		p.javaReads.granted(t, reading[1])
	})
}
