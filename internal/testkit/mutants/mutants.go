// Package mutants plants bugs in rlock, for tests that must find them. The source of rlock knows nothing of the bugs: they are in overlays
// of a build.
//
// One build can have all of them. Each function that a bug changes is there twice then, and the environment of the process decides which
// one runs (mutant schemata).
package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/lua/assemble"
)

// Env is the name of the variable that names the bug that a process of [Schemata] has.
const Env = "RLOCK_MUTANT"

// Mutant is a bug.
type Mutant struct {
	Name, What string
	By         string // a package and its test that find it without the simulation; empty means that nothing is known to
	Edits      []Edit
}

// Edit replaces a text that a file has exactly once. The file is below the root of the repository.
type Edit struct{ File, Old, New string }

// Plant returns the changed files, by their absolute paths. Of a source of scripts, these are the scripts that are sent with what it has.
func (m Mutant) Plant(root string) (map[string]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	planted := make(map[string]string)
	for _, e := range m.Edits {
		path := filepath.Join(root, e.File)
		text, ok := planted[path]
		if !ok {
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("mutant %s: its edit of %s fits %d times instead of once: %q", m.Name, e.File, n, e.Old)
		}
		planted[path] = strings.Replace(text, e.Old, e.New, 1)
	}
	if err := send(filepath.Join(root, "internal", "lua"), planted); err != nil {
		return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	return planted, nil
}

// send puts what is sent into the place of the sources of scripts, given their directory.
func send(dir string, planted map[string]string) error {
	sources := make(map[string]string)
	for path, text := range planted {
		if filepath.Dir(path) == dir && filepath.Ext(path) == ".lua" {
			sources[filepath.Base(path)] = text
			delete(planted, path)
		}
	}
	if len(sources) == 0 {
		return nil
	}
	read, err := assemble.Read(dir, sources)
	if err != nil {
		return err
	}
	files, err := read.Files()
	if err != nil {
		return err
	}
	sent := 0
	for name, text := range files {
		path := filepath.Join(dir, "sent", name)
		is, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		was, _ := lua.Open(string(is))
		if digest, _ := lua.Open(text); digest != was {
			planted[path] = text
			sent++
		}
	}
	if sent == 0 {
		return errors.New("its edits of scripts change nothing that is sent")
	}
	return nil
}

// Schemata returns the files of one build with all mutants, of which a process has the one that [Env] names, or none. The rest of the
// mutants change more than functions and scripts, so each of them needs a build of its own.
func Schemata(root string, all []Mutant) (files map[string]string, rest []Mutant, err error) {
	s := &schemata{files: make(map[string]*goFile), scripts: make(map[string][]script), switches: make(map[string]string)}
	for i, m := range all {
		planted, err := m.Plant(root)
		if err != nil {
			return nil, nil, err
		}
		fits, err := s.add(i+1, planted)
		if err != nil {
			return nil, nil, fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if !fits {
			rest = append(rest, m)
		}
	}
	files = make(map[string]string)
	for path, f := range s.files {
		files[path] = f.text()
	}
	for dir, pkg := range s.switches {
		files[filepath.Join(dir, "mutants_switch.go")] = s.switchOf(dir, pkg, all)
	}
	return files, rest, nil
}

// Overlay writes files, and the overlay with them, to a directory, and returns its path. It is for `go build -overlay`.
func Overlay(dir string, files map[string]string) (string, error) {
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, cmp.Compare[string])
	for i, path := range paths {
		to := filepath.Join(dir, fmt.Sprintf("%d_%s", i, filepath.Base(path)))
		if err := os.WriteFile(to, []byte(files[path]), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = to
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, raw, 0o600)
}
