package wire_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// handsOver hands the permits of a holder over to another one of its client. It returns what the reply says.
func (l *permitLine) handsOver(last, next string) (free int64, stand, listen bool) {
	l.Helper()
	r := l.run(l.handOverCall(last, next))
	require.GreaterOrEqual(l, r.N, int64(0), "%s to %s", last, next)
	return r.KeptWithin()
}

func (l *permitLine) keeps(last, next, why string) {
	l.Helper()
	before := l.free()
	require.EqualValues(l, -2, l.run(l.handOverCall(last, next)).N, why)
	require.Equal(l, before, l.free(), why)
}

func (l *permitLine) handOverCall(last, next string) wire.Call {
	l.Helper()
	from, _ := l.holder(last)
	to, names := l.holder(next)
	return to.HandOver(names, &from, time.Minute, true)
}

// free returns how many permits Redis says are free.
func (l *permitLine) free() string { return l.rdb.Get(l.Context(), l.name).Val() }

func TestPermitsAreHandedOver(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A2")
		for range 2 { // the second one is a repetition
			free, stand, listen := l.handsOver("A2", "A3")
			require.EqualValues(l, 1, free)
			require.False(l, stand)
			require.False(l, listen)
			require.Equal(l, "1", l.free())
		}
		from, names := l.holder("A2")
		require.Zero(l, l.run(from.Give(names, 0, 0, nil)).N, "it has none any more")
		require.Equal(l, "1", l.free())
		l.handsOver("A3", "A4")
		l.gives("A4")
		require.Equal(l, "2", l.free())
	})
}

func TestManyPermitsAreHandedOver(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.gets("A2x2")
		l.handsOver("A2x2", "A3x2")
		require.Equal(l, "0", l.free())
		l.gives("A3x2")
		require.Equal(l, "2", l.free())
	})
}

func TestPermitsThatAreNotHandedOver(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.keeps("A2", "A3", "it never had any")
		l.gets("A2", "A3")
		l.keeps("A2", "A3", "the next one has one of its own")
		l.gives("A3")
		gone, names := l.holder("A4")
		l.run(gone.Give(names, time.Minute, 0, nil))
		l.keeps("A2", "A4", "the next one has left")
		l.run(l.calls().AddPermits(1001, -2))
		l.keeps("A2", "A5", "there are fewer permits than are out")
		l.run(l.calls().AddPermits(1002, 1))
		l.handsOver("A2", "A5")
		l.rdb.Del(l.Context(), l.name)
		l.keeps("A5", "A6", "the semaphore is gone")
	})
}

// TestAHandOverMakesWayInTheLine: a permit may have been kept for the waiter that gets another one.
func TestAHandOverMakesWayInTheLine(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.listen("A")
		other := l.listen("B")
		l.gets("A2", "C3")
		l.refused("A4", "B5")
		l.gives("C3") // one is kept for A4
		l.waiting("A4", "B5")
		free, stand, _ := l.handsOver("A2", "A4")
		require.EqualValues(l, 1, free)
		require.True(l, stand)
		require.Equal(l, "8", (<-other.Channel()).Payload)
		l.waiting("B5")
		l.gets("B5")
		l.waiting()
	})
}

func TestAHandOverSaysWhoElseWaits(t *testing.T) {
	t.Parallel()
	onPermitLines(t, func(l *permitLine) {
		l.listen("A")
		l.listen("B")
		l.gets("A2x2")
		l.refused("A3")
		_, stand, listen := l.handsOver("A2x2", "A4x2")
		require.False(l, stand, "that is its own client")
		require.False(l, listen)
		l.refused("B5")
		_, stand, listen = l.handsOver("A4x2", "A6x2")
		require.True(l, stand)
		require.False(l, listen)
		l.subscribe(l.names("A").Base())
		_, stand, listen = l.handsOver("A6x2", "A7x2")
		require.True(l, stand)
		require.True(l, listen, "as Redisson does")
	})
}

// TestHandedOverPermitsCountOnce acquires, hands over and releases on a bad network. There are never more permits out than there are,
// and none is lost.
func TestHandedOverPermitsCountOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, kind := range []*wire.Kind{wire.Permit, wire.PlainPermit} {
		for seed := range uint64(30) {
			t.Run(fmt.Sprint(kind.Noun, " ", seed), func(t *testing.T) {
				t.Parallel()
				const total = 12
				names := wire.NewNames(kind, testkit.NewName(), clientID("a"))
				p := &permits{T: t, rdb: rdb, names: names, id: clientID("a"), calls: wire.NewSemaphore(names)}
				b := &badNetwork{permits: p, random: rand.New(rand.NewPCG(seed, 3))} //nolint:gosec // a test
				b.run(b.calls.SetUp(1, total, 0))
				name, _ := names.Keys[0].(string)
				number, out := int64(1), int64(0)
				next := func(n int64) *plainHold {
					number++
					made := wire.NewHolder(kind.Of(int(n)), names, b.id, number)
					return &plainHold{Holder: &made, permits: n}
				}
				var held []*plainHold
				takes := func(h *plainHold) {
					switch {
					case b.acquire(h):
						held, out = append(held, h), out+h.permits
					case h.doubt:
						b.release(h)
					}
				}
				for range 300 {
					takes(next(int64(1 + b.random.IntN(4))))
					value, err := rdb.Get(t.Context(), name).Int64()
					require.NoError(t, err)
					require.GreaterOrEqual(t, value, int64(0))
					require.LessOrEqual(t, out+value, int64(total), "no permit is free while it is out")
					for len(held) > 0 && b.random.IntN(3) > 0 {
						i := b.random.IntN(len(held))
						last := held[i]
						held, out = append(held[:i:i], held[i+1:]...), out-last.permits
						if last.doubt || b.random.IntN(2) == 0 { // one of its commands may still be executed
							b.release(last)
							continue
						}
						h := next(last.permits)
						r, replied := b.send(h.HandOver(names, last.Holder, time.Minute, false))
						if h.doubt = !replied; replied && r.N >= 0 {
							held, out = append(held, h), out+h.permits
							continue
						}
						switch b.random.IntN(3) {
						case 0:
							b.release(last)
							b.release(h)
						case 1:
							b.release(last)
							takes(h)
						default: // the release takes long
							if takes(h); len(b.late) > 0 {
								b.deliver()
							}
							b.release(last)
						}
					}
					for len(b.late) > 0 && b.random.IntN(3) > 0 {
						b.deliver()
					}
				}
				for _, h := range held {
					b.release(h)
				}
				for len(b.late) > 0 {
					b.deliver()
				}
				require.Equal(t, strconv.Itoa(total), rdb.Get(t.Context(), name).Val())
			})
		}
	}
}
