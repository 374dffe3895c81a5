package wire_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// badNetwork executes some commands without a reply, and some much later.
type badNetwork struct {
	*permits
	random *rand.Rand
	late   []wire.Call
}

// send sends a call. Without a reply, it may have been executed, or will be.
func (b *badNetwork) send(c wire.Call) (r wire.Reply, replied bool) {
	b.Helper()
	switch b.random.IntN(5) {
	case 0:
		b.late = append(b.late, c)
		return r, false
	case 1:
		b.run(c)
		return r, false
	}
	return b.run(c), true
}

// deliver executes a late call.
func (b *badNetwork) deliver() {
	b.Helper()
	i := b.random.IntN(len(b.late))
	c := b.late[i]
	b.late = append(b.late[:i:i], b.late[i+1:]...)
	b.run(c)
}

// plainHold is a holder as its client knows it.
type plainHold struct {
	*wire.Holder
	permits int64
	doubt   bool
}

// acquire tries a few times, and reports whether the client knows that it has the permits.
func (b *badNetwork) acquire(h *plainHold) bool {
	b.Helper()
	for range 1 + b.random.IntN(3) {
		r, replied := b.send(h.Acquire(b.names, time.Minute, nil))
		h.doubt = h.doubt || !replied
		if replied {
			return r.N >= 0
		}
	}
	return false
}

// release goes on until there is a reply.
func (b *badNetwork) release(h *plainHold) {
	b.Helper()
	for {
		memory := time.Duration(0)
		if h.doubt {
			memory = 2 * time.Minute
		}
		if _, replied := b.send(h.Release(b.names, memory)); replied {
			return
		}
		h.doubt = true
		for len(b.late) > 0 && b.random.IntN(2) == 0 {
			b.deliver()
		}
	}
}

// TestPlainPermitsCountOnce acquires and releases on a bad network, with Redisson's commands in between. There are never more permits
// out than there are, and none is lost.
func TestPlainPermitsCountOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			const total = 12
			b := &badNetwork{permits: newPlainPermits(t, rdb), random: rand.New(rand.NewPCG(seed, 2))} //nolint:gosec // a test
			b.run(b.calls.SetUp(1, total, 0))
			var held []*plainHold
			out, java := int64(0), int64(0)
			name, _ := b.names.Keys[0].(string)
			for number := int64(2); number < 400; number++ {
				n := 1 + b.random.IntN(4)
				made := wire.NewHolder(wire.PlainPermit.Of(n), b.names, b.id, number)
				h := &plainHold{Holder: &made, permits: int64(n)}
				switch {
				case b.acquire(h):
					held = append(held, h)
					out += h.permits
				case h.doubt:
					b.release(h)
				}
				value, err := rdb.Get(t.Context(), name).Int64()
				require.NoError(t, err)
				require.GreaterOrEqual(t, value, int64(0))
				require.LessOrEqual(t, out+java+value, int64(total), "no permit is free while it is out")
				switch b.random.IntN(6) {
				case 0:
					if value > 0 {
						java++
						rdb.DecrBy(t.Context(), name, 1)
					}
				case 1, 2:
					if java > 0 {
						java--
						rdb.IncrBy(t.Context(), name, 1)
					}
				}
				for len(held) > 0 && b.random.IntN(2) == 0 {
					i := b.random.IntN(len(held))
					out -= held[i].permits
					b.release(held[i])
					held = append(held[:i:i], held[i+1:]...)
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
			require.Equal(t, strconv.FormatInt(total-java, 10), rdb.Get(t.Context(), name).Val())
		})
	}
}

func newPlainPermits(t *testing.T, rdb redis.UniversalClient) *permits {
	t.Helper()
	names := wire.NewNames(wire.PlainPermit, testkit.NewName(), clientID("a"))
	return &permits{T: t, rdb: rdb, names: names, id: clientID("a"), calls: wire.NewSemaphore(names)}
}

// TestReceiptsOfPlainPermits looks at what Redis has of holds: receipts, which live on while renewed, and are gone when released.
func TestReceiptsOfPlainPermits(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		p := newPlainPermits(t, rdb)
		name, _ := p.names.Keys[0].(string)
		receipts, _ := p.names.Keys[2].(string)
		p.run(p.calls.SetUp(1, 5, 0))
		rdb.Del(ctx, receipts)
		h := wire.NewHolder(wire.PlainPermit.Of(2), p.names, p.id, 2)
		require.EqualValues(t, 3, p.run(h.Acquire(p.names, time.Minute, nil)).N)
		require.EqualValues(t, 3, p.run(h.Acquire(p.names, time.Minute, nil)).N, "the same again")
		require.Equal(t, map[string]string{"2": "922337203685477.2"}, rdb.HGetAll(ctx, receipts).Val())
		require.LessOrEqual(t, rdb.PTTL(ctx, receipts).Val(), time.Minute)
		renewal := wire.NewRenewal(wire.PlainPermit.Renew, time.Hour, 2)
		renewal.Renew(&h, name)
		renewal.Renew(&h, name)
		require.Equal(t, []int64{1, 1}, p.run(renewal).List)
		require.Greater(t, rdb.PTTL(ctx, receipts).Val(), 59*time.Minute)
		require.Equal(t, int64(1), rdb.Exists(ctx, receipts).Val())
		require.EqualValues(t, 1, p.run(h.Release(p.names, 0)).N)
		require.Equal(t, "5", rdb.Get(ctx, name).Val())
		require.Zero(t, rdb.Exists(ctx, receipts).Val())
		require.EqualValues(t, 0, p.run(h.Release(p.names, time.Minute)).N)
		require.Equal(t, "5", rdb.Get(ctx, name).Val(), "a repetition finds no receipt")
		require.EqualValues(t, -1, p.run(h.Acquire(p.names, time.Minute, nil)).N, "and leaves a tombstone")
		require.EqualValues(t, 0, p.run(h.Release(p.names, 0)).N)
		require.Equal(t, "5", rdb.Get(ctx, name).Val(), "a first release that is late finds the tombstone")
	})
}

// TestUnknownReceipts asks for the receipts of permits that their client does not know, among those of its holds, and tombstones.
func TestUnknownReceipts(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		p := newPlainPermits(t, rdb)
		unknown := func(alive ...int64) map[int64]int64 {
			list := p.run(p.calls.Receipts(alive, 1)).List
			require.Len(t, list, 32)
			found := make(map[int64]int64)
			for i := 0; i < len(list); i += 2 {
				if list[i] != 0 {
					found[list[i]] = list[i+1]
				}
			}
			return found
		}
		require.Empty(t, unknown(1, 2, 3), "there are no receipts")
		p.run(p.calls.SetUp(1, 4000, 0))
		var all []wire.Holder
		for number, n := range map[int64]int{2: 1, 3: 7, 31: 1, 4: 1} {
			h := wire.NewHolder(wire.PlainPermit.Of(n), p.names, p.id, number)
			p.run(h.Acquire(p.names, time.Minute, nil))
			if number == 4 {
				p.run(h.Release(p.names, time.Minute))
			}
			all = append(all, h)
		}
		require.Equal(t, map[int64]int64{2: 1, 3: 7, 31: 1}, unknown())
		require.Equal(t, map[int64]int64{31: 1}, unknown(3, 2))
		require.Equal(t, map[int64]int64{2: 1}, unknown(31, 3, 4))
		require.Empty(t, unknown(2, 3, 31))
		for _, h := range all {
			p.run(h.Release(p.names, 0))
		}
		require.Empty(t, unknown())
	})
}

// TestUnknownReceiptsAmongMany has so many receipts that one call does not look at all of them.
func TestUnknownReceiptsAmongMany(t *testing.T) {
	t.Parallel()
	p := newPlainPermits(t, redistest.Start(t).Client(t))
	p.run(p.calls.SetUp(1, 4000, 0))
	for number := range int64(1500) {
		h := wire.NewHolder(wire.PlainPermit, p.names, p.id, 100+number)
		p.run(h.Acquire(p.names, time.Minute, nil))
	}
	seen := make(map[int64]bool)
	for place := range int64(20) {
		for i, number := range p.run(p.calls.Receipts(nil, place)).List {
			if i%2 == 0 && number != 0 {
				seen[number] = true
			}
		}
	}
	require.Greater(t, len(seen), 32, "it does not look at the same ones each time")
}
