package interop_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestAsynchronousMethodsOfJava locks for thread numbers that no thread has, as reactive programs do. In Redisson, such
// locks wait in other code than those of real threads.
func TestAsynchronousMethodsOfJava(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	onKinds(t, func(t *testing.T, v version, k kindOf) {
		t.Helper()
		inGo, inJava := newParties(t, v, server, shortLease)
		m := newMatch(t, v, k, server, inGo, inJava)
		java := sharedJVM(t, v).open(t, settings{Watchdog: shortLease}, server.Addr)
		mine, rival := java.thread(1).lock(k.java, m.name), java.thread(1).lock(k.rival, m.name)
		for _, number := range []int64{7, -1, math.MinInt64, math.MaxInt64} {
			requireAsyncTurns(t, m, mine, rival, number)
		}
		m.requireFree(t)
	})
}

// requireAsyncTurns lets a thread number hold the lock, then Go, then the same number again with the rival lock.
func requireAsyncTurns(t *testing.T, m match, mine, rival *javaLock, number int64) {
	t.Helper()
	field := mine.thread.client.holder(number)
	require.NoError(t, mine.Lock(forThread(number)))
	got := holders(t, m.rdb, m.name)
	require.True(t, got[field] == "1" || got[field+":write"] == "1", "%v", got)
	held, err := mine.IsHeld(forThread(number))
	require.NoError(t, err)
	require.True(t, held)
	err = mine.Unlock()
	require.True(t, isJava(err, "IllegalMonitorStateException"), "another thread number could unlock: %v", err)

	inGo := m.rivalOf(m.home)
	requireTry(t, inGo, false)
	waiting := async(inGo.Lock)
	m.asleep(t)
	require.Empty(t, waiting)
	require.NoError(t, mine.Unlock(forThread(number)))
	require.NoError(t, within(t, "Go has the lock", waiting))
	require.NoError(t, inGo.Unlock())

	require.NoError(t, m.holder.Lock())
	ok, err := rival.TryLock(forThread(number))
	require.NoError(t, err)
	require.False(t, ok)
	next := rival.LockAsync(forThread(number))
	m.asleep(t)
	require.Empty(t, next)
	require.NoError(t, m.holder.Unlock())
	require.NoError(t, within(t, "Java has the lock", next).Err)
	requireTry(t, m.holder, false)
	require.NoError(t, rival.Unlock(forThread(number)))
}
