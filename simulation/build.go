package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
	"github.com/go-rlock/rlock/simulation/internal/overlay"
	"github.com/go-rlock/rlock/simulation/internal/scene"
)

// binary is the test binary of the scenes.
type binary struct {
	dir, path string
	mutant    string // of those that were built in; empty means none
	counts    string // the directory that gets the counts of statements; empty means that none are counted
}

// builder builds binaries with an overlay of Go's runtime.
type builder struct {
	overlay func(dir string) (overlay.File, error)
	to      io.Writer // gets a message if there is no overlay
	told    sync.Once
	counts  string // see binary
}

var installed = &builder{overlay: overlay.Write, to: os.Stderr}

// build builds the binary in a directory, with other texts for some files of rlock.
func build(dir string, planted map[string]string) (*binary, error) {
	return installed.build(dir, planted)
}

// build builds the binary, without an overlay if that cannot be made.
func (r *builder) build(dir string, planted map[string]string) (*binary, error) {
	b := &binary{dir: dir, path: filepath.Join(dir, "scene.test"), counts: r.counts}
	args := []string{"test", "-c", "-vet=off", "-o", b.path}
	if b.counts != "" {
		args = append(args, coverFlags()...)
	}
	f, err := r.overlay(dir)
	if err == nil {
		args = append(args, "-tags", overlay.Tag)
	} else {
		r.told.Do(func() {
			_, _ = fmt.Fprintln(r.to, "The simulation runs, but a seed does not decide everything, so a run cannot be replayed:", err)
		})
		f = overlay.File{Replace: map[string]string{}}
	}
	count := 0
	for path, text := range planted {
		count++
		to := filepath.Join(dir, fmt.Sprintf("planted_%d_%s", count, filepath.Base(path)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return nil, err
		}
		f.Replace[path] = to
	}
	path, err := f.Save(dir)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("go", append(args, "-overlay", path, "./internal/scene")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return b, nil
}

// command returns the process that plays a seed, and the file that gets its result.
func (b *binary) command(seed uint64, more ...string) (*exec.Cmd, string) {
	to := filepath.Join(b.dir, fmt.Sprintf("%d.json", seed))
	cmd := exec.Command(b.path, append([]string{"-test.run", "^TestSeed$", "-test.timeout", "0", "-seed", fmt.Sprint(seed), "-result", to}, more...)...)
	if b.counts != "" {
		cmd.Args = append(cmd.Args, "-test.gocoverdir", b.counts)
	}
	cmd.Env = append(os.Environ(), mutants.Env+"="+b.mutant, "GOMAXPROCS=1") // with more, the order of goroutines is not the seed's
	return cmd, to
}

// result reads the result of a seed. A process that ended without one broke a promise, too.
func result(seed uint64, file string, failed error, output []byte) scene.Result {
	var res scene.Result
	raw, err := os.ReadFile(file)
	_ = os.Remove(file)
	if err == nil {
		err = json.Unmarshal(raw, &res)
	}
	if err != nil || failed != nil {
		res.Seed = seed
		res.Broken = append(res.Broken, fmt.Sprintf("the process ended with %v: %s", failed, output[:min(len(output), 2000)]))
	}
	return res
}

// replay plays a seed and logs every event. It reports whether no promise was broken.
func (b *binary) replay(seed uint64, m *scene.Smaller) (bool, error) {
	if _, _, err := m.Of(scene.Swarm(seed), seed); err != nil {
		return false, err
	}
	cmd, file := b.command(seed, append(m.Args(), "-log")...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	res := result(seed, file, cmd.Run(), nil)
	fmt.Println(res.Scene)
	for _, broken := range res.Broken {
		fmt.Println(broken)
	}
	fmt.Println(&res)
	return len(res.Broken) == 0, nil
}
