// Command simulation runs rlock in a simulated network, in virtual time, with faults that a seed decides, and checks its promises. It is
// for developers of rlock: see `make sim`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/overlay"
)

func main() {
	var d draws
	seed := flag.Uint64("seed", 0, "replay this seed, with a log of every event, also on a mutant; 0 draws seeds")
	flag.Uint64Var(&d.first, "first", 0, "play this seed and the ones after it; 0 draws seeds")
	flag.IntVar(&d.seeds, "seeds", 0, "how many seeds are drawn; 0 means as many as the times allow")
	flag.DurationVar(&d.duration, "duration", time.Minute, "how much CPU time the drawn seeds may take")
	flag.DurationVar(&d.wall, "wall", 0, "how long the drawn seeds may take; 0 means no limit")
	flag.DurationVar(&d.shrink, "shrink", time.Minute, "how much CPU time the search for a smaller failure may take")
	flag.IntVar(&d.jobs, "jobs", runtime.NumCPU(), "how many seeds run at a time")
	flag.BoolVar(&d.all, "all", false, "go on after a seed that breaks a promise")
	flag.BoolVar(&d.cover, "cover", false, "print the coverage of rlock, and where the statements are that no seed has reached")
	d.smaller.Flags(flag.CommandLine)
	planted := flag.String("mutant", "", `hunt these planted bugs, separated by commas, or those of "rlock", of the "table", or "all", each for the duration`)
	page := flag.String("page", "", "write what comes of the hunts into the table of this page")
	dir := flag.String("overlay", "", "only write the overlay of Go's runtime to this directory")
	flag.Parse()
	stop, end := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	d.stop = stop.Done()
	ok, err := do(*seed, d, *planted, *page, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulation:", err)
	}
	stopped := d.stopped()
	end()
	if err != nil || !ok || stopped {
		os.Exit(1)
	}
}

// do reports whether nothing was found, or, of mutants, each.
func do(seed uint64, d draws, planted, page, dir string) (bool, error) {
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
		return hunt(work, planted, d, seed, page)
	}
	if d.cover {
		if err := installed.countStatements(work); err != nil {
			return false, err
		}
	}
	b, err := build(work, nil)
	if err != nil {
		return false, err
	}
	if seed != 0 {
		return b.replay(seed, &d.smaller)
	}
	t := b.draw(d)
	shrunk := make(map[string]bool)
	for _, r := range t.broken {
		what, _ := promise(r)
		how := d
		if shrunk[what] || d.stopped() { // one of each is enough to begin with
			how.shrink = 0
		}
		shrunk[what] = true
		b.report(r, how, "")
	}
	if d.cover {
		err = coverage(b.counts)
	}
	fmt.Println(t)
	return len(t.broken) == 0, err
}
