// Command suites runs the tests of packages of the root module in virtual time, each in a process of its own, and then, on real servers, those
// that need them. It is for developers of rlock: see CONTRIBUTING.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"
)

// options are those of the command.
type options struct {
	run     *regexp.Regexp // which tests
	seed    uint64         // zero draws one for each run of each test
	count   int
	jobs    int
	race    bool
	verbose bool
	virtual bool // nothing on real servers
	timeout time.Duration
	dirs    []string
}

func main() {
	var o options
	run := flag.String("run", "", "run only the tests whose names match this expression")
	flag.Uint64Var(&o.seed, "seed", 0, "the seed of each test; 0 draws one for each")
	flag.IntVar(&o.count, "count", 1, "run each test so often in virtual time")
	flag.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "how many tests run at a time in virtual time")
	flag.BoolVar(&o.race, "race", false, "use the race detector")
	flag.BoolVar(&o.verbose, "v", false, "print the output of every test")
	flag.BoolVar(&o.virtual, "virtual", false, "only list the tests that need a real server")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long one test may take in virtual time")
	flag.Parse()
	o.dirs = flag.Args()
	expression, err := regexp.Compile(*run)
	if err == nil {
		o.run = expression
		var ok bool
		if ok, err = o.do(); err == nil && !ok {
			os.Exit(1)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}
