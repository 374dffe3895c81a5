//go:build unix

package scene

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostCPU is the most that a seed may take, in seconds. The usual is one.
const mostCPU = 120

// limitCPU ends this process, with the stacks of its goroutines, if it never ends.
func limitCPU(t *testing.T) {
	t.Helper()
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_CPU, &limit))
	limit.Cur = min(limit.Max, mostCPU)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_CPU, &limit))
}
