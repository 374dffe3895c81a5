package figures

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/entries"
)

// The most functions of rlock that a Lock calls which finds the lock free, and of how many packages. A commit may only lower them.
const (
	mostCalls    = 120
	mostPackages = 14
)

// countEntries is the variable that has TestEntriesOfAFreeLock count. Only the build that TestCallsOfAFreeLock makes can.
const countEntries = "RLOCK_ENTRIES"

// TestCallsOfAFreeLock counts the calls of functions of rlock, in a build in which each function reports its entry. With -v, it prints them.
func TestCallsOfAFreeLock(t *testing.T) {
	t.Parallel()
	packages, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}`, "../../..").Output()
	require.NoError(t, err)
	top, err := filepath.Abs("../../..")
	require.NoError(t, err)
	var dirs []string
	for dir := range strings.FieldsSeq(string(packages)) {
		if rest, ok := strings.CutPrefix(dir, top); ok {
			dirs = append(dirs, "."+rest)
		}
	}
	overlay, err := overlayEntries(t.TempDir(), top, dirs)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-run", "^TestEntriesOfAFreeLock$", "-v", ".")
	cmd.Env = append(os.Environ(), countEntries+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	found := regexp.MustCompile(`(?m)(\d+) calls of (\d+) functions in (\d+) packages$`).FindStringSubmatch(string(out))
	require.NotNil(t, found, "%s", out)
	t.Logf("%s", out)
	calls, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	in, err := strconv.Atoi(found[3])
	require.NoError(t, err)
	require.LessOrEqual(t, calls, mostCalls)
	require.LessOrEqual(t, in, mostPackages)
}

// TestEntriesOfAFreeLock is the part of [TestCallsOfAFreeLock] that runs in the build that reports entries.
func TestEntriesOfAFreeLock(t *testing.T) { // not parallel: it counts what the process does
	if os.Getenv(countEntries) == "" {
		t.Skip("TestCallsOfAFreeLock runs it")
	}
	_, client := testkit.NewFakeServer(t)
	lock := client.NewLock(testkit.NewName())
	var least map[string]int
	sum := func(counts map[string]int) (n int) {
		for _, c := range counts {
			n += c
		}
		return n
	}
	for range 20 { // the first ones make what is kept, and the watchdog may come between
		counts := entries.During(func() { require.NoError(t, lock.Lock(context.Background())) })
		require.NoError(t, lock.Unlock(t.Context()))
		if least == nil || sum(counts) < sum(least) {
			least = counts
		}
	}
	var lines []string
	packages := make(map[string]bool)
	for function, n := range least {
		pkg, _, _ := strings.Cut(function, " ")
		packages[pkg] = true
		lines = append(lines, fmt.Sprintf("%4d %s", n, function))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[4:], b[4:]) })
	fmt.Printf("%s\n%d calls of %d functions in %d packages\n", strings.Join(lines, "\n"), sum(least), len(least), len(packages))
}
