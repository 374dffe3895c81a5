package group

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// These tests count the round trips of multi locks, on a Redis in memory that runs the real scripts, in virtual time.

// named returns locks with the names 000, 001 and so on.
func named(c *client.Client, from, to int) (locks []client.Member) {
	for i := from; i < to; i++ {
		locks = append(locks, newLined(c, fmt.Sprintf("%03d", i)))
	}
	return locks
}

// trips returns how many round trips a call takes.
func trips(call func()) float64 {
	begun := time.Now()
	call()
	return float64(time.Since(begun)) / float64(trip)
}

// far runs a test with a Redis that is far away.
func far(t *testing.T, test func(t *testing.T, d *distant)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		t.Helper()
		test(t, newDistant())
	})
}

func TestAMultiLockOfOneClientTakesTwoRoundTrips(t *testing.T) {
	for _, n := range []int{2, 10, 20, 50} {
		for what, info := range map[string]driver.Info{
			"pool": pooled, "small pool": {Slots: 3, Batches: 2}, "without pipelines": {Slots: 64}, "acks": {Slots: 64, Batches: 2},
		} {
			far(t, func(t *testing.T, d *distant) {
				t.Helper()
				if what == "acks" { // each with a WAIT of its own, side by side
					d.acks = 1
				}
				c := d.newLinked(t, info)
				g := NewMulti(named(c, 0, n))
				for range 3 {
					var h client.Held
					var err error
					locking := trips(func() { h, err = g.Take(t.Context(), forever) })
					require.NoError(t, err)
					_, scripts := d.took()
					require.Equal(t, n, scripts, "%s, %d names: one script a name", what, n)
					require.InDelta(t, 1, locking, 0.1, "%s, %d names: round trips to lock", what, n)
					unlocking := trips(func() { err = h.Unlock(t.Context()) })
					require.NoError(t, err)
					pipelines, scripts := d.took()
					require.Equal(t, n, scripts, "%s, %d names: one script a name", what, n)
					require.InDelta(t, 1, unlocking, 0.1, "%s, %d names: round trips to unlock", what, n)
					if info.Batches > 0 {
						require.LessOrEqual(t, pipelines, n/48+1, "%s, %d names: pipelines", what, n)
					}
					require.Empty(t, d.keys(t))
				}
			})
		}
	}
}

func TestAMultiLockAsksEachClientAndEachNodeOnce(t *testing.T) {
	far(t, func(t *testing.T, d *distant) {
		t.Helper()
		one, two := d.newLinked(t, pooled), d.newLinked(t, pooled)
		g := NewMulti(append(named(one, 0, 10), named(two, 10, 20)...))
		var h client.Held
		var err error
		require.InDelta(t, 1, trips(func() { h, err = g.Take(t.Context(), forever) }), 0.1, "two clients")
		require.NoError(t, err)
		pipelines, _ := d.took()
		require.Equal(t, 2, pipelines)
		// The first lock is unlocked last, because others wait for it: then the rest is free wherever it is.
		require.InDelta(t, 2, trips(func() { err = h.Unlock(t.Context()) }), 0.1, "two clients")
		require.NoError(t, err)
		require.Empty(t, d.keys(t))
	})
	far(t, func(t *testing.T, d *distant) {
		t.Helper()
		d.nodes = 3
		c := d.newLinked(t, pooled)
		g := NewMulti(named(c, 0, 20))
		var h client.Held
		var err error
		require.InDelta(t, 1, trips(func() { h, err = g.Take(t.Context(), forever) }), 0.1, "a cluster")
		require.NoError(t, err)
		pipelines, _ := d.took()
		require.Equal(t, 3, pipelines)
		require.InDelta(t, 1, trips(func() { err = h.Unlock(t.Context()) }), 0.1, "a cluster")
		require.NoError(t, err)
		pipelines, _ = d.took()
		require.Equal(t, 3, pipelines)
		require.Empty(t, d.keys(t))
	})
}

func TestARefusedMultiLockGivesAllBackTogether(t *testing.T) {
	for _, taken := range []int{0, 7, 19} {
		far(t, func(t *testing.T, d *distant) {
			t.Helper()
			c, other := d.newLinked(t, pooled), d.newLinked(t, pooled)
			held, err := named(other, taken, taken+1)[0].Take(t.Context(), forever)
			require.NoError(t, err)
			before := d.keys(t)
			g := NewMulti(named(c, 0, 20))
			d.took()
			require.InDelta(t, 2, trips(func() { _, err = g.Take(t.Context(), single) }), 0.1, "it tries, and gives back")
			require.ErrorIs(t, err, fault.ErrRefused)
			require.ErrorContains(t, err, fmt.Sprintf("%03d", taken))
			_, scripts := d.took()
			require.Equal(t, 20+19, scripts)
			require.Equal(t, before, d.keys(t))

			// A group that waits holds nothing.
			got := take(t.Context(), g, forever)
			<-time.After(time.Second)
			require.Empty(t, got)
			left := d.keys(t)
			require.Subset(t, left, before)
			for i := range 20 {
				if name := fmt.Sprintf("%03d", i); i != taken {
					require.NotContains(t, left, name, "%d is held", taken)
				}
			}
			d.took()
			freed := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, <-got)
			require.Less(t, time.Since(freed), 4*trip, "its turn comes by a message, and then it tries the others together")
		})
	}
}

// A request that waited for its first lock and did not get it shows that the lock is busy, as one that got it does.
func TestARefusedWaitForTheFirstLockKeepsTheNextRequestFromTryingTheOthers(t *testing.T) {
	far(t, func(t *testing.T, d *distant) {
		t.Helper()
		c, other := d.newLinked(t, pooled), d.newLinked(t, pooled)
		held, err := named(other, 0, 1)[0].Take(t.Context(), forever)
		require.NoError(t, err)
		g := NewMulti(named(c, 0, 20))
		for round := range 3 {
			d.took()
			_, err = g.Take(t.Context(), client.Terms{Op: "try acquire", Limited: true, Wait: 10 * trip, ByHold: true})
			require.ErrorIs(t, err, fault.ErrRefused)
			<-time.After(time.Second)
			if _, scripts := d.took(); round > 0 {
				require.Less(t, scripts, 5, "it asks for the first lock, and leaves the line")
			}
		}
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// Each of these groups may hold what another one needs: they ask for their locks at the same time. The groups of other libraries may take
// their members in another order.
func TestMultiLocksThatTryTheirLocksTogetherGoOn(t *testing.T) {
	for _, c := range []struct {
		nodes    int
		opposite bool
	}{{0, false}, {3, false}, {0, true}, {3, true}} {
		far(t, func(t *testing.T, d *distant) {
			t.Helper()
			d.nodes = c.nodes
			var groups []*Group
			for i := range 4 {
				of := d.newLinked(t, pooled)
				locks := named(of, 0, 6)
				if c.opposite && i%2 == 1 {
					slices.Reverse(locks)
				}
				groups = append(groups, newGroup("group", locks))
			}
			inside := 0
			begun := time.Now()
			const turns = 25
			var wg sync.WaitGroup
			for _, g := range groups {
				wg.Go(func() {
					for range turns {
						h, err := g.Take(t.Context(), forever)
						if err != nil {
							t.Error(err)
							return
						}
						if inside++; inside > 1 {
							t.Error("two are inside")
						}
						<-time.After(time.Millisecond)
						inside--
						if err := h.Unlock(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			_, scripts := d.took()
			t.Logf("%+v: %v and %d scripts a turn", c, time.Since(begun)/(turns*4), scripts/(turns*4))
			require.Empty(t, d.keys(t))
			if c.opposite {
				require.Less(t, time.Since(begun), turns*4*200*trip)
			} else {
				require.Less(t, time.Since(begun), turns*4*10*trip)
				require.Less(t, scripts, turns*4*6*3, "those that wait do not try all locks each time")
			}
		})
	}
}

// A reply that does not come, or comes late, leaves nothing behind, whichever lock it is about.
func TestAMultiLockWhoseReplyIsLostLeavesNothing(t *testing.T) {
	for lost := range 3 {
		for what, late := range map[string]time.Duration{"lost": 24 * time.Hour, "late": commandTimeout + time.Second} {
			far(t, func(t *testing.T, d *distant) {
				t.Helper()
				c := d.newLinked(t, driver.Info{Slots: 64}) // each call by itself, so that one may hang
				var met atomic.Bool
				d.meanwhile = func(call *wire.Call) {
					if call.Key() == fmt.Sprintf("%03d", lost) && met.CompareAndSwap(false, true) {
						<-time.After(late)
					}
				}
				g := NewMulti(named(c, 0, 3))
				_, err := g.Take(t.Context(), client.Terms{Op: "try acquire", Limited: true, ByHold: true})
				checkClass(t, err, fault.ErrUnavailable, what)
				<-time.After(time.Minute)
				require.Empty(t, d.keys(t), "%s: %d", what, lost)
				h, err := g.Take(t.Context(), forever)
				require.NoError(t, err)
				require.NoError(t, h.Unlock(t.Context()))
				require.Empty(t, d.keys(t))
			})
		}
	}
}

// The end of the context ends a group wherever it is: before the replies, while it waits, and while it tries the others.
func TestAMultiLockWhoseContextEndsLeavesNothing(t *testing.T) {
	for _, after := range []time.Duration{0, trip / 4, 3 * trip / 4, 2 * trip, 5 * trip, 10*trip + trip/4, 10*trip + 3*trip/4, 12 * trip} {
		for taken := range 4 {
			far(t, func(t *testing.T, d *distant) {
				t.Helper()
				c, other := d.newLinked(t, pooled), d.newLinked(t, pooled)
				if taken < 3 {
					held, err := named(other, taken, taken+1)[0].Take(t.Context(), forever)
					require.NoError(t, err)
					time.AfterFunc(9*trip, func() { _ = held.Unlock(context.Background()) })
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(after, cancel)
				h, err := NewMulti(named(c, 0, 3)).Take(ctx, forever)
				if err == nil {
					require.NoError(t, h.Unlock(t.Context()))
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				<-time.After(time.Minute)
				require.Empty(t, d.keys(t), "%v, %d", after, taken)
				require.Zero(t, c.Busy())
			})
		}
	}
}

// A group in whose members are both sides of a read-write lock, a red lock, and members that its owner has.
func TestAMultiLockOfMembersThatDependOnEachOther(t *testing.T) {
	far(t, func(t *testing.T, d *distant) {
		t.Helper()
		c := d.newLinked(t, pooled)
		reader, writer := new(client.Lock), new(client.Lock)
		reader.Init(c, wire.Read, "rw", "rw")
		writer.Init(c, wire.Write, "rw", "rw")
		all := append(named(c, 0, 3), reader, writer, NewRed(named(c, 3, 6), newTestQuorum), newLock(c, "spin"))
		g := NewMulti(all)
		require.NoError(t, g.Check("lock"))
		owner := client.WithOwner(t.Context())
		for range 2 { // re-enters
			require.LessOrEqual(t, trips(func() {
				_, err := g.Take(owner, client.Terms{Op: "lock"})
				require.NoError(t, err)
			}), 3.1, "the locks together, the reader behind the writer, the red lock")
		}
		for range 2 {
			require.NoError(t, g.Unlock(owner))
		}
		require.Empty(t, d.keys(t))
		h, err := NewMulti([]client.Member{all[0]}).Take(t.Context(), forever)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// While another call of the process waits for the first lock, it is unlocked last: the other call asks for the rest at once.
func TestAMultiLockHandsItsFirstLockOverLast(t *testing.T) {
	far(t, func(t *testing.T, d *distant) {
		t.Helper()
		d.lazy = true
		c := d.newLinked(t, pooled)
		g := NewMulti(named(c, 0, 5))
		h, err := g.Take(t.Context(), forever)
		require.NoError(t, err)
		const turns = 10
		var all []<-chan error
		for range turns {
			all = append(all, take(t.Context(), g, forever))
		}
		<-time.After(100 * time.Millisecond)
		d.took()
		require.NoError(t, h.Unlock(t.Context()))
		for _, got := range all {
			require.NoError(t, <-got)
		}
		_, scripts := d.took()
		require.Equal(t, 4+turns*(4+4)+1, scripts, "no question is refused")
	})
}
