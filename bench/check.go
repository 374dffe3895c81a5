package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// baseline is the file that -record writes and -check reads.
type baseline struct {
	Recorded string             // when and with which Go; for readers only
	Figures  map[string]float64 // by guarded.name
}

// guarded is a figure of rlock that -check watches.
type guarded struct {
	library, scenario, size, metric string
	toFloor                         bool // watch the ratio to the floor, not the figure
	lowIsGood                       bool
	slack                           float64 // permitted in addition to the tolerance
	worst                           bool    // the worst round counts, not the median
}

func (g guarded) name() string {
	name := fmt.Sprintf("%s, %s %s: %s", g.library, g.scenario, g.size, g.metric)
	if g.toFloor {
		name += " to the floor"
	}
	return name
}

// cell names the scenario and the size of the figure.
func (g guarded) cell() string { return g.scenario + " " + g.size }

// worse reports whether a figure is worse than the recorded one by more than the tolerance. A missing figure is worse.
func (g guarded) worse(now, recorded, tolerance float64) bool {
	switch {
	case math.IsNaN(now):
		return true
	case g.lowIsGood:
		return now > recorded*(1+tolerance)+g.slack
	default:
		return now < recorded/(1+tolerance)-g.slack
	}
}

// checked returns the scenarios that -check runs, with their sizes, and the figures that it watches for every variant of
// rlock.
func checked() (scs []scenario, watch []guarded) {
	sizes := map[string][]string{
		"S1": {"distinct names", "context that can end"}, "S2": {"64"}, "S3": {"16 × 0s", "128 × 0s"}, "S6": {"10000"}, "S7": {"2000"},
		"S9": {"64 × 1ms"}, "S15": {"10"},
	}
	for _, sc := range scenarios() {
		sc.sizes = slices.DeleteFunc(sc.sizes, func(s size) bool { return !slices.Contains(sizes[sc.id], s.id) })
		if len(sc.sizes) > 0 {
			sc.rounds, sc.fine = min(sc.rounds, steady), false
			scs = append(scs, sc)
		}
	}
	for _, lib := range ours() {
		for _, s := range sizes["S1"] {
			watch = append(
				watch,
				guarded{library: lib, scenario: "S1", size: s, metric: mLatency, toFloor: true, lowIsGood: true},
				guarded{library: lib, scenario: "S1", size: s, metric: mAllocs, lowIsGood: true},
				guarded{library: lib, scenario: "S1", size: s, metric: mCommands, lowIsGood: true},
			)
			if lib == "rlock" { // the variants run the same scripts
				watch = append(watch, guarded{
					library: lib, scenario: "S1", size: s, metric: mScriptCPU, toFloor: true, lowIsGood: true,
				})
			}
		}
		watch = append(
			watch,
			guarded{library: lib, scenario: "S2", size: "64", metric: mPairs, toFloor: true},
			guarded{library: lib, scenario: "S2", size: "64", metric: mCommands, lowIsGood: true},
			guarded{library: lib, scenario: "S6", size: "10000", metric: mGoroutines, lowIsGood: true, slack: 2},
			guarded{library: lib, scenario: "S6", size: "10000", metric: mRate, lowIsGood: true},
			guarded{library: lib, scenario: "S6", size: "10000", metric: mBytes, lowIsGood: true, slack: 100},
			guarded{library: lib, scenario: "S6", size: "10000", metric: mLost, lowIsGood: true},
			guarded{library: lib, scenario: "S7", size: "2000", metric: mBytes, lowIsGood: true, slack: 100},
			guarded{library: lib, scenario: "S7", size: "2000", metric: mSettled, lowIsGood: true, slack: 1},
			guarded{library: lib, scenario: "S15", size: "10", metric: mLatency, toFloor: true, lowIsGood: true},
			guarded{library: lib, scenario: "S15", size: "10", metric: mCommands, lowIsGood: true},
			guarded{library: lib, scenario: "S9", size: "64 × 1ms", metric: mHandOffs, toFloor: true},
			guarded{library: lib, scenario: "S9", size: "64 × 1ms", metric: mPerHandOff, lowIsGood: true},
		)
		for _, s := range sizes["S3"] {
			watch = append(
				watch,
				guarded{library: lib, scenario: "S3", size: s, metric: mHandOffs, toFloor: true},
				guarded{library: lib, scenario: "S3", size: s, metric: mPerHandOff, lowIsGood: true},
			)
		}
	}
	return scs, measuredOf(scs, watch)
}

// measuredOf returns the figures whose library takes part in the scenario.
func measuredOf(scs []scenario, watch []guarded) []guarded {
	return slices.DeleteFunc(watch, func(g guarded) bool {
		e, _ := entrantNamed(g.library)
		sc, ok := scenarioOf(scs, g.scenario)
		return !ok || !e.enters(sc) || e.skip(g.scenario, g.size) != ""
	})
}

// ours returns the names of the variants of rlock.
func ours() []string {
	var names []string
	for _, e := range entrants() {
		if e.ours() {
			names = append(names, e.name)
		}
	}
	return names
}

// checkScale shortens the cells of -check. A round has fewer of them than one of the report, so their ratios hardly suffer.
const checkScale = 0.4

// figures runs the checked scenarios and returns the watched figures, by guarded.name. A missing figure is NaN.
func (l *lab) figures(ctx context.Context, log io.Writer) (map[string]float64, error) {
	scs, watch := checked()
	found := make(map[string]sizeResult)
	for _, sc := range scs {
		libraries := append([]string{floor}, ours()...)
		scale := checkScale
		if sc.id == "S6" || sc.id == "S7" {
			libraries = libraries[1:] // its figures are counts and need no floor
			scale = 1                 // the waiters settle in this time
		}
		results, err := l.run(ctx, plan{scenarios: []scenario{sc}, libraries: libraries, scale: scale, progress: log})
		if err != nil {
			return nil, err
		}
		for _, s := range results[0].sizes {
			found[guarded{scenario: sc.id, size: s.id}.cell()] = s
		}
	}
	figures := make(map[string]float64)
	for _, g := range watch {
		s := found[g.cell()].samples
		if g.toFloor {
			figures[g.name()] = s.ratio(g.library, floor, g.metric)
		} else {
			figures[g.name()] = median(s.values(g.library, g.metric))
		}
	}
	return figures, nil
}

// record writes the file that check reads.
func (l *lab) record(ctx context.Context, file string, log io.Writer) error {
	figures, err := l.figures(ctx, log)
	if err != nil {
		return err
	}
	for name, v := range figures {
		if math.IsNaN(v) {
			return fmt.Errorf("nothing to record for %s", name)
		}
		figures[name] = math.Round(v*1000) / 1000
	}
	at := fmt.Sprintf("%s, %s", time.Now().UTC().Format(time.DateOnly), runtime.Version())
	text, err := json.MarshalIndent(baseline{Recorded: at, Figures: figures}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

var errWorse = errors.New("rlock is slower than recorded")

// check measures, and fails if a figure is worse than the recorded one twice. Being worse only once is noise.
func (l *lab) check(ctx context.Context, file string, tolerance float64, out, log io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var recorded baseline
	if err := json.Unmarshal(text, &recorded); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var worse []string
	for round := range 2 {
		now, err := l.figures(ctx, log)
		if err != nil {
			return err
		}
		this, err := judge(now, recorded, tolerance, out)
		if round > 0 {
			this = slices.DeleteFunc(this, func(name string) bool { return !slices.Contains(worse, name) })
		}
		if worse = this; err != nil || len(worse) == 0 {
			return err
		}
	}
	return fmt.Errorf("%w, twice: %s", errWorse, strings.Join(worse, "; "))
}

// judge writes every figure next to the recorded one, and returns the names of the figures that are worse.
func judge(now map[string]float64, recorded baseline, tolerance float64, out io.Writer) ([]string, error) {
	_, watch := checked()
	var worse []string
	for _, g := range watch {
		was, ok := recorded.Figures[g.name()]
		if !ok {
			return nil, fmt.Errorf("no figure is recorded for %q", g.name())
		}
		verdict := "ok"
		if g.worse(now[g.name()], was, tolerance) {
			verdict = "WORSE"
			worse = append(worse, g.name())
		}
		_, _ = fmt.Fprintf(out, "%-5s %s: %s, recorded %s\n", verdict, g.name(), figure(now[g.name()]), figure(was))
	}
	return worse, nil
}
