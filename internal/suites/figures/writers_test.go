package figures

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestFigureWriterPreference has twelve processes read with holds of 5 to 65 ms, and others write now and then, with the option and without.
func TestFigureWriterPreference(t *testing.T) {
	figure(t)
	for _, writers := range []int{1, 4} {
		for _, preferring := range []string{"", testkit.Preferring} {
			t.Run(fmt.Sprintf("%d writers%s", writers, preferring), func(t *testing.T) { readingAndWriting(t, writers, preferring) })
		}
	}
}

func readingAndWriting(t *testing.T, writers int, preferring string) {
	t.Helper()
	const readers, length = 12, 20 * time.Second
	server, name := redistest.Start(t), testkit.NewName()
	admin := server.Client(t)
	var processes []*testkit.Child
	for i := range readers + writers {
		what := "reads"
		if i >= readers {
			what = "writes"
		}
		processes = append(processes, testkit.StartChildFor(t, server.Addr, "turns", name, what+preferring))
	}
	for _, p := range processes {
		p.Next()
	}
	require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
	time.Sleep(length)
	calls := testkit.Stats(t, admin)
	for _, p := range processes {
		p.Next()
	}
	missed, turns := 0, 0
	spans := make(map[string][]time.Duration)
	for i, p := range processes {
		var did testkit.Turns
		require.NoError(t, json.Unmarshal([]byte(p.Answer()), &did))
		who := "readers"
		if i >= readers {
			who = "writers"
		}
		spans[who+" wait"] = append(spans[who+" wait"], did.Waits...)
		spans[who+" hold"] = append(spans[who+" hold"], did.Holds...)
		missed += did.Missed
		turns += len(did.Waits)
	}
	for _, what := range slices.Sorted(maps.Keys(spans)) {
		all := spans[what]
		slices.Sort(all)
		at := func(share float64) time.Duration { return all[int(share*float64(len(all)-1))].Round(time.Millisecond) }
		t.Logf("%s: %d turns, p50 %v, p99 %v, max %v", what, len(all), at(0.5), at(0.99), at(1))
	}
	t.Logf("%d gave up after 15 s; %.1f scripts a turn", missed, float64(calls["evalsha"])/float64(turns))
}
