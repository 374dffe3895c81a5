// Package snippets compiles and runs the Go code of the documents, as a reader would paste it.
//
// A snippet is a block of Go in a page. It is a program, or declarations, or statements. Statements become a function that has the
// variables of the [Prelude], and may return an error. A comment behind a statement that names its results, such as "false, nil" or
// "ErrNotAcquired", is compared with them. Statements with a switch over errors run twice more: see [Switch]. A line with nothing but "…" stands for code of the reader.
//
// An HTML comment before a block may say more about it, and must be one of these:
//
//	<!-- snippet: only compiled, because it waits for a signal -->
//	<!-- snippet: not compiled, because it needs a module that is not required here -->
//	<!-- snippet: prints "paying" -->
//	<!-- snippet: given
//	declarations that the block needs, and a reader does not
//	-->
//
// Nothing is written into the repository: the go command gets the code as an overlay.
package snippets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// Check compiles and runs the snippets that need what a module has. A module is named by its directory, and that of the root is ".".
func Check(t *testing.T, module string) {
	t.Helper()
	root, err := filepath.Abs(testkit.Repository())
	require.NoError(t, err)
	var its []source
	for _, s := range read(t, root) {
		if s.foreign {
			continue
		}
		src, err := s.source(root)
		require.NoError(t, err)
		if src.module == module {
			its = append(its, src)
		}
	}
	require.NotEmpty(t, its, "no snippet needs %s", module)
	require.NoError(t, run(t, root, module, its))
}

// read returns the snippets of all pages.
func read(t *testing.T, root string) (all []snippet) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guide/*.md"} {
		for _, file := range testkit.Must(filepath.Glob(filepath.Join(root, pattern))) {
			page, err := filepath.Rel(root, file)
			require.NoError(t, err)
			found, err := extract(filepath.ToSlash(page), string(testkit.Must(os.ReadFile(file))))
			require.NoError(t, err)
			all = append(all, found...)
		}
	}
	return all
}

// generated is the directory of a module in which the go command sees the snippets: each program in a directory of its own, and all
// others in one package, as tests.
const generated = "zz_snippets"

// run compiles the snippets of a module with at most two commands, and runs them. Its error has the page and the line of what failed.
func run(t *testing.T, root, module string, its []source) error {
	t.Helper()
	r := runner{ctx: t.Context(), root: root, module: filepath.Join(root, module), bin: t.TempDir()}
	addr := redistest.Embedded(t).Options().Addr // for programs
	files, overlay := t.TempDir(), make(map[string]string)
	tests, programs := false, make(map[string]source)
	for i, s := range its {
		name, file := fmt.Sprintf("program%d", i), filepath.Join(files, fmt.Sprintf("%d.go", i))
		path := filepath.Join(r.module, generated, name, "main.go")
		if s.program {
			programs[name] = s
			s.text = strings.ReplaceAll(s.text, server, fmt.Sprintf("%q", addr))
		} else {
			tests = true
			path = filepath.Join(r.module, generated, "tests", fmt.Sprintf("snippet%d_test.go", i))
		}
		require.NoError(t, os.WriteFile(file, []byte(s.text), 0o600))
		overlay[path] = file
	}
	r.overlay = filepath.Join(files, "overlay.json")
	require.NoError(t, os.WriteFile(r.overlay, testkit.Must(json.Marshal(map[string]any{"Replace": overlay})), 0o600))
	var err error
	if tests {
		err = r.tests()
	}
	if len(programs) > 0 {
		err = errors.Join(err, r.programs(programs))
	}
	return err
}

// runner runs commands for the snippets of a module.
type runner struct {
	ctx                        context.Context
	root, module, overlay, bin string
}

// tests compiles and runs the snippets that are no programs.
func (r runner) tests() error {
	binary := filepath.Join(r.bin, "snippets.test")
	if err := r.compile("test", "-c", "-vet=off", "-o", binary, "./"+generated+"/tests"); err != nil {
		return err
	}
	_, err := r.call(r.bin, binary, "-test.timeout=2m")
	return err
}

// programs compiles and runs programs, by their names.
func (r runner) programs(all map[string]source) (err error) {
	args := []string{"-o", r.bin + string(filepath.Separator)}
	for name := range all {
		args = append(args, "./"+generated+"/"+name)
	}
	if err := r.compile("build", args...); err != nil {
		return err
	}
	for name, s := range all {
		if s.only {
			continue
		}
		out, failed := r.call(r.bin, filepath.Join(r.bin, name))
		if failed == nil && s.prints != "" && strings.TrimSpace(out) != s.prints {
			failed = fmt.Errorf("%s: prints %q, and not %q", s.where(), out, s.prints)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// compile runs the go command, which reports all errors and not only the first ten.
func (r runner) compile(verb string, args ...string) error {
	_, err := r.call(r.module, "go", append([]string{verb, "-overlay", r.overlay, "-gcflags=-e", "-ldflags=-w"}, args...)...)
	return err
}

// call runs a command, and returns its output. In an error, pages are named from the root of the repository.
func (r runner) call(dir, name string, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Minute) // most of it to compile
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, strings.ReplaceAll(string(text), r.root+string(filepath.Separator), ""))
	}
	return string(text), err
}
