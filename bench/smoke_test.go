package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// childEnv is the environment variable that makes the test binary a child of the lab.
const childEnv = "RLOCK_BENCH_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := child(context.Background(), os.Args[2], os.Stdout); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
}

func testLab(t *testing.T) *lab {
	t.Helper()
	l, err := newLab(t.Context(), t)
	if err != nil {
		t.Fatal(err)
	}
	l.env = []string{childEnv + "=1"}
	return l
}

func TestEveryLibraryRunsEveryScenario(t *testing.T) {
	l := testLab(t)
	p := plan{scale: 0.1, progress: &bytes.Buffer{}}
	for _, sc := range scenarios() {
		sc = sc.inRounds(1)
		if sc.id == "S9" {
			sc.sizes = sc.sizes[1:] // one client is no fleet
		}
		sc.sizes = sc.sizes[:1]
		if c := &sc.sizes[0].cell; sc.whole { // its clients need time to get going, in particular on a busy machine
			c.Warmup, c.Measure = 5*c.Warmup, 5*c.Measure
		}
		if c := &sc.sizes[0].cell; c.Period > 0 { // the figures of held locks and of waiters say nothing here
			c.Locks, c.Period, c.Warmup, c.Measure = 100, 0, time.Second, time.Second
		}
		p.scenarios = append(p.scenarios, sc)
	}
	results, err := l.run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if slices.ContainsFunc(entrants(), func(e entrant) bool { return !e.peer && stalled(results[i], e) }) {
			// This machine may have stood still instead, for so short a time.
			p.scenarios = []scenario{results[i].scenario}
			again, err := l.run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			results[i] = again[0]
		}
	}
	requireAllRan(t, results)
	dir := t.TempDir()
	if err := l.writeReport(t.Context(), dir, "-test", results); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		for _, c := range charts(r) {
			if _, err := os.Stat(filepath.Join(dir, "benchmarks", c.file)); err != nil {
				t.Error(err)
			}
		}
		if !strings.Contains(string(text), "\n## "+r.scenario.id+". ") {
			t.Errorf("the report has no %s", r.scenario.id)
		}
	}
}

// stalled reports whether an entrant did nothing in a scenario of one size.
func stalled(r result, e entrant) bool {
	return strings.Contains(r.sizes[0].notes[e.name], errNothing.Error())
}

// requireAllRan requires a figure of each entrant that takes part in a scenario.
func requireAllRan(t *testing.T, results []result) {
	t.Helper()
	for _, r := range results {
		s := r.sizes[0]
		for _, e := range entrants() {
			if !e.enters(r.scenario) {
				continue
			}
			why := e.skip(r.scenario.id, s.id)
			n := len(s.samples.values(e.name, r.scenario.head))
			if e.peer && stalled(r, e) {
				continue // a peer that lost a wake-up does nothing in so short a time
			}
			if (n == 1) != (why == "") || s.notes[e.name] != why {
				t.Errorf("%s, %s: %d figures; %q", r.scenario.id, e.name, n, s.notes[e.name])
			}
		}
	}
}

// open is a lock that excludes nobody.
type open struct{}

func (open) Handle(string) Handle         { return open{} }
func (open) Key(name string) string       { return name }
func (open) Lock(context.Context) error   { return nil }
func (open) Unlock(context.Context) error { return nil }

func TestBrokenLockIsDetected(t *testing.T) {
	t.Parallel()
	file, err := newArena()
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	a, err := openArena(file)
	if err != nil {
		t.Fatal(err)
	}
	c := Cell{Goroutines: 4, Names: 1, Hold: 1e6, Arena: file}
	var tally *Tally
	ended := make(chan error, 1)
	go func() {
		var err error
		tally, err = runLoops(t.Context(), c, open{})
		ended <- err
	}()
	a.phase.Store(phaseWarm)
	for a.counter.Load() < 10 {
	}
	a.phase.Store(phaseOver)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := lostUpdates(a, []*Tally{tally}); err == nil {
		t.Error("the lost updates were not detected")
	}
}

func TestWatchedFiguresAreMeasured(t *testing.T) {
	t.Parallel()
	scs, watch := checked()
	for _, g := range watch {
		sc, ok := scenarioOf(scs, g.scenario)
		if !ok || !slices.ContainsFunc(sc.sizes, func(s size) bool { return s.id == g.size }) {
			t.Errorf("%s is never measured", g.name())
		}
	}
	recorded := baseline{Figures: map[string]float64{}}
	if _, err := judge(nil, recorded, 0.4, &bytes.Buffer{}); err == nil {
		t.Error("a file without figures passes")
	}
	now := map[string]float64{}
	for _, g := range watch {
		recorded.Figures[g.name()], now[g.name()] = 10, 10
	}
	var out bytes.Buffer
	if worse, err := judge(now, recorded, 0.4, &out); err != nil || len(worse) > 0 {
		t.Errorf("%v %v\n%s", worse, err, &out)
	}
	now[watch[0].name()] = 20
	if worse, err := judge(now, recorded, 0.4, &out); err != nil || len(worse) != 1 {
		t.Errorf("%v %v\n%s", worse, err, &out)
	}
}
