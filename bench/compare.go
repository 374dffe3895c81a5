package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// rootModule is the module that -compare takes from another checkout.
const rootModule = "github.com/go-rlock/rlock"

// version is a build of bench with one version of rlock.
type version struct {
	name string // the prefix of its samples
	lab  lab
}

// Many short cells in turn give steadier ratios on a noisy machine than a few long ones.
const (
	compareRounds = 12 // per scenario, unless -rounds says otherwise
	compareScale  = 0.4
	countedRounds = 3 // of S6 and S7, whose figures are counts
)

// compare measures the rlock of another checkout (old) beside the rlock of this build (new), and writes the medians and
// the ratios of the figures that -check watches. The versions alternate in every round, so that load on the machine hits
// both. A ratio is taken within a round, and the median of all rounds is shown.
func (l *lab) compare(ctx context.Context, o options, out, log io.Writer) error {
	root, err := directory(ctx, "-m", rootModule)
	if err != nil {
		return err
	}
	// Both are built alike: even the packages that a program only links change its speed.
	versions := []version{{"old ", *l}, {"new ", *l}}
	for i, checkout := range []string{o.compare, root} {
		if versions[i].lab.self, err = buildWith(ctx, l.tb.TempDir(), checkout); err != nil {
			return err
		}
	}
	scs, watch := compared(&o)
	found := make(map[string]samples)
	for _, sc := range scs {
		switch {
		case o.rounds > 0:
			sc = sc.inRounds(o.rounds)
		case sc.id == "S6" || sc.id == "S7":
			sc.rounds = countedRounds
		case !sc.whole:
			sc.rounds = compareRounds
		}
		if err := compareScenario(ctx, versions, sc, o, log, found); err != nil {
			return err
		}
	}
	watch = slices.DeleteFunc(watch, func(g guarded) bool { return found[g.cell()] == nil || !o.measures(g.library) })
	var others []string
	for _, e := range entrants() {
		if !e.ours() && o.libraries != "" && o.measures(e.name) {
			others = append(others, e.name)
		}
	}
	return writeComparison(out, found, watch, others)
}

// compared returns the scenarios that -compare runs, and their figures: those of -check, of semaphores, and more of S4 and the
// fleets. Of another scenario that -only names, it is the main metric.
func compared(o *options) (scs []scenario, watch []guarded) {
	more := map[string][]guarded{
		"S4": {{metric: mHandOffs}, {metric: mBetween}, {metric: mWait99, lowIsGood: true}, {metric: mPerHandOff, lowIsGood: true}},
	}
	for _, id := range []string{"S9", "S10", "S11"} {
		more[id] = append(more[id], guarded{metric: mHandOffs})
		for _, metric := range []string{mPerHandOff, mPings, mScriptCPU, mCPU, mWait50, mWait99, mWaitMax, mRound, mSpread} {
			more[id] = append(more[id], guarded{metric: metric, lowIsGood: true})
		}
	}
	more["S12"] = []guarded{{metric: mGap, lowIsGood: true, worst: true}}
	more["S13"] = []guarded{
		{metric: mLatency, lowIsGood: true},
		{metric: mAllocs, lowIsGood: true},
		{metric: mCommands, lowIsGood: true},
		{metric: mScriptCPU, lowIsGood: true},
	}
	more["S14"] = []guarded{{metric: mPairs}, {metric: mCommands, lowIsGood: true}, {metric: mLatency99, lowIsGood: true}}
	scs, watch = checked()
	for _, sc := range scenarios() {
		if _, ok := scenarioOf(scs, sc.id); !ok && more[sc.id] == nil && o.only != "" {
			more[sc.id] = []guarded{{metric: sc.head, lowIsGood: sc.lowIsGood}}
		}
	}
	replaced := func(id string) bool { return more[id] != nil }
	scs = slices.DeleteFunc(scs, func(sc scenario) bool { return replaced(sc.id) })
	watch = slices.DeleteFunc(watch, func(g guarded) bool { return replaced(g.scenario) })
	for _, sc := range scenarios() {
		if !replaced(sc.id) {
			continue
		}
		scs = append(scs, sc)
		for _, sz := range sc.sizes {
			for _, library := range ours() {
				for _, g := range more[sc.id] {
					g.scenario, g.size, g.library = sc.id, sz.id, library
					watch = append(watch, g)
				}
			}
		}
	}
	scs = slices.DeleteFunc(scs, func(sc scenario) bool { return !o.runs(sc.id) })
	return scs, measuredOf(scs, watch)
}

// compareScenario adds the samples of both versions to found, by guarded.cell, and those of the other libraries that
// -libraries names. They run with the new version's program, in the same rounds.
func compareScenario(
	ctx context.Context, versions []version, sc scenario, o options, log io.Writer, found map[string]samples,
) error {
	scale := o.scale
	if !sc.whole {
		scale *= compareScale
	}
	for round := range sc.rounds {
		for _, sz := range sc.sizes {
			if sz.rounds > 0 && round >= sz.rounds {
				continue
			}
			key := guarded{scenario: sc.id, size: sz.id}.cell()
			if found[key] == nil {
				found[key] = samples{}
			}
			for _, e := range entrants() {
				if !e.enters(sc) || !o.measures(e.name) || !e.ours() && o.libraries == "" || e.skip(sc.id, sz.id) != "" {
					continue
				}
				contest := versions
				if !e.ours() {
					contest = []version{{"", versions[len(versions)-1].lab}}
				}
				for i := range contest {
					v := contest[(i+round)%len(contest)]
					c := sz.cell
					c.Library = e.name
					c.scale(scale)
					m, err := v.lab.measure(ctx, sc, c)
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					if err != nil {
						_, _ = fmt.Fprintf(log, "%s %s, %s%s: %v\n", sc.id, sz.id, v.name, e.name, err)
					}
					found[key][v.name+e.name] = append(found[key][v.name+e.name], m) // nil if it failed
				}
			}
		}
	}
	_, _ = fmt.Fprintf(log, "%s: %d rounds\n", sc.id, sc.rounds)
	return nil
}

// writeComparison writes a line for each figure. The ratio of the best rounds is the one that load disturbs least. The
// range is that of the middle half of the ratios. Each of the others has a column with its figure.
func writeComparison(out io.Writer, found map[string]samples, watch []guarded, others []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	heads := append([]string{"figure", "better", "old", "new", "new/old", "middle half", "best new/old"}, others...)
	_, _ = fmt.Fprintln(w, strings.Join(heads, "\t")+"\t")
	for _, g := range watch {
		g.toFloor = false // the ratio to the other version takes its place
		s := found[g.cell()]
		older, newer := "old "+g.library, "new "+g.library
		better, best := "more", slices.Max[[]float64]
		if g.lowIsGood {
			better, best = "less", slices.Min[[]float64]
		}
		of := func(library string) string {
			return precise(summary(s.values(library, g.metric), g.worst, g.lowIsGood))
		}
		row := []string{g.name(), better, of(older), of(newer), "", "", ""}
		ratios := s.ratios(newer, g.metric, func(round int) float64 { return s.at(older, round, g.metric) })
		if n := len(ratios); n > 0 {
			slices.Sort(ratios)
			row[4] = fmt.Sprintf("%.3f", median(ratios))
			row[5] = fmt.Sprintf("%.3f-%.3f", ratios[n/4], ratios[n-1-n/4])
			row[6] = fmt.Sprintf("%.3f", best(s.values(newer, g.metric))/best(s.values(older, g.metric)))
		}
		for _, other := range others {
			row = append(row, of(other))
		}
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	return w.Flush()
}

// precise writes a figure with a decimal more than figure does if it is small.
func precise(v float64) string {
	if v != math.Trunc(v) && math.Abs(v) < 1 {
		return fmt.Sprintf("%.4f", v)
	}
	return figure(v)
}

// buildWith builds bench with the rlock of another checkout, in the directory dir, and returns the program. The sources
// of bench are those of this checkout, so that both versions run the same scenarios.
func buildWith(ctx context.Context, dir, checkout string) (string, error) {
	checkout, err := filepath.Abs(checkout)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(checkout, "go.mod")); err != nil {
		return "", fmt.Errorf("-compare needs the root of a checkout of rlock: %w", err)
	}
	sources, err := directory(ctx, rootModule+"/bench")
	if err != nil {
		return "", err
	}
	if err := copySources(sources, dir); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "bench")
	for _, args := range [][]string{
		{
			"mod", "edit", "-replace", rootModule + "=" + checkout,
			"-replace", rootModule + "/rlockrueidis=" + filepath.Join(checkout, "rlockrueidis"),
		},
		// The other checkout may require other versions of modules.
		{"build", "-mod=mod", "-trimpath", "-tags", "cellonly", "-o", program, "."},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", args[0], err, text)
		}
	}
	return program, nil
}

// directory returns the directory of a package or a module.
func directory(ctx context.Context, what ...string) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{.Dir}}"}, what...)...).Output()
	if err != nil {
		return "", fmt.Errorf("-compare needs the sources of bench: run it in bench/: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// copySources copies the Go files and the module files of a directory.
func copySources(from, to string) error {
	var files []string
	for _, pattern := range []string{"*.go", "go.mod", "go.sum"} {
		matches, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		files = append(files, matches...)
	}
	if len(files) == 0 {
		return errors.New("no sources of bench in " + from)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
