package core_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// permits is a semaphore, seen from one client.
type permits struct {
	*testing.T
	rdb   redis.UniversalClient
	names *wire.Names
	id    string
	calls wire.Semaphore
}

func newPermits(t *testing.T, rdb redis.UniversalClient, name, client string) *permits {
	t.Helper()
	names := wire.NewNames(wire.Permit, name, clientID(client))
	return &permits{T: t, rdb: rdb, names: names, id: clientID(client), calls: wire.NewSemaphore(names)}
}

func (p *permits) holder(number int64, n int) *core.Holder {
	name, _ := p.names.Keys[0].(string)
	return core.NewHolder(p.id, name, number, n)
}

func clientID(client string) string { return "00000000-0000-4000-8000-00000000000" + client }

// soon is until when a call may run.
func soon() int64 { return time.Now().Add(30 * time.Second).UnixMicro() }

func (p *permits) run(c wire.Call) wire.Reply {
	p.Helper()
	c.Args.Publish = wire.PublishPlain
	r, err := testkit.RunCall(p.rdb, c)
	require.NoError(p, err)
	return r
}

// state returns the value, and how many permits are out.
func (p *permits) state() [2]int64 {
	p.Helper()
	name, _ := p.names.Keys[0].(string)
	leases, _ := p.names.Keys[1].(string)
	value, _ := strconv.ParseInt(p.rdb.Get(p.Context(), name).Val(), 10, 64)
	return [2]int64{value, p.rdb.ZCard(p.Context(), leases).Val()}
}

func (p *permits) reclaim(id string) {
	p.Helper()
	raw, err := hex.DecodeString(id)
	require.NoError(p, err)
	name, _ := p.names.Keys[0].(string)
	leases, _ := p.names.Keys[1].(string)
	if p.rdb.ZRem(p.Context(), leases, string(raw)).Val() == 1 {
		require.NoError(p, p.rdb.Incr(p.Context(), name).Err())
	}
}

// TestPermitIDs compares the ids that a script stores with those that a Hold shows.
func TestPermitIDs(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		p := newPermits(t, rdb, testkit.NewName(), "a")
		require.EqualValues(t, -1, p.run(p.calls.SetUp(1, 5000, 0)).N)
		for number, n := range map[int64]int{2: 1, 300: 2, 1<<48 - 1: 1000} {
			h := p.holder(number, n)
			require.Nil(t, p.run(h.Acquire("try", time.Minute, soon())).List)
			leases, _ := p.names.Keys[1].(string)
			var got []string
			for _, id := range rdb.ZRange(t.Context(), leases, 0, -1).Val() {
				require.Len(t, id, 16, "as Redisson has them")
				got = append(got, hex.EncodeToString([]byte(id)))
			}
			require.ElementsMatch(t, h.PermitIDs(), got)
			require.EqualValues(t, 1, p.run(h.Release()).N)
			require.Equal(t, [2]int64{5000, 0}, p.state())
		}
	})
}

// TestPermitsCountOnce runs the scripts of many holders in any order, twice, and late, while others take single permits back. Each
// permit is free or out all the time, and at the end all are free.
func TestPermitsCountOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			const total = 12
			p := newPermits(t, rdb, testkit.NewName(), "a")
			p.run(p.calls.SetUp(1, total, 0))
			var held, late []*core.Holder
			for number := int64(2); number < 400; number++ {
				switch h := p.holder(number, 1+random.IntN(4)); random.IntN(8) {
				case 0: // it gives up before its acquire arrives
					p.run(h.Release())
					late = append(late, h)
				default:
					for range 1 + random.IntN(2) {
						if p.run(h.Acquire("try", time.Minute, soon())).List == nil {
							held = append(held, h)
						}
					}
				}
				if random.IntN(4) == 0 && len(held) > 0 {
					h := held[random.IntN(len(held))]
					ids := h.PermitIDs()
					p.reclaim(ids[random.IntN(len(ids))])
				}
				if random.IntN(3) == 0 && len(held) > 0 {
					p.run(held[random.IntN(len(held))].Renew(time.Hour))
				}
				for len(held) > 0 && random.IntN(2) == 0 {
					i := random.IntN(len(held))
					h := held[i]
					held = append(held[:i:i], held[i+1:]...)
					p.run(h.Release())
					late = append(late, h)
				}
				if len(late) > 0 { // of these, no command may take or give anything any more
					h := late[random.IntN(len(late))]
					before := p.state()
					require.EqualValues(t, -2, p.run(h.Acquire("try", time.Minute, 1)).N, "it is late")
					require.Zero(t, p.run(h.Release()).N)
					require.Equal(t, before, p.state())
				}
				now := p.state()
				require.EqualValues(t, total, now[0]+now[1], "permits are free or out")
				require.GreaterOrEqual(t, now[0], int64(0))
			}
			for _, h := range held {
				p.run(h.Release())
			}
			require.Equal(t, [2]int64{total, 0}, p.state())
		})
	}
}
