package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestListOfAHundredThousandLocks has one that somebody waits for, and one whose lease is about to end. They are first if it is sorted
// so, and each is found by its name or a part of it.
func TestListOfAHundredThousandLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	for first := 0; first < 100_000; first += 5000 {
		_, err := rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for i := first; i < first+5000; i++ {
				pipe.HSet(t.Context(), fmt.Sprintf("many:%06d", i), fmt.Sprintf("71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:%d", i), 1)
				pipe.PExpire(t.Context(), fmt.Sprintf("many:%06d", i), time.Hour)
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.NoError(t, rdb.PExpire(t.Context(), "many:012345", 20*time.Minute).Err())
	rival := newClient(t, rdb)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rival.NewLock("many:077777").Lock(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	redistest.Eventually(t, "it waits", func() bool {
		info, err := rival.NewLock("many:077777").Inspect(t.Context())
		return err == nil && info.WaiterCount == 1
	})
	for args, want := range map[string]string{"--all --sort waiting": "many:077777", "--prefix many: --sort lease": "many:012345", "--all --sort name": "many:000000"} {
		code, out, errs := command(t, server.Addr, append([]string{"ls"}, strings.Fields(args)...)...)
		require.Zero(t, code, errs)
		lines := strings.Split(out, "\n")
		require.Equal(t, 100_002, len(lines), args)
		require.True(t, strings.HasPrefix(lines[1], want), "%s: %s", args, lines[1])
	}
	for args, want := range map[string]string{"--all --match many:099999 --json": "many:099999", "--prefix many: --match *99998 --json": "many:099998"} {
		code, out, errs := command(t, server.Addr, append([]string{"ls"}, strings.Fields(args)...)...)
		require.Zero(t, code, errs)
		var row struct{ Name string }
		require.NoError(t, json.Unmarshal([]byte(out), &row), out)
		require.Equal(t, want, row.Name)
	}
	code, _, errs := command(t, server.Addr, "ls", "--all", "--sort", "size")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "--sort is name, waiting or lease")
}
