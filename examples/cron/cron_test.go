package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

func TestMain(m *testing.M) {
	program.Run(main)
	os.Exit(m.Run())
}

// ran returns the seconds for which processes have run the job.
func ran(all ...*program.Process) (seconds []int) {
	for _, p := range all {
		for _, m := range regexp.MustCompile(`(?m)^run (\d+): .* sends the report$`).FindAllStringSubmatch(p.Out.String(), -1) {
			second, _ := strconv.Atoi(m[1])
			seconds = append(seconds, second)
		}
	}
	return seconds
}

// TestEachRunHappensOnce on two instances, and the other one goes on when one is killed.
func TestEachRunHappensOnce(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	killed, other := program.Start(t, addr), program.Start(t, addr)
	redistest.Eventually(t, "four runs", func() bool { return len(ran(killed, other)) >= 4 })
	killed.Kill()
	before := len(ran(other))
	redistest.Eventually(t, "the other one goes on", func() bool { return len(ran(other)) >= before+3 })
	other.Signal(syscall.SIGTERM)
	require.Zero(t, other.Code())
	seen := make(map[int]bool)
	for _, second := range ran(killed, other) {
		require.False(t, seen[second], "two runs for one second: %v, %v", ran(killed), ran(other))
		seen[second] = true
	}
}

// TestDemonstration runs three instances in one process.
func TestDemonstration(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	require.NoError(t, run(context.Background()))
}
