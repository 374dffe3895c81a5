package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// measures reports whether this run is for figures.
func measures() bool { return os.Getenv("RLOCK_FIGURES") == "1" }

// TestFigureSideBySide measures Go and Java in turn, for docs/interop.md. Only the ratios within a round are comparable.
// Nothing else may run meanwhile.
func TestFigureSideBySide(t *testing.T) {
	if !measures() {
		t.Skip("needs RLOCK_FIGURES=1")
	}
	const rounds = 7
	v := versions()[0]
	server := redistest.Start(t)
	// These are Redisson's defaults; the other tests use fewer resources.
	inJava := newJVM(t, v).open(t, settings{More: map[string]any{
		"threads": 16, "nettyThreads": 32, "connectionMinimumIdleSize": 24, "connectionPoolSize": 64,
		"subscriptionConnectionPoolSize": 50,
	}}, server.Addr)
	inGo := startChild(t, "bench", goBench{Addr: server.Addr})
	t.Logf("redisson %s, redis-server %s", v, redisVersion(t, server))
	for _, kind := range []string{"lock", "fair", "semaphore", "plain semaphore"} {
		for _, threads := range []int{1, 2, 16, 128} {
			var pairs, handOffs, goPairs, goHandOffs []float64
			for round := range rounds + 1 {
				name := newName()
				setUp(t, server, kind, name)
				loop := bench{Kind: kind, Names: []string{name}, Threads: threads, Warmup: time.Second / 2, For: time.Second}
				if round == 0 {
					loop.Warmup = 4 * time.Second // for the JIT compiler
				}
				j, err := await(inJava.Bench(loop), aLongTime)
				require.NoError(t, err)
				text, err := json.Marshal(loop)
				require.NoError(t, err)
				inGo.say(string(text))
				var g benched
				require.NoError(t, json.Unmarshal([]byte(inGo.reply()), &g))
				if round == 0 {
					continue
				}
				require.Positive(t, j.perSecond(j.pairs()))
				pairs = append(pairs, g.perSecond(g.pairs())/j.perSecond(j.pairs()))
				goPairs = append(goPairs, g.perSecond(g.pairs()))
				if threads > 1 {
					handOffs = append(handOffs, g.perSecond(g.HandOffs)/max(j.perSecond(j.HandOffs), 1))
					goHandOffs = append(goHandOffs, g.perSecond(g.HandOffs))
				}
			}
			row := fmt.Sprintf("| %s | %d | %.1f (%.1f to %.1f) |", kind, threads, median(pairs), slices.Min(pairs), slices.Max(pairs))
			if threads > 1 {
				row += fmt.Sprintf(" %.1f (%.1f to %.1f) |", median(handOffs), slices.Min(handOffs), slices.Max(handOffs))
			} else {
				row += " |"
			}
			t.Logf("%s Go alone: %.0f pairs/s, %.0f hand-offs/s", row, median(goPairs), median(append(goHandOffs, 0)))
		}
	}
}

// setUp gives a semaphore eight permits.
func setUp(t *testing.T, server *redistest.Server, kind, name string) {
	t.Helper()
	client, err := rlock.New(server.Client(t))
	require.NoError(t, err)
	switch kind {
	case "semaphore":
		err = client.NewSemaphore(name).SetPermits(t.Context(), 8)
	case "plain semaphore":
		_, err = client.NewPlainSemaphore(name).TrySetPermits(t.Context(), 8)
	}
	require.NoError(t, err)
	require.NoError(t, client.Close())
}

func (b benched) pairs() (n int64) {
	for _, one := range b.Pairs {
		n += one
	}
	return n
}

func (b benched) perSecond(n int64) float64 { return float64(n) / b.Elapsed.Seconds() }

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func redisVersion(t *testing.T, server *redistest.Server) string {
	t.Helper()
	info, err := server.Client(t).InfoMap(t.Context(), "server").Result()
	require.NoError(t, err)
	return info["Server"]["redis_version"]
}
