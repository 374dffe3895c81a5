package interop_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestAMultiLockAndLocksOfJavaExcludeEachOther(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, names := redistest.Start(t), []string{newName(), newName(), newName()}
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{Watchdog: watchdogOf(v)}, server.Addr)
		client := newClient(t, rdb, rlock.WithWatchdogTimeout(watchdogOf(v)))
		inGo := goHand(t.Context(), newMultiLock(client, names...))
		reversed := slices.Clone(names)
		slices.Reverse(reversed)
		inJava := javaHand(java.thread(1).lock("multi", reversed...))
		for _, name := range names {
			member := javaHand(java.thread(2).lock("lock", name))
			member.lock(t)
			inGo.refused(t, "a member is held")
			eventually(t, "who got not all has none", func() bool { return slices.Equal(keysOf(t, rdb), []string{name}) })
			asked := inGo.ask()
			subscribed(t, rdb, lockChannel(name), 1)
			eventually(t, "it holds nothing while it waits", func() bool { return slices.Equal(keysOf(t, rdb), []string{name}) })
			require.Empty(t, asked)
			member.release(t)
			inGo.granted(t, asked)
			requireKeys(t, rdb, names)

			member.refused(t, "a multi lock has it")
			inJava.refused(t, "another multi lock has all")
			requireKeys(t, rdb, names)
			asked = inJava.ask()
			inGo.release(t)
			inJava.granted(t, asked)
			requireKeys(t, rdb, names)
			inGo.refused(t, "another multi lock has all")
			inJava.release(t)
			requireKeys(t, rdb, nil)
		}
	})
}

// Multi locks of the same names in opposite orders must not wait for each other for ever, and nobody takes all turns.
func TestMultiLocksInOppositeOrdersTakeTurns(t *testing.T) {
	t.Parallel()
	const rounds = 10
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server, a, b := redistest.Start(t), newName(), newName()
		rdb := server.Client(t)
		java := sharedJVM(t, v).open(t, settings{Watchdog: 3 * time.Second}, server.Addr)
		client := newClient(t, rdb, rlock.WithWatchdogTimeout(3*time.Second))
		// One in Java: two there, in opposite orders, wait for each other for 3 s, again and again.
		hands := []hand{
			javaHand(java.thread(1).lock("multi", b, a)),
			goHand(t.Context(), newMultiLock(client, a, b)), goHand(t.Context(), newMultiLock(client, b, a)),
		}
		var behind atomic.Int64 // how many have not had their rounds
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
			require.NoError(t, within(t, "all had their rounds", d))
		}
		requireKeys(t, rdb, nil)
	})
}
