package interop_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestJavaWaitsForGo(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		inGo := newClient(t, rdb).NewLock(name)
		inJava := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock("lock", name)

		require.NoError(t, inGo.Lock(t.Context()))
		ok, err := inJava.TryLock()
		require.NoError(t, err)
		require.False(t, ok)

		got := inJava.LockAsync()
		subscribed(t, rdb, lockChannel(name), 1)
		require.NoError(t, inGo.Unlock(t.Context()))
		require.NoError(t, within(t, "Java has the lock", got).Err)
		require.Equal(t, map[string]string{inJava.thread.Holder(t): "1"}, holders(t, rdb, name))
		require.NoError(t, inJava.Unlock())
	})
}

func TestGoWaitsForJava(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		inGo := newClient(t, rdb).NewLock(name)
		inJava := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock("lock", name)

		require.NoError(t, inJava.Lock())
		ok, err := inGo.TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, ok)

		got := async(func() error { return inGo.Lock(t.Context()) })
		subscribed(t, rdb, lockChannel(name), 1)
		require.NoError(t, inJava.Unlock())
		require.NoError(t, within(t, "Go has the lock", got))
		require.NoError(t, inGo.Unlock(t.Context()))
		require.Empty(t, holders(t, rdb, name))
	})
}

func TestReentriesAreSeenFromTheOtherSide(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		inGo := newClient(t, rdb).NewLock(name)
		thread := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1)
		inJava := thread.lock("lock", name)

		require.NoError(t, inJava.Lock())
		require.NoError(t, inJava.Lock())
		require.Equal(t, map[string]string{thread.Holder(t): "2"}, holders(t, rdb, name))
		locked, err := inGo.IsLocked(t.Context())
		require.NoError(t, err)
		require.True(t, locked)
		require.NoError(t, inJava.Unlock())
		ok, err := inGo.TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, ok, "one entry is left")
		require.NoError(t, inJava.Unlock())

		owner := rlock.WithOwner(t.Context())
		require.NoError(t, inGo.Lock(owner))
		require.NoError(t, inGo.Lock(owner))
		require.NoError(t, inGo.Unlock(owner))
		locked, err = inJava.IsLocked()
		require.NoError(t, err)
		require.True(t, locked, "one entry is left")
		require.NoError(t, inGo.Unlock(owner))
		locked, err = inJava.IsLocked()
		require.NoError(t, err)
		require.False(t, locked)
	})
}

func TestAStrangerMayNotUnlock(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		inGo := newClient(t, server.Client(t)).NewLock(name)
		inJava := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock("lock", name)

		require.NoError(t, inGo.Lock(t.Context()))
		err := inJava.Unlock()
		require.True(t, isJava(err, "IllegalMonitorStateException"), "%v", err)
		require.NoError(t, inGo.Unlock(t.Context()))

		require.NoError(t, inJava.Lock(forThread(7)))
		require.ErrorIs(t, inGo.Unlock(t.Context()), rlock.ErrNotHeld)
		held, err := inJava.IsHeld(forThread(7))
		require.NoError(t, err)
		require.True(t, held)
		require.NoError(t, inJava.Unlock(forThread(7)))
	})
}

func TestTheLockOfAKilledProcessIsFreeAfterItsLease(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		goHolder := startChild(t, "hold", holding{Addr: server.Addr, Kind: "lock", Name: name, Watchdog: time.Second})
		javaHolder := newJVM(t, v)
		inJava := javaHolder.open(t, settings{Watchdog: time.Second}, server.Addr).thread(1).lock("lock", name)

		goHolder.say("lock")
		require.Equal(t, "locked", goHolder.answer())
		got := inJava.LockAsync()
		subscribed(t, rdb, lockChannel(name), 1)
		goHolder.kill()
		require.NoError(t, within(t, "Java has the lock", got).Err)

		lock := newClient(t, rdb, rlock.WithWatchdogTimeout(time.Second)).NewLock(name)
		ok, err := lock.TryLock(t.Context(), rlock.Wait(2*time.Second))
		require.NoError(t, err)
		require.False(t, ok, "while it lives it is renewed")
		javaHolder.Kill()
		require.NoError(t, lock.Lock(t.Context(), rlock.Wait(aLongTime)))
		require.NoError(t, lock.Unlock(t.Context()))
		require.ErrorIs(t, inJava.Unlock(), errEnded)
	})
}

func TestWaitersOfBothLanguagesAreServed(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, name := redistest.Start(t), newName()
		rdb := server.Client(t)
		inGo := newClient(t, rdb).NewLock(name)
		holder := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock("lock", name)
		inJava := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1).lock("lock", name)

		require.NoError(t, holder.Lock())
		goDone := async(func() error {
			if err := inGo.Lock(t.Context()); err != nil {
				return err
			}
			return inGo.Unlock(t.Context())
		})
		locked, unlocked := inJava.LockAsync(), inJava.UnlockAsync()
		subscribed(t, rdb, lockChannel(name), 2)
		require.NoError(t, holder.Unlock())
		require.NoError(t, within(t, "Java has the lock", locked).Err)
		require.NoError(t, within(t, "Java has unlocked", unlocked).Err)
		require.NoError(t, within(t, "Go had the lock", goDone))
	})
}

func TestAMultiLockOfBothLanguages(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, a, b := redistest.Start(t), newName(), newName()
		inGo := newMultiLock(newClient(t, server.Client(t)), a, b)
		thread := sharedJVM(t, v).open(t, settings{}, server.Addr).thread(1)
		inJava, member := thread.lock("multi", a, b), thread.lock("lock", b)

		require.NoError(t, inJava.Lock())
		ok, err := inGo.TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, inJava.Unlock())
		require.NoError(t, inGo.Lock(t.Context()))
		ok, err = member.TryLock()
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, inGo.Unlock(t.Context()))
	})
}
