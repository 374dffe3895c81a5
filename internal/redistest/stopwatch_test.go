package redistest

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStopwatch has this process stopped for a second.
func TestStopwatch(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	start, passed := time.Now(), Stopwatch(t)
	Eventually(t, "time passes", func() bool { return passed() >= 100*time.Millisecond })
	require.NoError(t, exec.CommandContext(t.Context(), "sh", "-c", "kill -STOP $PPID; sleep 1; kill -CONT $PPID").Run())
	require.LessOrEqual(t, passed(), time.Since(start)-900*time.Millisecond)
}
