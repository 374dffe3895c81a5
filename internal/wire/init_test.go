package wire_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestImportingCostsLittle bounds what every program that imports rlock pays when it starts: the scripts are put together then.
// The best of many starts counts, because the machine may stand still during some.
func TestImportingCostsLittle(t *testing.T) {
	t.Parallel()
	const most = 50 * time.Millisecond // once it was 205 ms, and 2.7 s with the race detector
	initialized := regexp.MustCompile(`(?m)^init github.com/go-rlock/rlock/internal/wire @.*, (\S+) ms clock`)
	var took time.Duration
	for range 20 {
		program := exec.Command(os.Args[0], "-test.run=^$")
		program.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		printed, err := program.CombinedOutput()
		require.NoError(t, err, string(printed))
		match := initialized.FindSubmatch(printed)
		require.NotNil(t, match, string(printed))
		took, err = time.ParseDuration(string(match[1]) + "ms")
		require.NoError(t, err)
		if took < most {
			return
		}
	}
	require.Less(t, took, most)
}
