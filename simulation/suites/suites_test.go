package main

import (
	"flag"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var raceFlag = flag.Bool("race-suites", false, "use the race detector in TestVirtualTime")

// TestVirtualTime runs the tests of package probe.
func TestVirtualTime(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runtime of Go")
	}
	t.Chdir("..")
	o := &options{run: regexp.MustCompile(""), count: 1, jobs: 2, race: *raceFlag, timeout: time.Minute}
	s, err := o.build(filepath.Join(t.TempDir(), "probe"), "internal/suites/probe")
	require.NoError(t, err)
	require.Len(t, s.tests, 6)
	t.Run("a seed decides everything", func(t *testing.T) {
		traces := map[string]int{}
		for _, seed := range []uint64{7, 8, 9, 7, 8, 9, 7, 8, 9} {
			traces[trace(t, o, s, seed)]++
		}
		for trace, n := range traces {
			require.Equal(t, 3, n, "%v", trace)
		}
	})
	t.Run("subtests run in virtual time", func(t *testing.T) {
		r := o.play(s, "TestSubtests")
		require.False(t, r.failed, "%s", r.output)
		require.Contains(t, string(r.output), "--- PASS: TestSubtests/b (3600.00s)")
	})
	t.Run("a subtest that fails ends itself alone", func(t *testing.T) {
		r := o.play(s, "TestFails")
		require.True(t, r.failed)
		require.Contains(t, string(r.output), "as it should")
		require.Regexp(t, "(?s)the end of first.*second runs", string(r.output))
	})
	t.Run("a loop that waits for nothing is found", func(t *testing.T) {
		hasty := *o
		hasty.timeout = time.Second
		r := hasty.play(s, "TestSpins")
		require.True(t, r.failed)
		require.Contains(t, string(r.output), "probe_test.go", "where it is")
	})
	t.Run("a goroutine that is left is found", func(t *testing.T) {
		r := o.play(s, "TestLeaks")
		require.True(t, r.failed)
		require.Contains(t, string(r.output), "blocked goroutines remain")
	})
	t.Run("what needs a real server is known", func(t *testing.T) {
		only := *s
		only.tests = []string{"TestSubtests", "TestNeeds"}
		all := o.inVirtualTime(&only)
		require.Empty(t, all.failed)
		require.Equal(t, map[string]bool{"TestNeeds": true}, all.real)
		only.real = all.real
		require.Equal(t, "^(TestNeeds)$", only.realTests())
	})
}

// trace plays TestTraffic, and returns its last words.
func trace(t *testing.T, o *options, s *suite, seed uint64) string {
	t.Helper()
	seeded := *o
	seeded.seed = seed
	r := seeded.play(s, "TestTraffic")
	require.False(t, r.failed, "%s", r.output)
	found := regexp.MustCompile(`seed \d+: trace \w+`).FindString(string(r.output))
	require.NotEmpty(t, found)
	return found
}
