package wire_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImportingCostsLittle bounds what every program that imports rlock pays when it starts: all scripts are opened then. It
// counts what that allocates, which no other load of the machine changes.
func TestImportingCostsLittle(t *testing.T) {
	t.Parallel()
	program := exec.Command(os.Args[0], "-test.run=^$")
	program.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	printed, err := program.CombinedOutput()
	require.NoError(t, err, string(printed))
	match := regexp.MustCompile(`(?m)^init github.com/go-rlock/rlock/internal/wire @.*, (\d+) bytes, (\d+) allocs`).FindSubmatch(printed)
	require.NotNil(t, match, string(printed))
	for i, most := range []int{8 << 10, 150} { // once they were 7,800,632 and 26,390, in 205 ms
		n, err := strconv.Atoi(string(match[i+1]))
		require.NoError(t, err)
		require.LessOrEqual(t, n, most, string(match[0]))
	}
}
