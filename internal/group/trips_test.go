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

// TestMultiLocksThatWaitForDifferentMembersGoOn has twelve groups want the same two locks: half of them wait for the one, half for the other, when
// both are released.
func TestMultiLocksThatWaitForDifferentMembersGoOn(t *testing.T) {
	far(t, func(t *testing.T, d *distant) {
		t.Helper()
		var clients []*client.Client
		for range 3 {
			clients = append(clients, d.newLinked(t, pooled))
		}
		locks := named(d.newLinked(t, pooled), 0, 2)
		const half = 6
		var holds []client.Held
		var wg sync.WaitGroup
		for _, last := range slices.Backward(locks) {
			h, err := last.Take(t.Context(), forever)
			require.NoError(t, err)
			holds = append(holds, h)
			for i := range half {
				wg.Go(func() {
					h, err := NewMulti(named(clients[i%len(clients)], 0, 2)).Take(t.Context(), forever)
					if err == nil {
						err = h.Unlock(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				})
				<-time.After(2 * trip)
			}
		}
		<-time.After(50 * trip)
		for _, h := range holds {
			require.NoError(t, h.Unlock(t.Context()))
		}
		took := trips(wg.Wait)
		require.Less(t, took, 2.0*half*20, "round trips")
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
					scripts := d.took()
					require.Equal(t, n, scripts, "%s, %d names: one script a name", what, n)
					unlocking := trips(func() { err = h.Unlock(t.Context()) })
					require.NoError(t, err)
					scripts = d.took()
					require.Equal(t, n, scripts, "%s, %d names: one script a name", what, n)
					most := 4.0 // in all; mostly 3, but goroutines that begin together may share two pipelines instead of one
					if what != "pool" || n > 10 {
						most += float64(n) / 2 // over few connections
					}
					require.LessOrEqual(t, locking+unlocking, most, "%s, %d names: round trips", what, n)
					require.Empty(t, d.keys(t))
				}
			})
		}
	}
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
				groups = append(groups, unordered(locks...))
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
			scripts := d.took()
			t.Logf("%+v: %v and %d scripts a turn", c, time.Since(begun)/(turns*4), scripts/(turns*4))
			require.Empty(t, d.keys(t))
			if c.opposite {
				require.Less(t, time.Since(begun), turns*4*200*trip)
			} else {
				require.Less(t, time.Since(begun), turns*4*10*trip)
				require.Less(t, scripts, turns*4*6*8, "those that wait do not try all locks each time")
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

// A group in whose members are both sides of a read-write lock, and members that its owner has.
func TestAMultiLockOfMembersThatDependOnEachOther(t *testing.T) {
	far(t, func(t *testing.T, d *distant) {
		t.Helper()
		c := d.newLinked(t, pooled)
		reader, writer := new(client.Lock), new(client.Lock)
		reader.Init(c, wire.Read, "rw", "rw")
		writer.Init(c, wire.Write, "rw", "rw")
		all := append(named(c, 0, 3), reader, writer, newLock(c, "spin"))
		g := NewMulti(all)
		require.NoError(t, g.err)
		owner := client.WithOwner(t.Context())
		var holds []client.Held
		for range 2 { // re-enters
			require.LessOrEqual(t, trips(func() {
				h, err := g.Take(owner, forever)
				require.NoError(t, err)
				holds = append(holds, h)
			}), 2.1, "the locks together, the reader behind the writer")
		}
		for _, h := range holds {
			require.NoError(t, h.Unlock(t.Context()))
		}
		require.Empty(t, d.keys(t))
		h, err := NewMulti([]client.Member{all[0]}).Take(t.Context(), forever)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	})
}
