// Package contract makes docs/errors.md, and the table of errors of docs/guide/waiting.md. It provokes every error, and measures what
// each method returns while Redis fails. `make errors` writes the pages. The tests check that they are as the code is, and that no
// call takes longer than it may.
package contract

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
)

var update = flag.Bool("update", false, "write the generated sections of the pages")

// The pages that have generated sections.
const (
	page  = "docs/errors.md"
	guide = "docs/guide/waiting.md" // for the table that a reader needs first
)

func TestMain(m *testing.M) { testkit.Main(m) }

var writing sync.Mutex // held while a test changes the page

// section compares a generated section of a page with its text, or writes it.
func section(t *testing.T, file, name, text string) {
	t.Helper()
	writing.Lock()
	defer writing.Unlock()
	path := filepath.Join(testkit.Repository(), filepath.FromSlash(file))
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok, "%s has no section %q", file, name)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "the section %q has no end", name)
	text = "\n" + strings.TrimSpace(text) + "\n\n"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+text+end+after), 0o600))
		return
	}
	if os.Getenv("RLOCK_REDIS_SERVER") == "" { // other servers word their errors differently
		require.Equal(t, old, text, "%s is stale: run make errors", file)
	}
}

// row returns a row of a table.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// table returns the head of a table.
func table(heads ...string) string {
	return row(heads...) + row(strings.Split(strings.Repeat("---,", len(heads)-1)+"---", ",")...)
}
