package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool is the built command.
var tool string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rlockvet")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	tool = filepath.Join(dir, "rlockvet")
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

// mistake is a program with a finding.
const mistake = `package main

import (
	"context"

	"github.com/go-rlock/rlock"
)

func save(context.Context) error { return nil }

func main() {
	ctx := context.Background()
	_ = new(rlock.Lock).Do(ctx, func(context.Context) error { return save(ctx) })
}
`

const finding = "main.go:13:72: ctx within Do is the context of the caller"

// program returns the directory of a module with the mistake. Its rlock is the stub with which the analyzers are tested.
func program(t *testing.T) string {
	t.Helper()
	stub, err := filepath.Abs("analyzers/testdata/src/github.com/go-rlock/rlock")
	if err != nil {
		t.Fatal(err)
	}
	dir, library := t.TempDir(), t.TempDir()
	if err := os.CopyFS(library, os.DirFS(stub)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(library, "go.mod"), "module github.com/go-rlock/rlock\n\ngo 1.25.0\n")
	write(t, filepath.Join(dir, "main.go"), mistake)
	write(t, filepath.Join(dir, "go.mod"), "module example.org/shop\n\ngo 1.25.0\n\n"+
		"require github.com/go-rlock/rlock v0.0.0\n\nreplace github.com/go-rlock/rlock => "+library+"\n")
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// output runs a command in a directory, and returns what it prints.
func output(t *testing.T, dir string, command ...string) (out string, failed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

func TestTheCommandRunsByItself(t *testing.T) {
	t.Parallel()
	dir := program(t)
	out, failed := output(t, dir, tool, "./...")
	if !failed || !strings.Contains(out, finding) {
		t.Errorf("failed: %v\n%s", failed, out)
	}
	if out, failed := output(t, dir, tool, "-rlockctx=false", "./..."); failed {
		t.Errorf("without the analyzer:\n%s", out)
	}
	if out, failed := output(t, dir, tool, "-fix", "./..."); failed {
		t.Errorf("the fix:\n%s", out)
	}
	if out, failed := output(t, dir, tool, "./..."); failed {
		t.Errorf("after the fix:\n%s", out)
	}
}

func TestTheCommandRunsInGoVet(t *testing.T) {
	t.Parallel()
	dir := program(t)
	out, failed := output(t, dir, "go", "vet", "-vettool="+tool, "./...")
	if !failed || !strings.Contains(out, finding) {
		t.Errorf("failed: %v\n%s", failed, out)
	}
	if out, failed := output(t, dir, "go", "vet", "-vettool="+tool, "-rlockhold", "./..."); failed {
		t.Errorf("another analyzer alone:\n%s", out)
	}
}

// TestNothingIsFoundInTheReadme runs the command over the program of the README, with the library itself.
func TestNothingIsFoundInTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Skip("rlock is not beside this module")
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	text, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "main.go")
	write(t, file, text)
	if out, failed := output(t, "..", tool, file); failed {
		t.Error(out)
	}
	text = strings.Replace(text, "func(ctx context.Context) error {", "func(held context.Context) error {", 1)
	text = strings.Replace(text, "err = locks", "ctx := context.Background()\n\terr = locks", 1)
	text = strings.Replace(text, "Do(context.Background(),", "Do(ctx,", 1)
	write(t, file, strings.Replace(text, "return nil", `_, err := rdb.Get(ctx, "paid").Result(); return err`, 1))
	if out, failed := output(t, "..", tool, file); !failed || !strings.Contains(out, "pass on held") {
		t.Errorf("a mistake in it is not found:\n%s", out)
	}
}
