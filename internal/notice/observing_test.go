package notice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryLogLineIsDocumented compares the messages of messages.go with the table for operators. Nothing else can be logged: a line has a
// [Message], and the compiler makes none of a text.
func TestEveryLogLineIsDocumented(t *testing.T) {
	t.Parallel()
	levels := map[string]string{"LevelWarn": "warning", "LevelInfo": "info", "LevelError": "error"}
	file, err := parser.ParseFile(token.NewFileSet(), "messages.go", nil, 0)
	require.NoError(t, err)
	known := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		if m, ok := n.(*ast.CompositeLit); ok {
			text, err := strconv.Unquote(m.Elts[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.NotContains(t, known, text, "two messages are the same")
			known[text] = levels[m.Elts[1].(*ast.SelectorExpr).Sel.Name]
		}
		return true
	})
	require.Equal(t, "warning", known[LogLost.Text])
	require.Equal(t, slog.LevelWarn, LogLost.Level)

	page, err := os.ReadFile("../../docs/guide/observing.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## Log lines\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	listed := make(map[string]string)
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| message") {
			continue
		}
		for _, cell := range cells {
			require.NotEmpty(t, strings.Trim(cell, "| "), line)
		}
		listed[strings.TrimPrefix(cells[0], "| ")] = cells[1]
	}
	require.Equal(t, known, listed)

	for text := range known {
		for _, word := range []string{"seat", "grant", "twin", "tombstone", "pump", "receipt", "number of a", "the line"} {
			require.NotContains(t, text, word, "a word of the code, which an operator does not know")
		}
	}
}
