package main

import (
	"cmp"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
	"github.com/go-rlock/rlock/simulation/internal/overlay"
	"github.com/go-rlock/rlock/simulation/internal/scene"
)

var runsFlag = flag.Int("runs", 100, "how many runs TestASeedDecidesEverything makes altogether")

// The scenes of these tests are short.
var short = scene.Smaller{Until: 2 * time.Minute}

// features are what makes a scene another kind of scene.
func features(seed uint64) (all []string) {
	s := scene.Swarm(seed)
	for _, l := range s.Locks {
		all = append(all, l.Kind)
	}
	for _, part := range s.Parts() {
		if !strings.Contains(part, "/") {
			all = append(all, part)
		}
	}
	if s.Beat > 0 {
		all = append(all, "beat")
	}
	if s.Topology != "" {
		all = append(all, s.Topology)
	}
	if s.Unsafe && s.Topology != "" {
		all = append(all, s.Topology+" forgets")
	}
	if s.Faults.Pool > 0 {
		all = append(all, "crowd")
	}
	return append(all, strconv.Itoa(len(s.Options))+" options")
}

// everyKind returns seeds that have every kind of scene together.
func everyKind() (seeds []uint64) {
	missing := make(map[string]bool)
	for seed := range uint64(5000) {
		for _, f := range features(seed + 1) {
			missing[f] = true
		}
	}
	for len(missing) > 0 {
		best, most := uint64(0), 0
		for seed := uint64(1); seed <= 5000; seed++ {
			n := 0
			for _, f := range features(seed) {
				if missing[f] {
					n++
				}
			}
			if n > most {
				best, most = seed, n
			}
		}
		for _, f := range features(best) {
			delete(missing, f)
		}
		seeds = append(seeds, best)
	}
	return seeds
}

// TestASeedDecidesEverything plays seeds again and again, each time in a fresh process. If a goroutine, a random number, a clock or the order
// of a map leaks in from outside, the traces differ: see TestLeaksAreFound.
func TestASeedDecidesEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runtime of Go")
	}
	b, err := build(t.TempDir(), nil)
	require.NoError(t, err)
	seeds := everyKind()
	first := make(map[uint64]scene.Result)
	for i := range *runsFlag {
		seed := seeds[i%len(seeds)]
		more := short.Args()
		if i/len(seeds)%2 == 1 {
			more = append(more, "-log") // what writes the log changes nothing
		}
		cmd, file := b.command(seed, more...)
		out, err := cmd.CombinedOutput()
		res := result(seed, file, err, out)
		require.True(t, res.Exact, "the overlay of the runtime is missing: see TestEveryEditFits")
		if i < len(seeds) {
			require.Positive(t, res.Commands, res.Scene)
			first[seed] = res
		}
		require.Equal(t, first[seed], res, "run %d of seed %d", i/len(seeds)+1, seed)
	}
	t.Logf("%d runs of the seeds %v", *runsFlag, seeds)
}

// TestProcessesStop runs the test of stopped processes in the changed runtime.
func TestProcessesStop(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runtime of Go")
	}
	b, err := build(t.TempDir(), nil)
	require.NoError(t, err)
	cmd := exec.Command(b.path, "-test.run", "^TestAStoppedProcessStandsStill$", "-test.v")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestAStoppedProcessStandsStill")
}

// leaks are what a run must not depend on. They are planted where a worker wants something.
const leaks = `package scene

import (
	crand "crypto/rand"
	"os"
	"sync/atomic"
	"time"
)

var (
	began      = time.Now() // before there is a bubble, so it is the real time
	counter    atomic.Int64
	fromTheMap atomic.Int64
)

func init() {
	go func() { // not in the bubble
		m := make(map[int64]bool)
		for i := range int64(1000) {
			m[i] = true
		}
		for {
			counter.Add(1)
			for i := range m {
				fromTheMap.Store(i)
				break
			}
			time.Sleep(time.Microsecond)
		}
	}()
}

func leak() time.Duration {
	switch os.Getenv("LEAK") {
	case "goroutine":
		return time.Duration(counter.Load())
	case "random":
		var b [2]byte
		_, _ = crand.Read(b[:])
		return time.Duration(b[0])<<8 + time.Duration(b[1])
	case "clock":
		return time.Duration(began.UnixNano() % 1e6)
	case "map":
		return time.Duration(fromTheMap.Load())
	}
	return 0
}
`

// TestLeaksAreFound plants what TestASeedDecidesEverything looks for.
func TestLeaksAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runtime of Go")
	}
	dir, err := filepath.Abs("internal/scene")
	require.NoError(t, err)
	check := filepath.Join(dir, "check.go")
	raw, err := os.ReadFile(check)
	require.NoError(t, err)
	const asks = "func (w *worker) asks(p plan) *attempt {\n"
	require.Equal(t, 1, strings.Count(string(raw), asks), "where a worker wants something")
	b, err := build(t.TempDir(), map[string]string{
		check: strings.Replace(string(raw), asks, asks+"	time.Sleep(leak())\n", 1), filepath.Join(dir, "leaks.go"): leaks,
	})
	require.NoError(t, err)
	for _, leak := range []string{"none", "goroutine", "random", "clock", "map"} {
		t.Setenv("LEAK", leak)
		hashes := make(map[uint64]bool)
		for n := range 200 { // in most runs, the goroutine may have its turns at the same moments
			var cpu time.Duration
			res := b.play(1, &scene.Smaller{Until: 20 * time.Second}, &cpu)
			require.NotZero(t, res.Hash, res.Broken)
			if hashes[res.Hash] = true; len(hashes) > 1 || leak == "none" && n == 11 {
				break
			}
		}
		if leak == "none" {
			require.Len(t, hashes, 1, "the plants alone change nothing")
		} else {
			require.Len(t, hashes, 2, "the %s leaks, and nobody notices", leak)
		}
	}
}

// TestAFailureIsShrunk plants a bug, finds it, and looks for a smaller scene in which the same promise breaks.
func TestAFailureIsShrunk(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runtime of Go")
	}
	all := allMutants()
	at := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == "M19" }) // readers ignore a writer
	require.GreaterOrEqual(t, at, 0)
	b, err := buildAlone(t.TempDir(), all[at])
	require.NoError(t, err)
	var cpu time.Duration
	for seed := uint64(1); ; seed++ {
		s := scene.Swarm(seed)
		if len(s.Parts()) < 4 || s.Processes*s.Workers < 4 || !slices.ContainsFunc(s.Locks, func(l scene.Lock) bool { return l.Kind == "rw" }) {
			continue
		}
		res := b.play(seed, &scene.Smaller{}, &cpu)
		what, _ := promise(res)
		if what == "" {
			require.Less(t, cpu, 5*time.Minute, "no seed finds the bug")
			continue
		}
		least, spent := b.smallest(res, scene.Smaller{}, 20*time.Second)
		less, _, err := least.Of(s, seed)
		require.NoError(t, err)
		t.Logf("seed %d after %v, then %v: %v", seed, cpu, spent, &least)
		require.Less(t, len(less.Parts())+less.Processes*less.Workers, len(s.Parts())+s.Processes*s.Workers)
		require.Less(t, less.Duration, s.Duration)

		again := b.play(seed, &least, &cpu)
		got, _ := promise(again)
		require.Equal(t, what, got, "the smaller scene breaks the same promise")
		lines := strings.Split(strings.TrimSpace(b.story(seed, &least)), "\n")
		require.LessOrEqual(t, len(lines), storyLines)
		require.Greater(t, len(lines), 3)
		require.Contains(t, lines[len(lines)-1], "BROKEN: "+again.Broken[0])
		return
	}
}

// TestACommandMoreIsFound plants a bug that costs one command more of each hand-off, and finds it.
func TestACommandMoreIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runtime of Go")
	}
	b, err := buildAlone(t.TempDir(), mutants.Mutant{Name: "a command more", Edits: []mutants.Edit{{
		File: "internal/table/message.go",
		Old:  "g.term.RenewAt = p.sent.Add(min(firstRenewal, p.lease/3))",
		New:  "g.term.RenewAt = p.sent",
	}}})
	require.NoError(t, err)
	var cpu time.Duration
	for seed := uint64(1); cpu < time.Minute; seed++ {
		res := b.play(seed, &short, &cpu)
		if len(res.Broken) > 0 {
			require.Contains(t, res.Broken[0], "commands: ", "seed %d", seed)
			t.Logf("seed %d after %v: %s", seed, cpu, res.Broken[0])
			return
		}
	}
	require.Fail(t, "nobody notices")
}

// TestWithoutTheRuntime is about a version of Go that the edits do not fit: the simulation runs nevertheless, and says once what to change.
func TestWithoutTheRuntime(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the scenes")
	}
	installed, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	next := t.TempDir()
	from, to := filepath.Join(strings.TrimSpace(string(installed)), "src", "runtime"), filepath.Join(next, "src", "runtime")
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	file := filepath.Join(to, "select.go")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(raw), "cheaprandn(", "cheapRandomN(")), 0o600))

	var said strings.Builder
	w := &builder{to: &said, overlay: func(dir string) (overlay.File, error) {
		t.Setenv("GOROOT", next)
		defer t.Setenv("GOROOT", strings.TrimSpace(string(installed)))
		return overlay.Write(dir)
	}}
	for range 2 {
		b, err := w.build(t.TempDir(), nil)
		require.NoError(t, err)
		var cpu time.Duration
		res := b.play(1, &short, &cpu)
		require.False(t, res.Exact)
		require.Positive(t, res.Got)
		require.Empty(t, res.Broken)
	}
	require.Equal(t, 1, strings.Count(said.String(), "\n"), "it says so once")
	require.Contains(t, said.String(), "the edit \"the bubble orders the cases of a select\" of runtime/select.go fits 0 times instead of once; change it in simulation/internal/overlay")
}

// TestMutantsFit plants each bug. Nearly all share one build.
func TestMutantsFit(t *testing.T) {
	all := allMutants()
	names := make(map[string]bool)
	for _, m := range all {
		require.False(t, names[m.Name], m.Name)
		names[m.Name] = true
		require.NotEmpty(t, m.What, m.Name)
		require.NotEmpty(t, m.Edits, m.Name)
	}
	for name := range elsewhere {
		require.True(t, names[name], name)
		require.Empty(t, rare[name], name)
	}
	for name := range rare {
		require.True(t, names[name], name)
	}
	page, err := os.ReadFile("../docs/mutants.md")
	require.NoError(t, err)
	_, of := readRows(string(page))
	for _, m := range all {
		r, why := of[m.Name], cmp.Or(elsewhere[m.Name], rare[m.Name])
		require.Equal(t, cell(m.What), r[columnWhat], "make sim MUTANT=%q PAGE=docs/mutants.md writes its row", m.Name)
		if strings.HasPrefix(r[columnFound], "not ") {
			require.Contains(t, r[columnPromise], cell(why), "the reason of %s", m.Name)
			require.Contains(t, r[columnPromise], m.By, "what finds %s", m.Name)
		}
	}
	_, rest, err := mutants.Schemata("..", all)
	require.NoError(t, err)
	require.Less(t, len(rest), 10)
}
