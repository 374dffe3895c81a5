package promises

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinearizableAgreesWithAllOrders compares it with what trying all orders says, on histories that a seed draws.
func TestLinearizableAgreesWithAllOrders(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var possible, not int
	for range 20_000 {
		ops := drawn(r)
		h := history{ops: ops}
		want := someOrder(ops, world{}, nil)
		require.Equal(t, want, h.impossible() < 0, "%v", ops)
		if want {
			possible++
		} else {
			not++
		}
	}
	require.Greater(t, possible, 3_000)
	require.Greater(t, not, 3_000)
}

// drawn draws what a few owners did. Each takes a lock and gives it back, or has not given it back yet, or finds it taken.
func drawn(r *rand.Rand) (ops []Op) {
	moment := func(after Moment) Moment { return after + Moment(r.IntN(6)) }
	onlyWrites := r.IntN(2) == 0
	for owner := range 1 + r.IntN(4) {
		o := Op{What: Take, Owner: owner, Reads: !onlyWrites && r.IntN(2) == 0, From: moment(0)}
		o.To = moment(o.From)
		if r.IntN(3) == 0 {
			o.What = Find
		}
		ops = append(ops, o)
		if o.What == Take && r.IntN(4) > 0 {
			if o.What = Give; r.IntN(3) > 0 {
				o.From = o.To + 1
			}
			o.From = moment(o.From) // or the owner learns of both at the end
			o.To = moment(o.From)
			ops = append(ops, o)
		}
	}
	r.Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
	return ops
}

// someOrder reports whether the operations can follow in some order after those that are done.
func someOrder(ops []Op, w world, done []int) bool {
	if len(done) == len(ops) {
		return true
	}
	for i, o := range ops {
		early := func(other Op) bool { return other.To < o.From }
		if slices.Contains(done, i) || slices.ContainsFunc(left(ops, done), early) {
			continue
		}
		next := w
		side := next.side(o.Reads)
		switch {
		case o.What == Take && w.free(o.Reads):
			*side = with(*side, o.Owner)
		case o.What == Give && slices.Contains(*side, o.Owner):
			*side = without(*side, o.Owner)
		case o.What == Find && !w.free(o.Reads):
		default:
			continue
		}
		if someOrder(ops, next, append(slices.Clone(done), i)) {
			return true
		}
	}
	return false
}

func left(ops []Op, done []int) (all []Op) {
	for i, o := range ops {
		if !slices.Contains(done, i) {
			all = append(all, o)
		}
	}
	return all
}

// TestLinearizableIsFast has many readers of whom nobody knows when they give the lock back, and many who wait.
func TestLinearizableIsFast(t *testing.T) {
	t.Parallel()
	var ops []Op
	for i := range 500 {
		at := Moment(10 * i)
		ops = append(ops, Op{Take, i, true, at, at + 5}, Op{Give, i, true, at + 6, 1 << 62})
	}
	for i := range 100 {
		ops = append(ops, Op{Take, -1 - i, false, 0, Moment(30_000 + 10*i)}, Op{Give, -1 - i, false, Moment(30_001 + 10*i), Moment(30_005 + 10*i)})
	}
	h := history{ops: ops}
	require.Equal(t, -1, h.impossible())
}
