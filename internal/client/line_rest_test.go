package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tally returns how often the commands were carried out since it was last called, by name.
func (f *fixture) tally() map[string]int {
	n := make(map[string]int)
	for _, command := range f.took() {
		n[command]++
	}
	return n
}

// TestWhatHappensBeforeTheConfirmationIsSeen has the lock change hands after a waiter was refused, and before Redis knows of its subscription: no
// message tells the waiter. It finds that out once the subscription is confirmed.
func TestWhatHappensBeforeTheConfirmationIsSeen(t *testing.T) {
	for what, happens := range map[string]func(f *fixture, holder *Lock) (over time.Duration){
		"released": func(f *fixture, holder *Lock) time.Duration {
			require.NoError(f, holder.Unlock(f.Context()))
			return 0
		},
		"unlocked by force": func(f *fixture, holder *Lock) time.Duration {
			_, err := holder.ForceUnlock(f.Context(), nil)
			require.NoError(f, err)
			return 0
		},
		"gone": func(f *fixture, _ *Lock) time.Duration {
			f.drop()
			return 0
		},
		"another's, for less than a first term": func(f *fixture, _ *Lock) time.Duration {
			f.drop()
			require.True(f, f.takeForOthers(2*time.Second))
			return 2 * time.Second
		},
	} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holder := f.newLock()
				require.NoError(f, acquire(f.Context(), holder))
				f.confirms = 200 * time.Millisecond
				w := f.waits(Terms{})
				f.until(100 * time.Millisecond)
				require.Len(f, f.line(), 1)
				f.loses = func(string) bool { return true } // also to those who watch
				w.unlock(max(f.confirms, 100*time.Millisecond+happens(f, holder)))
			})
		})
	}
}

// TestALostMessageCostsAFirstTermAtMost loses messages at random, while the connection seems well. The lock is released, unlocked by
// force, or just gone, when the waiters have rested for some time.
func TestALostMessageCostsAFirstTermAtMost(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			test := func(f *fixture) {
				dice := rand.New(rand.NewPCG(seed, 0))
				holder := f.newLock()
				require.NoError(f, acquire(f.Context(), holder))
				waiters := []*result{f.waitsToHold(dice)}
				if dice.IntN(2) == 0 {
					waiters = append(waiters, f.waitsToHold(dice))
				}
				at := 2*time.Second + time.Duration(dice.IntN(90_000))*time.Millisecond
				f.until(at)
				f.loses = func(string) bool { return dice.IntN(3) > 0 }
				switch dice.IntN(3) {
				case 0:
					require.NoError(f, holder.Unlock(f.Context()))
				case 1:
					_, err := holder.ForceUnlock(f.Context(), nil)
					require.NoError(f, err)
				default:
					f.drop()
				}
				<-waiters[0].done
				require.NoError(f, waiters[0].err)
				require.LessOrEqual(f, waiters[0].at, at+firstTerm+20*time.Millisecond)
				for _, w := range waiters[1:] { // it has its turn once the first one has unlocked
					<-w.done
					require.NoError(f, w.err)
					require.LessOrEqual(f, w.at, waiters[0].at+2*time.Second+firstTerm+40*time.Millisecond)
				}
			}
			if seed%2 == 0 {
				runLine(t, test)
			} else {
				runWrite(t, test)
			}
		})
	}
}

// waitsToHold has a new client wait for the lock, and hold it for up to two seconds. The result is when it got the lock.
func (f *fixture) waitsToHold(dice *rand.Rand) *result {
	hold := time.Duration(dice.IntN(2000)) * time.Millisecond
	l := f.newLock()
	return f.async(func() error {
		err := acquire(context.Background(), l)
		if err == nil {
			time.AfterFunc(hold, func() { _ = l.Unlock(context.Background()) })
		}
		return err
	})
}

// TestAWaiterAtRestHearsOfAnOutage cuts Redis off while a waiter sleeps. A call whose wait ends tells the outage from a refusal.
func TestAWaiterAtRestHearsOfAnOutage(t *testing.T) {
	for what, outage := range map[string]func(*fixture){"hang": (*fixture).hang, "no connection": (*fixture).refuseConnections} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				require.True(f, f.takeForOthers(time.Hour))
				w := f.waits(Terms{Limited: true, Wait: 20 * time.Second})
				f.until(12 * time.Second)
				outage(f)
				<-w.done
				require.Equal(f, unavailable, f.classOf(w.err))
				require.Equal(f, 20*time.Second, w.at)
				f.instead(nil)
				f.until(time.Minute)
			})
		})
	}
}

// TestADeadSubscriptionEndsARest has Redis lose the subscription of a waiter that sleeps, and say nothing. It finds that out within a
// first term, and subscribes again.
func TestADeadSubscriptionEndsARest(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		w := f.waits(Terms{})
		f.until(10 * time.Second)
		f.tally()
		f.with(func() {
			for _, s := range f.subs {
				s.deafen()
			}
		})
		f.until(10*time.Second + firstTerm + 10*time.Millisecond)
		require.Positive(f, f.tally()["acquire"])
		f.until(20 * time.Second)
		require.NoError(f, holder.Unlock(f.Context()))
		w.now()
		require.NoError(f, w.hold.Unlock(f.Context()))
		require.Empty(f, strings.Join(f.line(), " "))
	})
}
