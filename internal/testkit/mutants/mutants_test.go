package mutants

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/lua"
)

const program = `package main

import (
	_ "embed"
	"fmt"
)

//go:embed texts/greeting.txt
var greeting string

type list[T any] []T

func (l list[T]) first(_ bool, _ ...int) T { return l[0] }

type counter int

func (counter) of(int) (n int) { n = 1; return n }

func (c *counter) add(by ...int) { *c += counter(by[0]) }

func last[T any, L ~[]T](l L) T { return l[len(l)-1] }

const limit = 1

func main() {
	var c counter
	c.add(1, 2)
	all := list[string]{"a", "b"}
	fmt.Print(greeting, all.first(true, 1), c, c.of(0), last(all), limit)
}
`

// TestSchemata builds a program with several mutants once, and runs each of them.
func TestSchemata(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program")
	}
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "texts"), 0o700))
	for name, text := range map[string]string{"go.mod": "module program\n\ngo 1.25\n", "main.go": program, "texts/greeting.txt": "hi "} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	all := []Mutant{
		{"generic method", "", "", []Edit{{"main.go", "return l[0]", "return l[1]"}}},
		{"generic function", "", "", []Edit{{"main.go", "l[len(l)-1]", "l[0]"}}},
		{"unnamed receiver and parameter, named result", "", "", []Edit{{"main.go", "n = 1; ", "n = 2; "}}},
		{"no result, and an import", "", "", []Edit{
			{"main.go", "*c += counter(by[0])", "*c += counter(len(strings.Repeat(\"x\", by[1])))"},
			{"main.go", "\t\"fmt\"\n", "\t\"fmt\"\n\t\"strings\"\n"},
		}},
		{"same function again, and a script", "", "", []Edit{
			{"main.go", "return l[0]", "return l[len(l)-1]"},
			{"texts/greeting.txt", "hi", "ho"},
		}},
		{"constant", "", "", []Edit{{"main.go", "limit = 1", "limit = 2"}}},
	}
	files, rest, err := Schemata(root, all)
	require.NoError(t, err)
	require.Equal(t, all[len(all)-1:], rest, "needs a build of its own")
	overlay, err := Overlay(t.TempDir(), files)
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", binary, ".")
	build.Dir = root
	build.Env = append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for i, want := range []string{"hi b1 1b1", "hi a1 1a1", "hi a1 2b1", "hi a2 1b1", "ho b1 1b1", "hi a1 1b1"} {
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), Env+"="+all[i].Name)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, want, string(out), all[i].Name)
	}

	_, _, err = Schemata(root, []Mutant{{"gone", "", "", []Edit{{"main.go", "not there", ""}}}})
	require.ErrorContains(t, err, "mutant gone: its edit of main.go fits 0 times instead of once")
}

// TestTableSharesOneBuild checks that the mutants of the table can be planted in one build.
func TestTableSharesOneBuild(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, m := range Table {
		require.False(t, names[m.Name], m.Name)
		names[m.Name] = true
	}
	_, rest, err := Schemata("../../..", Table)
	require.NoError(t, err)
	require.Empty(t, rest)
}

// TestABugInASourceIsSent checks that a bug in a source of scripts is in each script that is sent with it, and that the digest is that of
// the script with the bug.
func TestABugInASourceIsSent(t *testing.T) {
	t.Parallel()
	bug := func(file, from, to string) Mutant {
		return Mutant{"bug", "", "", []Edit{{"internal/lua/" + file, from, to}}}
	}
	planted, err := bug("line_pump.lua", "  return -2\n", "  return -1234\n").Plant("../../..")
	require.NoError(t, err)
	require.Len(t, planted, 2, "with tokens, and without")
	for path, file := range planted {
		require.Contains(t, path, "lua/sent/")
		require.Contains(t, file, "  return -1234\n")
		digest, text := lua.Open(file)
		sum := sha1.Sum([]byte(text))
		require.Equal(t, hex.EncodeToString(sum[:]), digest)
	}
	_, err = bug("line_prelude.lua", "-- Removes a waiter", "-- Drops a waiter").Plant("../../..")
	require.EqualError(t, err, "mutant bug: its edits of scripts change nothing that is sent")
}
