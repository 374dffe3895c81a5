package internal_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableFiles lists the files of the lock table from the bottom up. A file refers to what earlier files declare.
var tableFiles = []string{
	"step", "stages", "state",
	"table", "open", "trying", "grant", "lined", "owners", "loss", "acquisition", "place", "attempt", "watch", "queue", "hold", "way",
	"message", "rest", "look", "settle", "admit",
	"ending", "free", "handover", "export", "exit",
	"due", "shutdown", "queries",
}

// mostUpward is how many pairs of files there may be of which the lower one refers to the upper one. A commit may only lower it.
const mostUpward = 0

// reference is that one file of the table uses what another one declares.
type reference struct{ from, to string }

// TestTableIsLayered counts the references between files of the lock table that point up.
func TestTableIsLayered(t *testing.T) {
	t.Parallel()
	references := tableReferences(t)
	upward := 0
	for r, names := range references {
		from, to := slices.Index(tableFiles, r.from), slices.Index(tableFiles, r.to)
		require.NotEqual(t, -1, from, "%s.go is in no layer", r.from)
		if from < to {
			upward++
			t.Logf("%s refers up to %s: %s", r.from, r.to, strings.Join(names, ", "))
		}
	}
	drawn := ""
	for _, m := range regexp.MustCompile(`\w+\["[^:"]+: ([^"]+)"\]`).FindAllStringSubmatch(readDocument(t).drawing(t, "The files of the table"), -1) {
		drawn += ", " + m[1]
	}
	require.Equal(t, strings.Join(tableFiles, ", "), strings.TrimPrefix(drawn, ", "), "the drawing in docs/architecture.md")
	t.Logf("%d references between %d files, of which %d point up", len(references), len(tableFiles), upward)
	require.LessOrEqual(t, upward, mostUpward)
}

// tableReferences returns the references between the files of the table, with the names that are used.
func tableReferences(t *testing.T) map[reference][]string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, s := range sources(t) {
		if s.pkg == "internal/table" {
			file, err := parser.ParseFile(fset, s.path, s.text, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	uses := make(map[*ast.Ident]types.Object)
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", exported(t))}
	pkg, err := config.Check(module+"/internal/table", fset, files, &types.Info{Uses: uses})
	require.NoError(t, err)
	base := func(pos token.Pos) string {
		return strings.TrimSuffix(filepath.Base(fset.Position(pos).Filename), ".go")
	}
	references := make(map[reference][]string)
	for id, o := range uses {
		if o.Pkg() != pkg {
			continue
		}
		if r := (reference{base(id.Pos()), base(o.Pos())}); r.from != r.to && !slices.Contains(references[r], o.Name()) {
			references[r] = append(references[r], o.Name())
		}
	}
	for _, names := range references {
		slices.Sort(names)
	}
	return references
}

// exported returns the function that opens what the compiler has exported of a package that the table imports.
func exported(t *testing.T) func(path string) (io.ReadCloser, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./table").Output()
	require.NoError(t, err)
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[pkg] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}
