package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/simulation/internal/overlay"
	"github.com/go-rlock/rlock/simulation/virtual"
)

// suite is the test binary of a package.
type suite struct {
	dir, binary string
	tests       []string
}

// outcome is what came of one run of a test.
type outcome struct {
	suite  *suite
	test   string
	seed   uint64
	output []byte
	failed bool
	real   bool // it, or a part of it, needs a real server
	cpu    time.Duration
}

// do reports whether all tests passed.
func (o *options) do() (bool, error) {
	work, err := os.MkdirTemp("", "rlock-suites-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var suites []*suite
	for i, dir := range o.dirs {
		s, err := o.build(filepath.Join(work, fmt.Sprint(i)), dir)
		if err != nil {
			return false, err
		}
		suites = append(suites, s)
	}
	ok := true
	for _, s := range suites {
		if !o.virtually(s) {
			ok = false
		}
	}
	return ok, nil
}

// build builds the tests of a package for virtual time, and lists those that are to run.
func (o *options) build(work, dir string) (*suite, error) {
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	f, err := overlay.WriteWithTesting(work)
	if err != nil {
		return nil, err
	}
	for from, to := range map[string]string{"../internal/redistest/host/host.go": "internal/suites/host.go"} {
		if from, err = filepath.Abs(from); err != nil {
			return nil, err
		}
		if f.Replace[from], err = filepath.Abs(to); err != nil {
			return nil, err
		}
	}
	path, err := f.Save(work)
	if err != nil {
		return nil, err
	}
	s := &suite{dir: dir, binary: filepath.Join(work, "suite.test")}
	args := []string{"test", "-c", "-o", s.binary, "-overlay", path, "-tags", overlay.Tag}
	if o.race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	out, err := exec.Command(s.binary, "-test.list", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", dir, err)
	}
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "Test") && o.run.MatchString(name) {
			s.tests = append(s.tests, name)
		}
	}
	return s, nil
}

// virtually runs the tests of a suite in virtual time, and reports whether none failed.
func (o *options) virtually(s *suite) bool {
	began := time.Now()
	var mu sync.Mutex
	var cpu time.Duration
	failed, real := map[string]bool{}, map[string]bool{}
	todo := make(chan string)
	var wg sync.WaitGroup
	for range o.jobs {
		wg.Go(func() {
			for test := range todo {
				r := o.one(s, test)
				mu.Lock()
				cpu += r.cpu
				if r.failed {
					failed[test] = true
				}
				if r.real {
					real[test] = true
				}
				if r.failed || o.verbose {
					fmt.Printf("%s\n", r.output)
				}
				if r.failed {
					fmt.Printf("repeat it with: go run ./suites -run '^%s$' -seed %d -v %s\n", test, r.seed, s.dir)
				}
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
	wg.Wait()
	fmt.Printf("%s: %d tests in virtual time, of which %d failed and %d need a real server; %v, %v of CPU\n", s.dir, len(s.tests), len(failed),
		len(real), time.Since(began).Round(100*time.Millisecond), cpu.Round(100*time.Millisecond))
	return len(failed) == 0
}

var (
	skipped = regexp.MustCompile(`(?m)^ +\S+:\d+: needs a real server: `)
)

// one runs a test once.
func (o *options) one(s *suite, test string) outcome {
	r := outcome{suite: s, test: test, seed: o.seed}
	if r.seed == 0 {
		r.seed = 1 + rand.Uint64N(1e9)
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "0")
	// A goroutine that never pauses keeps package testing from noticing. At this signal, the process tells where each goroutine is.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprintf("%s=%d", virtual.SeedEnv, r.seed))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	r.failed = cmd.Run() != nil
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.output = out.Bytes()
	r.real = skipped.Match(r.output)
	return r
}
