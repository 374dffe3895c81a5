package interop_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMultiLockAndLocksOfJavaExcludeEachOther(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, names := redistest.Start(t), []string{newName(), newName(), newName()}
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{Watchdog: watchdogOf(v)}, server.Addr)
		client := newClient(t, rdb, rlock.WithWatchdogTimeout(watchdogOf(v)))
		inGo := multiHand(t.Context(), newMultiLock(client, names...))
		reversed := slices.Clone(names)
		slices.Reverse(reversed)
		inJava := javaHand(java.thread(1).lock("multi", reversed...))
		for _, name := range names {
			member := javaHand(java.thread(2).lock("lock", name))
			member.lock(t)
			inGo.refused(t, "a member is held")
			eventually(t, "the refused multi lock holds no member", func() bool { return slices.Equal(keysOf(t, rdb), []string{name}) })
			asked := inGo.ask()
			subscribed(t, rdb, lockChannel(name), 1)
			eventually(t, "the waiting multi lock holds no member", func() bool { return slices.Equal(keysOf(t, rdb), []string{name}) })
			require.Empty(t, asked)
			member.release(t)
			inGo.granted(t, asked)
			requireKeys(t, rdb, names)

			member.refused(t, "a multi lock holds the member")
			inJava.refused(t, "another multi lock holds all members")
			requireKeys(t, rdb, names)
			asked = inJava.ask()
			inGo.release(t)
			inJava.granted(t, asked)
			requireKeys(t, rdb, names)
			inGo.refused(t, "another multi lock holds all members")
			inJava.release(t)
			requireKeys(t, rdb, nil)
		}
	})
}

// TestMultiLocksInOppositeOrdersTakeTurns checks multi locks of the same names in opposite orders: no deadlock, and no
// starvation.
func TestMultiLocksInOppositeOrdersTakeTurns(t *testing.T) {
	t.Parallel()
	const rounds = 10
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, a, b := redistest.Start(t), newName(), newName()
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{Watchdog: 3 * time.Second}, server.Addr)
		client := newClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
		// Only one in Java, because two there, in opposite orders, keep blocking each other for 3 s.
		hands := []hand{
			javaHand(java.thread(1).lock("multi", b, a)),
			multiHand(t.Context(), newMultiLock(client, a, b)), multiHand(t.Context(), newMultiLock(client, b, a)),
		}
		var behind atomic.Int64 // the hands that have not finished their rounds
		behind.Store(int64(len(hands)))
		var done []<-chan error
		for _, h := range hands {
			done = append(done, async(func() error {
				for round := 1; behind.Load() > 0; round++ {
					if err := <-h.ask(); err != nil {
						return err
					}
					if err := h.unlock(); err != nil {
						return err
					}
					if round == rounds {
						behind.Add(-1)
					}
				}
				return nil
			}))
		}
		for _, d := range done {
			require.NoError(t, within(t, "all rounds are over", d))
		}
		requireKeys(t, rdb, nil)
	})
}
