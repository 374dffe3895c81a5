// Command bench compares rlock with other lock libraries on a Redis that it starts. It also measures the floor: a raw
// acquire and release without a library.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// quiet is a logger that drops all messages of go-redis.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(context.Context, string, ...any) {}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	only, libraries      string
	write, check, record string
	compare              string
	tolerance            float64
	rounds               int
	scale                float64
}

func command(ctx context.Context, args []string, out, log io.Writer) error {
	if len(args) == 2 && args[0] == childFlag {
		return child(ctx, args[1], out)
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.only, "only", "", "run only these scenarios, for example S1,S3")
	flags.StringVar(&o.libraries, "libraries", "", "run only these libraries, for example floor,rlock")
	flags.StringVar(&o.write, "write", "", "write benchmarks.md and benchmarks/*.svg into this directory; with -only, replace the sections that are there")
	flags.StringVar(&o.check, "check", "", "run some scenarios briefly, and fail if a figure is worse than in this file")
	flags.StringVar(&o.record, "record", "", "run the scenarios of -check, and write the file for it")
	flags.StringVar(&o.compare, "compare", "", "measure with the rlock of this checkout (old) and of this build (new), in turn")
	flags.Float64Var(&o.tolerance, "tolerance", 0.4, "how much worse a figure may be for -check; 0.4 is 40 %")
	flags.IntVar(&o.rounds, "rounds", 0, "the number of rounds; 0 means each scenario's own")
	flags.Float64Var(&o.scale, "scale", 1, "multiply all durations by this factor")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := o.known(); err != nil {
		return err
	}
	redis.SetLogger(quiet{}) // go-redis logs while a server starts
	b := &bed{log: log}
	defer b.close()
	l, err := newLab(ctx, b)
	if err != nil {
		return err
	}
	switch {
	case o.record != "":
		return l.record(ctx, o.record, log)
	case o.check != "":
		return l.check(ctx, o.check, o.tolerance, out, log)
	case o.compare != "":
		return l.compare(ctx, o, out, log)
	}
	return l.report(ctx, o, strings.Join(args, " "), out, log)
}

// known returns an error if -only or -libraries names what there is not.
func (o *options) known() error {
	for id := range strings.SplitSeq(o.only, ",") {
		if _, ok := scenarioOf(scenarios(), id); !ok && id != "" {
			return fmt.Errorf("-only: no scenario %q", id)
		}
	}
	for name := range strings.SplitSeq(o.libraries, ",") {
		if _, ok := entrantNamed(name); !ok && name != "" {
			return fmt.Errorf("-libraries: no library %q", name)
		}
	}
	return nil
}

// runs reports whether -only permits the scenario.
func (o *options) runs(scenario string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), scenario)
}

// measures reports whether -libraries permits the library.
func (o *options) measures(library string) bool {
	return o.libraries == "" || slices.Contains(strings.Split(o.libraries, ","), library)
}

// report runs the scenarios that the flags select, and writes their tables.
func (l *lab) report(ctx context.Context, o options, args string, out, log io.Writer) error {
	p := plan{scale: o.scale, progress: log}
	if o.libraries != "" {
		p.libraries = strings.Split(o.libraries, ",")
	}
	for _, sc := range scenarios() {
		if !o.runs(sc.id) {
			continue
		}
		if o.rounds > 0 {
			sc = sc.inRounds(o.rounds)
		}
		sc.sizes = slices.DeleteFunc(sc.sizes, func(s size) bool { return s.guard })
		p.scenarios = append(p.scenarios, sc)
	}
	results, err := l.run(ctx, p)
	if err != nil {
		return err
	}
	if err := writeTables(out, results); err != nil || o.write == "" {
		return err
	}
	return l.writeReport(ctx, o.write, args, results)
}
