package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/simulation/virtual"
)

// total is what came of the tests of a suite in virtual time.
type total struct {
	failed, real map[string]bool
	cpu          map[string]time.Duration
	wall         time.Duration
}

// inVirtualTime runs the tests of a suite.
func (o *options) inVirtualTime(s *suite) *total {
	began := time.Now()
	t := &total{failed: map[string]bool{}, real: map[string]bool{}, cpu: map[string]time.Duration{}}
	var mu sync.Mutex
	todo := make(chan string)
	var workers sync.WaitGroup
	for range o.jobs {
		workers.Go(func() {
			for test := range todo {
				r := o.play(s, test)
				mu.Lock()
				t.add(o, s, r)
				mu.Unlock()
			}
		})
	}
	for range o.count {
		for _, test := range s.tests {
			todo <- test
		}
	}
	close(todo)
	workers.Wait()
	t.wall = time.Since(began)
	return t
}

// run is one run of a test.
type run struct {
	test   string
	seed   uint64
	output []byte
	failed bool
	cpu    time.Duration
}

// play runs a test once.
func (o *options) play(s *suite, test string) run {
	r := run{test: test, seed: cmp.Or(o.seed, 1+rand.Uint64N(1e9))}
	cmd := exec.Command(s.binary, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "0", fmt.Sprintf("-test.short=%v", o.short))
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprintf("%s=%d", virtual.SeedEnv, r.seed)) // see package overlay
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	r.failed = runFor(cmd, o.timeout) != nil
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.output = out.Bytes()
	return r
}

// needsReal matches the message of redistest.NeedsRealServer in the output of a test.
var needsReal = regexp.MustCompile(`(?m)^ +\S+\.go:\d+: needs a real server: `)

func (t *total) add(o *options, s *suite, r run) {
	t.cpu[r.test] += r.cpu
	if needsReal.Match(r.output) {
		t.real[r.test] = true
	}
	if r.failed || o.verbose {
		fmt.Printf("%s\n", r.output)
	}
	if r.failed {
		t.failed[r.test] = true
		race := ""
		if o.race {
			race = "-race "
		}
		fmt.Printf("repeat it with: cd simulation && go run ./suites -only virtual -v %s-seed %d -run '^%s$' %s\n\n", race, r.seed, r.test, s.dir)
	}
}

// report prints the total, and reports whether no test failed.
func (t *total) report(o *options, s *suite) bool {
	longest := slices.SortedFunc(maps.Keys(t.cpu), func(a, b string) int { return cmp.Compare(t.cpu[b], t.cpu[a]) })
	all := time.Duration(0)
	for i, test := range longest {
		all += t.cpu[test]
		if o.verbose && i < 10 {
			fmt.Printf("%v of CPU: %s\n", t.cpu[test].Round(10*time.Millisecond), test)
		}
	}
	for _, test := range slices.Sorted(maps.Keys(t.failed)) {
		fmt.Println("failed:", test)
	}
	fmt.Printf("%s: %d tests in virtual time, of which %d failed and %d need a real server; %v, %v of CPU\n", s.dir, len(s.tests), len(t.failed),
		len(t.real), t.wall.Round(100*time.Millisecond), all.Round(100*time.Millisecond))
	return len(t.failed) == 0
}

// realTests returns the expression for those tests of a suite that need a real server.
func (s *suite) realTests() string {
	return "^(" + strings.Join(slices.Sorted(maps.Keys(s.real)), "|") + ")$"
}

// onRealServers runs the tests of a suite that need a real server, and reports whether they passed.
func (o *options) onRealServers(s *suite) bool {
	args := []string{"test", "-count=1", "-parallel", "16", "-timeout", "8m", "-run", s.realTests()}
	if o.race {
		args = append(args, "-race", "-shuffle=on")
	}
	if o.short {
		args = append(args, "-short")
	}
	if o.verbose {
		args = append(args, "-v")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run() == nil
}
