// Command simulation runs rlock in a simulated network, in virtual time, with faults that a seed decides, and checks its promises. It is
// for developers of rlock: see `make sim`.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/overlay"
)

func main() {
	seed := flag.Uint64("seed", 0, "replay this seed, with a log of every event, also on a mutant; 0 draws seeds")
	duration := flag.Duration("duration", time.Minute, "how much CPU time the drawn seeds may take")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many seeds run at a time")
	planted := flag.String("mutant", "", `hunt these planted bugs, separated by commas, or those of "torture", of the "table", or "all", each for the duration`)
	all := flag.Bool("all", false, "go on after a seed that breaks a promise")
	dir := flag.String("overlay", "", "only write the overlay of Go's runtime to this directory")
	flag.Parse()
	ok, err := do(*seed, draws{*duration, *jobs, *all}, *planted, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulation:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// do reports whether nothing was found, or, of mutants, each.
func do(seed uint64, d draws, planted, dir string) (bool, error) {
	if dir != "" {
		f, err := overlay.Write(dir)
		if err != nil {
			return false, err
		}
		path, err := f.Save(dir)
		fmt.Println(path)
		return err == nil, err
	}
	work, err := os.MkdirTemp("", "rlock-simulation-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if planted != "" {
		return hunt(work, planted, d, seed)
	}
	b, err := build(work, nil)
	if err != nil {
		return false, err
	}
	if seed != 0 {
		return b.replay(seed)
	}
	t := b.draw(d)
	for _, r := range t.broken {
		fmt.Printf("seed %d broke a promise: %s\nin %s\nreplay it with: make sim SEED=%d\n", r.Seed, r.Broken[0], r.Scene, r.Seed)
	}
	fmt.Println(t)
	return len(t.broken) == 0, nil
}
