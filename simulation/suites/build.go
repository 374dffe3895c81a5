package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-rlock/rlock/simulation/internal/overlay"
)

// suite is a package of tests.
type suite struct {
	dir, binary string
	tests       []string
	real        map[string]bool // those that, or a part of which, need a real server
}

// standIns has the files of the root module in whose place there is another one in virtual time.
var standIns = map[string]string{"../internal/redistest/host/host.go": "internal/suites/host.go"}

// build builds the tests of a package for virtual time, and lists those that are to run.
func (o *options) build(work, dir string) (*suite, error) {
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	f, err := overlay.WriteWithTesting(work)
	if err != nil {
		return nil, fmt.Errorf("%w\nUntil then, run the suites on real servers: go test %s", err, dir)
	}
	for from, to := range standIns {
		if from, err = filepath.Abs(from); err != nil {
			return nil, err
		}
		if f.Replace[from], err = filepath.Abs(to); err != nil {
			return nil, err
		}
		for _, file := range []string{from, f.Replace[from]} {
			if _, err := os.Stat(file); err != nil {
				return nil, fmt.Errorf("run it in the directory simulation: %w", err)
			}
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
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") && o.run.MatchString(name) {
			s.tests = append(s.tests, name)
		}
	}
	return s, nil
}
