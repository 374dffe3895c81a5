package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// onServers has the directories of the tests that run on real servers, and measures has those whose purpose is to measure. The tests of all
// other packages bound durations in bubbles only.
var (
	onServers = []string{
		"suites", "testkit/conform", "driver/drivertest", "../interop", "../cmd", "../examples", "../rlockrueidis", "../rlockvalkey", "../rlockotel",
		"../rlockcron",
	}
	measures = filepath.Join("suites", "figures")
)

// TestNoTestBoundsTheClockOfTheWall checks that a test on real servers does not fail because the machine stood still: see
// redistest.Stopwatch.
func TestNoTestBoundsTheClockOfTheWall(t *testing.T) {
	t.Parallel()
	bound := regexp.MustCompile(`\.Less(?:OrEqual)?f?\(\w+, time\.Since\(`)
	for _, dir := range onServers {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, measures) {
				return err
			}
			text, err := os.ReadFile(path)
			before := ""
			for line := range strings.Lines(string(text)) {
				if !strings.Contains(before, "if host.Virtual {") {
					require.NotRegexp(t, bound, line, path)
				}
				before = line
			}
			return err
		}))
	}
}
