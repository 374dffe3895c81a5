package wire_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestRandomLinesOfPermits has clients do anything in any order. Permits are free or out, nobody gets any before one that came before
// it and was reached, and at the end everybody gets what it waits for.
func TestRandomLinesOfPermits(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for seed := range uint64(20) {
		for _, kind := range []*wire.Kind{wire.Permit, wire.PlainPermit} {
			t.Run(fmt.Sprint(kind.Noun, " ", seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
				l := &permitLine{line{T: t, rdb: rdb, name: testkit.NewName()}, kind}
				const total, clients = 5, "ABCDEF"
				l.run(l.calls().SetUp(1000, total, 0))
				for _, client := range clients {
					l.listen(string(client))
				}
				var held, waiting []string // in the order of the line
				free := total
				size := func(who string) int {
					_, many, _ := strings.Cut(who, "x")
					n, _ := strconv.Atoi(many)
					return n
				}
				fits := func(before []string, who string) bool {
					left := free
					for _, other := range before {
						if size(other) <= left {
							left -= size(other)
						} else if !kind.Lasting {
							return false
						}
					}
					return size(who) <= left
				}
				for number := range 300 {
					switch random.IntN(5) {
					case 0, 1: // a client comes, unless it waits
						client := clients[random.IntN(len(clients))]
						who := fmt.Sprintf("%c%dx%d", client, number+2, 1+random.IntN(3))
						if slices.ContainsFunc(waiting, func(other string) bool { return other[0] == client }) {
							break
						}
						r := l.stand(who)
						require.Equal(t, fits(waiting, who), r.N >= 0, "%s is last", who)
						if r.N >= 0 {
							held, free = append(held, who), free-size(who)
						} else {
							waiting = append(waiting, who)
						}
					case 2: // one of the line asks
						if len(waiting) == 0 {
							break
						}
						i := random.IntN(len(waiting))
						who := waiting[i]
						r := l.stand(who)
						require.Equal(t, fits(waiting[:i], who), r.N >= 0, "%s has a permit when all before it have theirs", who)
						if r.N >= 0 {
							waiting = slices.Delete(waiting, i, i+1)
							held, free = append(held, who), free-size(who)
						}
					case 3:
						if len(held) > 0 {
							i := random.IntN(len(held))
							l.gives(held[i])
							free += size(held[i])
							held = slices.Delete(held, i, i+1)
						}
					case 4:
						if i := len(waiting) - 1; i >= 0 && random.IntN(3) == 0 {
							i = random.IntN(i + 1)
							l.leaves(waiting[i])
							waiting = slices.Delete(waiting, i, i+1)
						}
					}
					got, err := rdb.Get(t.Context(), l.name).Int()
					require.NoError(t, err)
					require.Equal(t, free, got)
					l.waiting(waiting...)
				}
			})
		}
	}
}
