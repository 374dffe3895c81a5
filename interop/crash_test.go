package interop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// killedLease is the watchdog timeout of the processes that are killed. With 2 s, a process that was not scheduled for that
// long on a busy machine had lost its locks already.
const killedLease = 6 * time.Second

func TestGoGetsLocksOfKilledJVMWhenLeaseEnds(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		doomed := newJVM(t, v)
		home := newJavaParty(t, doomed, server, killedLease)
		away, _ := newParties(t, v, server, longLease)
		var all []match
		for _, k := range kindsOf(v) {
			m := newMatch(t, v, k, server, home, away)
			require.NoError(t, m.holder.Lock())
			all = append(all, m)
		}
		requireInheritance(t, all, doomed.Kill)
		require.ErrorIs(t, all[0].holder.Unlock(), errEnded)
	})
}

func TestJavaGetsLocksOfKilledGoProcessWhenLeaseEnds(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		home, away := newParties(t, v, server, longLease) // the child process locks, not the home side
		estate := holdings{Addr: server.Addr, Kinds: make(map[string]string), Watchdog: killedLease}
		var all []match
		for _, k := range kindsOf(v) {
			if k.fair && !v.atLeast(3, 32) {
				continue // the waiter hangs if the holder renewed the lock before it died, in Go or in Java
			}
			m := newMatch(t, v, k, server, home, away)
			estate.Kinds[m.name] = k.java
			all = append(all, m)
		}
		doomed := startChild(t, "hold all", estate)
		require.Equal(t, "locked", doomed.reply())
		requireInheritance(t, all, doomed.kill)
	})
}

// holdings holds the arguments of holdAll.
type holdings struct {
	Addr     string
	Kinds    map[string]string // by lock name
	Watchdog time.Duration
}

// holdAll acquires locks, prints a line, and keeps the locks until the process is killed.
func holdAll(h holdings, _ <-chan string) error {
	locks, err := rlock.New(redis.NewClient(&redis.Options{Addr: h.Addr}), rlock.WithWatchdogTimeout(h.Watchdog))
	if err != nil {
		return err
	}
	for name, kind := range h.Kinds {
		if err := kindNamed(kind).newLock(locks, name).Lock(context.Background()); err != nil {
			return err
		}
	}
	fmt.Println("locked")
	select {}
}

// requireInheritance kills the holder of locks while others wait for them. The waiters must get the locks when the leases
// end: no earlier, and not much later.
func requireInheritance(t *testing.T, all []match, kill func()) {
	t.Helper()
	waiting := make([]<-chan acquired, len(all))
	for i, m := range all {
		waiting[i] = acquire(m.rival)
	}
	for _, m := range all {
		m.asleep(t)
	}
	kill()
	ends := make([]time.Time, len(all))
	for i, m := range all {
		read := time.Now()
		ends[i] = read.Add(m.ttl(t))
		require.Empty(t, waiting[i], m.kind.java)
	}
	for i, m := range all {
		got := within(t, "the waiter has the lock: "+m.kind.java, waiting[i])
		require.NoError(t, got.err, m.kind.java)
		require.Greater(t, got.at, ends[i].Add(-10*time.Millisecond), m.kind.java)
		require.Less(t, got.at, ends[i].Add(5*time.Second), m.kind.java)
		m.requireHeldBy(t, m.rival, 1)
		require.NoError(t, m.rival.Unlock())
	}
}

// acquired is the result of a wait for a lock.
type acquired struct {
	at  time.Time
	err error
}

// acquire lets an owner wait for a lock.
func acquire(o owner) <-chan acquired {
	done := make(chan acquired, 1)
	go func() {
		err := o.Lock()
		done <- acquired{time.Now(), err}
	}()
	return done
}
