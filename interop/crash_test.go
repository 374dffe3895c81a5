package interop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// killedLease is the watchdog timeout of processes that are killed: with 2 s, one that had no turn on a busy machine for so
// long had lost its locks before.
const killedLease = 6 * time.Second

func TestWhatAKilledJVMHeldIsGosWhenItsLeaseEnds(t *testing.T) {
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

func TestWhatAKilledGoProcessHeldIsJavasWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		home, away := newParties(t, v, server, longLease) // nobody at home locks: the process does
		estate := holdings{Addr: server.Addr, Kinds: make(map[string]string), Watchdog: killedLease}
		var all []match
		for _, k := range kindsOf(v) {
			if k.fair && !v.atLeast(3, 32) {
				continue // it waits for ever when the holder renewed the lock before it died, be that Go or Java
			}
			m := newMatch(t, v, k, server, home, away)
			estate.Kinds[m.name] = k.java
			all = append(all, m)
		}
		doomed := startChild(t, "hold all", estate)
		require.Equal(t, "locked", doomed.answer())
		requireInheritance(t, all, doomed.kill)
	})
}

// holdings is what holdAll does.
type holdings struct {
	Addr     string
	Kinds    map[string]string // by the names of the locks
	Watchdog time.Duration
}

// holdAll takes locks, says so, and keeps them until it is killed.
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

// requireInheritance kills the holder of locks while others wait for them. They get them when the leases end: not before
// that, nor long after.
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
		got := within(t, "who waits has the lock: "+m.kind.java, waiting[i])
		require.NoError(t, got.err, m.kind.java)
		require.Greater(t, got.at, ends[i].Add(-10*time.Millisecond), m.kind.java)
		require.Less(t, got.at, ends[i].Add(5*time.Second), m.kind.java)
		m.requireHeldBy(t, m.rival, 1)
		require.NoError(t, m.rival.Unlock())
	}
}

// acquired is when somebody got a lock that he waited for.
type acquired struct {
	at  time.Time
	err error
}

// acquire has an owner wait for a lock.
func acquire(o owner) <-chan acquired {
	done := make(chan acquired, 1)
	go func() {
		err := o.Lock()
		done <- acquired{time.Now(), err}
	}()
	return done
}
