package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// named returns a handle of a client for another lock than the tests'.
func (f *fixture) named(c *Client, name string) *Lock {
	l := new(Lock)
	l.Init(c, f.kind(wire.Plain), name, name)
	return l
}

// tally returns how often the commands were carried out since it was last called, by name.
func (f *fixture) tally() map[string]int {
	n := make(map[string]int)
	for _, command := range f.took() {
		n[command]++
	}
	return n
}

// TestWaitersAtRestShareTheirQuestions has many wait for as many locks. While nothing changes, a hundred of them share a call. Whoever finds a
// free lock about which nobody told him has it as soon as by a question of his own.
func TestWaitersAtRestShareTheirQuestions(t *testing.T) {
	for _, waiters := range []int{100, 1000} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holding, waiting := f.client(), f.client()
				var all []*result
				for i := range waiters {
					require.NoError(f, acquire(f.Context(), f.named(holding, fmt.Sprint(i))))
				}
				for i := range waiters {
					all = append(all, f.async(func() error { return acquire(context.Background(), f.named(waiting, fmt.Sprint(i))) }))
				}
				f.until(10 * time.Second)
				f.tally()
				const minutes = 2
				f.until(10*time.Second + minutes*time.Minute)
				sent := f.tally()
				require.Zero(f, sent["acquire"], "nobody asks by himself")
				calls := waiters / 100 * minutes * 60 * 10 / 27 // for each hundred, all 2.7 s
				require.LessOrEqual(f, sent["inquire"], calls+calls/4)
				require.GreaterOrEqual(f, sent["inquire"], waiters/100*minutes*60/3-waiters/100)
				gone := time.Since(f.start)
				for i := range waiters {
					f.do("DEL", fmt.Sprint(i))
				}
				for _, r := range all {
					<-r.done
					require.NoError(f, r.err)
					require.LessOrEqual(f, r.at, gone+firstTerm)
				}
			})
		})
	}
}

// TestWaitersAtRestWhoseChannelsEndDifferently waits for locks with braces in their names. The channels of a name that is in braces as a whole
// end differently, so no call inquires about such a name and another one.
func TestWaitersAtRestWhoseChannelsEndDifferently(t *testing.T) {
	runLine(t, func(f *fixture) {
		holding, waiting := f.client(), f.client()
		for _, name := range []string{"{x}", "{x}y", "{x}{y}", "{x", "y"} {
			require.NoError(f, acquire(f.Context(), f.named(holding, name)))
			f.async(func() error { return acquire(f.Context(), f.named(waiting, name)) })
		}
		f.until(10 * time.Second)
		f.tally()
		f.until(time.Minute)
		require.Zero(f, f.tally()["acquire"], "nobody asks by himself")
		f.leftover = true
	})
}

// TestWaitersThatComeTogetherShareTheirQuestions has many wait for as many locks from the same moment on. Each asks once, and stands. A hundred share
// the question after that, when the subscription is confirmed, and so they do when it is cut and confirmed again.
func TestWaitersThatComeTogetherShareTheirQuestions(t *testing.T) {
	const waiters = 1000
	for what, most := range map[string]int{"at first": waiters, "again": 0} {
		t.Run(what, func(t *testing.T) {
			runLine(t, func(f *fixture) {
				holding, waiting := f.client(), f.client()
				var held []*Lock
				for i := range waiters {
					held = append(held, f.named(holding, fmt.Sprint(i)))
					require.NoError(f, acquire(f.Context(), held[i]))
				}
				f.tally()
				var all []*result
				for i := range waiters {
					all = append(all, f.async(func() error { return acquire(context.Background(), f.named(waiting, fmt.Sprint(i))) }))
				}
				if most == 0 {
					f.until(2 * time.Second)
					f.tally()
					f.cut(100 * time.Millisecond)
				}
				f.until(2500 * time.Millisecond)
				sent := f.tally()
				require.Equal(f, most, sent["acquire"])
				require.LessOrEqual(f, sent["inquire"], 2*waiters/100)
				require.Positive(f, sent["inquire"])
				require.Zero(f, sent["pump"], "all watch, and look at what they may have missed before by the same calls")
				for i, r := range all {
					require.NoError(f, held[i].Unlock(f.Context()))
					<-r.done
					require.NoError(f, r.err)
				}
			})
		})
	}
}

// TestWhatHappensBeforeTheConfirmationIsSeen has the lock change hands after a waiter was refused, and before Redis knows of its subscription: no
// message tells the waiter. The client finds that out once the subscription is confirmed.
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

// TestALostMessageAndTheLossOfItsInquiry loses the message that a waiter has the lock, and the reply to what asks for it next: its client's
// inquiry, or its own question behind a lease of a first term. After an inquiry, Redis keeps the lock for nobody no longer than without that second
// loss. A question lengthens the lease that it finds. In either case the waiter has the lock once the silence is over.
func TestALostMessageAndTheLossOfItsInquiry(t *testing.T) {
	const silent = 600 * time.Millisecond
	for _, c := range []struct {
		lease time.Duration // of the holder
		asks  string
		most  time.Duration
	}{
		{watchdogTimeout, "inquire", firstTerm},
		{firstTerm, "acquire", firstTerm + silent},
	} {
		for later := time.Duration(0); later < firstTerm; later += 250 * time.Millisecond {
			t.Run(fmt.Sprint(c.asks, later), func(t *testing.T) {
				runLine(t, func(f *fixture) {
					h := f.hold(f.Context(), f.newLock(), Terms{Lease: c.lease, Renewed: true})
					w := f.waits(Terms{})
					f.until(10 * time.Second)
					require.Equal(f, c.asks == "inquire", f.tally()["inquire"] > 0, "nobody inquires about a lease of a first term")
					at := 10*time.Second + later
					f.until(at)
					f.loses = func(string) bool { return true }
					var lost atomic.Bool
					f.instead(func(command string, do func() wire.Reply) wire.Reply {
						r := do()
						if command != c.asks || lost.Swap(true) {
							return r
						}
						time.Sleep(silent)
						return network()
					})
					require.NoError(f, h.Unlock(f.Context()))
					kept := at
					for f.held() != nil && !w.over() {
						kept = time.Since(f.start)
						f.until(kept + 10*time.Millisecond)
					}
					require.LessOrEqual(f, kept, at+c.most)
					<-w.done
					require.True(f, lost.Load())
					require.LessOrEqual(f, w.at, at+firstTerm+silent+40*time.Millisecond)
					require.NoError(f, w.hold.Unlock(f.Context()))
				})
			})
		}
	}
}
