// Package overlay makes copies of some files of Go's runtime, in which a seed decides what the runtime otherwise draws at random: which
// goroutine runs next, which case of a select is taken, the order of a map. `go build -overlay` puts them in the place of the originals.
package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tag is the build tag of a program that is built with the overlay.
const Tag = "simrt"

// Env is the environment variable with the seed of all bubbles for which the program sets none.
const Env = "RLOCK_SCHEDULE"

// File is the content of an overlay file, see `go help build`.
type File struct{ Replace map[string]string }

// edit replaces a text that occurs exactly once in a file of a package.
type edit struct{ file, what, old, new string }

// Write writes the changed files of the installed Go to dir, and returns the overlay that puts them in place. Its error names the file and
// the edit that do not fit, as may happen with a new version of Go.
func Write(dir string) (File, error) { return writeAll(dir, map[string][]edit{"runtime": edits}) }

// WriteWithTesting is Write, and changes the package testing, too: see testingEdits.
func WriteWithTesting(dir string) (File, error) {
	return writeAll(dir, map[string][]edit{"runtime": edits, "testing": testingEdits})
}

// writeAll applies the edits of packages of the installed Go.
func writeAll(dir string, all map[string][]edit) (File, error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return File{}, fmt.Errorf("go env: %w", err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	f := File{Replace: map[string]string{}}
	for pkg, edits := range all {
		one, err := write(dir, filepath.Join(root, "src", pkg), version, edits)
		if err != nil {
			return File{}, err
		}
		maps.Copy(f.Replace, one.Replace)
	}
	return f, nil
}

// Save writes the overlay file itself, and returns its path.
func (f File) Save(dir string) (string, error) {
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// write applies the edits of the package in a directory.
func write(dir, source, version string, edits []edit) (File, error) {
	pkg := filepath.Base(source)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return File{}, err
	}
	changed := map[string]string{} // by name
	for _, e := range edits {
		text, ok := changed[e.file]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(source, e.file))
			if err != nil {
				return File{}, fmt.Errorf("package %s of %s: %w", pkg, version, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return File{}, fmt.Errorf("the source of %s: the edit %q of %s/%s fits %d times instead of once; "+
				"change it in simulation/internal/overlay", version, e.what, pkg, e.file, n)
		}
		changed[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	f := File{Replace: map[string]string{}}
	for name, text := range changed {
		path := filepath.Join(dir, pkg+"_"+name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return File{}, err
		}
		f.Replace[filepath.Join(source, name)] = path
	}
	return f, nil
}
