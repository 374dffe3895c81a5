// Command suites runs the tests of packages of the root module in virtual time, each in a process and a bubble of its own. Then it runs on
// real servers, as `go test` does, those that need them: see redistest.NeedsRealServer. It is for developers of rlock.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
	short   bool
	verbose bool
	timeout time.Duration
	only    string // a part: "virtual", "real", or "list"
}

func main() {
	var o options
	run := flag.String("run", "", "run only the tests whose names match this expression")
	flag.Uint64Var(&o.seed, "seed", 0, "the seed of each test in virtual time; 0 draws one for each")
	flag.IntVar(&o.count, "count", 1, "run each test so often in virtual time")
	flag.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "how many tests run at a time in virtual time")
	flag.BoolVar(&o.race, "race", false, "use the race detector")
	flag.BoolVar(&o.short, "short", false, "have testing.Short report true")
	flag.BoolVar(&o.verbose, "v", false, "print the output of every test, and which took most CPU time in virtual time")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long one test may take in virtual time, and twice that all on real servers")
	flag.StringVar(&o.only, "only", "", `"virtual" runs nothing on real servers, and "list" prints the names of the tests to run there instead`)
	flag.Parse()
	var err error
	ok := false
	if o.run, err = regexp.Compile(*run); err == nil {
		ok, err = o.do(flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// do reports whether all tests of packages passed.
func (o *options) do(dirs []string) (bool, error) {
	work, err := os.MkdirTemp("", "rlock-suites-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var suites []*suite
	for i, dir := range dirs {
		s, err := o.build(filepath.Join(work, fmt.Sprint(i)), dir)
		if err != nil {
			return false, err
		}
		suites = append(suites, s)
	}
	ok := true
	for _, s := range suites {
		t := o.inVirtualTime(s)
		ok = t.report(o, s) && ok
		s.real = t.real
	}
	for _, s := range suites {
		switch {
		case len(s.real) == 0 || o.only == "virtual":
		case o.only == "list":
			fmt.Println(s.dir, s.realTests())
		default:
			ok = o.onRealServers(s) && ok
		}
	}
	return ok, nil
}
