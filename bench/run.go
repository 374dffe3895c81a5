package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// result holds the samples of one scenario.
type result struct {
	scenario scenario
	sizes    []sizeResult
}

// sizeResult holds the samples of one size of a scenario.
type sizeResult struct {
	id         string
	goroutines int
	unplotted  bool
	samples    samples
	notes      map[string]string // by library: why it was skipped or failed
}

// plan selects the scenarios and libraries to run.
type plan struct {
	scenarios []scenario
	libraries []string // empty means all
	scale     float64  // multiplies all durations
	progress  io.Writer
}

// run measures all scenarios of a plan. In each round the libraries take turns, and each round starts with another
// library, so that load on the machine hits all of them.
func (l *lab) run(ctx context.Context, p plan) ([]result, error) {
	results := make([]result, len(p.scenarios))
	for i, sc := range p.scenarios {
		start := time.Now()
		p := p
		if sc.fine {
			sc.rounds, p.scale = 2*sc.rounds, p.scale/2
		}
		r := result{scenario: sc}
		for _, sz := range sc.sizes {
			r.sizes = append(r.sizes, sizeResult{
				id: sz.id, goroutines: sz.cell.Goroutines, unplotted: sz.unplotted, samples: samples{}, notes: map[string]string{},
			})
		}
		for round := range sc.rounds {
			for j, sz := range sc.sizes {
				if sz.rounds > 0 && round >= sz.rounds {
					continue
				}
				if err := l.round(ctx, p, sc, sz, round, &r.sizes[j]); err != nil {
					return nil, err
				}
			}
		}
		for j, sz := range sc.sizes {
			if sz.cell.Names == 1 {
				r.sizes[j].samples.compareToFIFO(max(1, sz.cell.Processes) * sz.cell.Goroutines)
			}
		}
		results[i] = r
		_, _ = fmt.Fprintf(p.progress, "%s: %d rounds in %v\n", sc.id, sc.rounds, time.Since(start).Round(time.Second))
	}
	return results, nil
}

// round measures each library once.
func (l *lab) round(ctx context.Context, p plan, sc scenario, sz size, round int, into *sizeResult) error {
	all := entrants()
	for i := range all {
		e := all[(i+round)%len(all)]
		if !e.enters(sc) || len(p.libraries) > 0 && !slices.Contains(p.libraries, e.name) {
			continue
		}
		if why := e.skip(sc.id, sz.id); why != "" {
			into.notes[e.name] = why
			continue
		}
		c := sz.cell
		c.Library = e.name
		if e.polls {
			c.Period = 0
		}
		c.scale(p.scale)
		m, err := l.measure(ctx, sc, c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			text := strings.ReplaceAll(err.Error(), "\n", "; ")
			if !errors.Is(err, errBroken) || into.notes[e.name] == "" {
				into.notes[e.name] = fmt.Sprintf("round %d: %s", round+1, text)
			}
			_, _ = fmt.Fprintf(p.progress, "%s %s %s: %s\n", sc.id, sz.id, e.name, text)
		}
		into.samples[e.name] = append(into.samples[e.name], m) // nil if it failed
	}
	return nil
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }
