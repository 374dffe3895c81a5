package interop_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// soakWatchdog is short, because Redisson before 3.28.0 may miss a release and then waits for the whole lease.
const soakWatchdog = 3 * time.Second

// TestSoak lets four threads of a JVM and four goroutines in each of two Go processes add to one number in Redis. Only the
// lock protects the number. The duration is RLOCK_SOAK. The test runs alone, because others would take its processor.
func TestSoak(t *testing.T) {
	text := os.Getenv("RLOCK_SOAK")
	if text == "" {
		t.Skip("needs RLOCK_SOAK, see make interop")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "RLOCK_SOAK")
	for _, v := range versions() {
		for _, c := range []struct {
			kind             string
			threads, readers int
		}{{"lock", 4, 0}, {"fair", 4, 0}, {"write", 2, 2}} {
			t.Run("redisson "+string(v)+"/"+c.kind, func(t *testing.T) {
				soak(t, v, count{Kind: c.kind, Threads: c.threads, Readers: c.readers, For: length})
			})
		}
	}
}

func soak(t *testing.T, v version, loop count) {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(t)
	loop.Names, loop.Counter = []string{newName()}, newName()
	var children []*child
	for range 2 {
		c := startChild(t, "count", goCount{server.Addr, loop})
		require.Equal(t, "ready", c.reply())
		children = append(children, c)
	}
	inJava := sharedJVM(t, v).open(t, settings{Watchdog: soakWatchdog}, server.Addr)
	counting := inJava.Count(loop)
	for _, c := range children {
		c.say("go")
	}
	java, err := await(counting, loop.For+aLongTime)
	require.NoError(t, err)
	total := java.sum()
	for i, c := range children {
		var done goCounted
		require.NoError(t, json.Unmarshal([]byte(c.reply()), &done))
		total += done.sum()
		t.Logf("Go process %d: %d increments, %d reads; longest wait %v", i+1, done.sum(), done.Reads, done.Longest)
		require.Positive(t, done.sum())
	}
	t.Logf("Java: %d increments, per thread %v, %d reads", java.sum(), java.Increments, java.Reads)
	require.Greater(t, java.sum(), total/20, "Java is not starved")
	got, err := number(t.Context(), rdb, loop.Counter)
	require.NoError(t, err)
	require.Equal(t, total, got, "no update is lost")
	t.Logf("%d increments in total, none lost", total)
	require.Empty(t, holders(t, rdb, loop.Names[0]))
}
