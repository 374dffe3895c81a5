package snippets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
)

func TestSnippets(t *testing.T) {
	t.Parallel()
	Check(t, ".")
}

// TestEveryModuleChecksItsSnippets fails if a snippet needs a module that does not look for any.
func TestEveryModuleChecksItsSnippets(t *testing.T) {
	t.Parallel()
	root := testkit.Repository()
	for _, s := range read(t, root) {
		src, err := s.source(root)
		require.NoError(t, err)
		if src.module == "." {
			continue
		}
		found := false
		for _, pattern := range []string{"*_test.go", "internal/snippets/*_test.go"} {
			for _, file := range testkit.Must(filepath.Glob(filepath.Join(root, src.module, pattern))) {
				found = found || strings.Contains(string(testkit.Must(os.ReadFile(file))), fmt.Sprintf("snippets.Check(t, %q)", src.module))
			}
		}
		require.True(t, found, "%s needs %s, which has no test of its snippets", s.where(), src.module)
	}
}

// mistakes lists pages of code, and what a test says about it. Each code begins on line 2 of its page. The codes of a row are compiled
// together.
var mistakes = map[string][]struct{ code, says string }{
	"types": {
		{"lock.Lock(ctx)\nlock.Locked(ctx)\n", "0.md:3: lock.Locked undefined"},
		{"a.B()\n\nc.D()\n", "1.md:4: undefined: c"},
		{"func f() int { return true }\n", "2.md:2: cannot use true"},
	},
	"syntax":  {{"lock.Lock(ctx\n", "0.md:2: missing ','"}},
	"program": {{"package main\n\nfunc main() { f() }\n", "0.md:4: undefined: f"}},
	"panic":   {{"var l *int\n*l = 1\n", "0.md:3"}},
	"results": {
		{"err := lock.Unlock(ctx)\n", "0.md:2: rlock: unlock"},
		{"lock.TryLock(ctx) // true\nlock.TryLock(ctx) // true\n", "1.md:3: the comment says [true]"},
		{"err := lock.Lock(ctx) // ErrNotAcquired: taken\n", "2.md:2: the comment says [rlock: not acquired]"},
		{"ok, err := lock.TryLock(ctx) // tries; false, nil: taken\n", "3.md:2: the comment says [false <nil>], and the statement returned [true <nil>]"},
		{"return lock.Unlock(ctx)\n", "4.md:2: rlock: unlock"},
	},
	"switch": {{
		"err := lock.Lock(ctx, rlock.Wait(time.Second))\nswitch {\ncase ctx.Err() != nil:\ncase errors.Is(err, rlock.ErrNotAcquired):\n" +
			"case errors.Is(err, rlock.ErrUnavailable):\n}\nreturn nil\n",
		"0.md:2: another process holds the lock",
	}},
	"output": {{"package main\n\nfunc main() { println(\"b\") }\n", `0.md:2: prints "b\n", and not "a"`}},
}

// TestMistakesAreFound plants mistakes. What is said about one names its page and its line.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles for some seconds")
	}
	root := testkit.Must(filepath.Abs(testkit.Repository()))
	for what, row := range mistakes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var its []source
			for i, m := range row {
				found, err := extract(fmt.Sprintf("docs/%d.md", i), "```go\n"+m.code+"```\n")
				require.NoError(t, err)
				require.Len(t, found, 1)
				found[0].prints = "a" // of which only programs know
				src, err := found[0].source(root)
				require.NoError(t, err)
				its = append(its, src)
			}
			err := run(t, root, ".", its)
			for _, m := range row {
				require.ErrorContains(t, err, "docs/"+m.says)
			}
		})
	}
}

// TestCommentsAreUnderstood refuses a comment or a block that would be ignored.
func TestCommentsAreUnderstood(t *testing.T) {
	t.Parallel()
	for page, says := range map[string]string{
		"<!-- snippet: compiled -->\n```go\n```\n":              `docs/planted.md:1: the comment about a snippet: "compiled" is not known`,
		"<!-- snippet: prints a -->\n```go\n```\n":              "docs/planted.md:1: the comment about a snippet: invalid syntax",
		"<!-- snippet: prints \"a\" -->\nText.\n\n```go\n```\n": "docs/planted.md: no snippet follows the comment about it",
		"- a list\n\n  ```go\n  f()\n  ```\n":                   "docs/planted.md: a snippet is indented, or does not end",
		"```go\nf()\n":                                          "docs/planted.md: a snippet is indented, or does not end",
	} {
		_, err := extract("docs/planted.md", page)
		require.EqualError(t, err, says)
	}
	two := snippet{page: "docs/planted.md", line: 4, code: "rlocktest.New(t, rlockotel.Observe())\n"}
	_, err := two.source("/")
	require.EqualError(t, err, "docs/planted.md:4: a snippet needs two modules: rlocktest and rlockotel")
}
