package rlock_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
)

// reliability is the document that lists what rlock does about each failure, and the test that shows it.
const reliability = "docs/reliability.md"

// rules is the document that has the rules which the rows of reliability, the code and the tests cite.
const rules = "docs/rules.md"

// failures lists the first and last number of each group of failures.
var failures = [][2]int{{1, 9}, {10, 17}, {20, 31}, {40, 55}, {60, 80}}

// ruleNames returns the names of the rules, and the numbers of the invariants: the headings of the document.
func ruleNames(t *testing.T) (names []string) {
	t.Helper()
	heading := regexp.MustCompile(`(?m)^### (?:Invariant )?(\d+|[A-Z](?:\.\d+)?)$`)
	for _, m := range heading.FindAllStringSubmatch(string(testkit.Must(os.ReadFile(rules))), -1) {
		names = append(names, m[1])
	}
	require.Greater(t, len(names), 100)
	return names
}

// TestReliabilityHasEveryRow checks that the document has exactly one row for each failure, invariant and rule, and that each
// row links a test.
func TestReliabilityHasEveryRow(t *testing.T) {
	t.Parallel()
	var want []string
	for _, group := range failures {
		for n := group[0]; n <= group[1]; n++ {
			want = append(want, fmt.Sprintf("F%02d", n))
		}
	}
	want = append(want, ruleNames(t)...)
	document, err := os.ReadFile(reliability)
	require.NoError(t, err)
	var have []string
	columns := 0 // of the current table
	id := regexp.MustCompile(`^(F\d\d|\d+|[A-Z](\.\d+)?)$`)
	for line := range strings.Lines(string(document)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if strings.HasPrefix(line, "| ---") {
			columns = len(cells)
		}
		if first := strings.TrimSpace(cells[0]); id.MatchString(first) {
			have = append(have, first)
			require.Len(t, cells, columns, "%s has a cell for each column", first)
			require.Contains(t, cells[len(cells)-1], "](../", "%s links its test", first)
		}
	}
	require.ElementsMatch(t, want, have)
}

// TestCitedRulesExist fails when the code, a test or a document cites a rule that docs/rules.md does not have, and when the rules of
// a letter are not in order. A rule that goes leaves a gap, because the others are cited by their numbers.
func TestCitedRulesExist(t *testing.T) {
	t.Parallel()
	names := ruleNames(t)
	latest := make(map[string]int)
	for _, name := range names {
		if letter, number, numbered := strings.Cut(name, "."); numbered {
			n, err := strconv.Atoi(number)
			require.NoError(t, err)
			require.Greater(t, n, latest[letter], "%s is in order", name)
			latest[letter] = n
		}
	}
	cited := regexp.MustCompile(`\b[A-V]\.\d{1,2}\b`)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "." {
			return cmp.Or(err, fs.SkipDir)
		}
		if !slices.Contains([]string{".go", ".lua", ".md"}, filepath.Ext(path)) {
			return nil
		}
		for _, name := range cited.FindAllString(string(testkit.Must(os.ReadFile(path))), -1) {
			require.Contains(t, names, name, "in %s", path)
		}
		return nil
	}))
}

// TestScriptsNameTheRulesThatTheyKeep fails when the header of a script names no rule of docs/rules.md, or one that is not there.
func TestScriptsNameTheRulesThatTheyKeep(t *testing.T) {
	t.Parallel()
	names := ruleNames(t)
	sent, err := filepath.Glob("internal/lua/sent/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, sent)
	keeps := regexp.MustCompile(`(?m)^-- keeps rules (.*)$`)
	for _, path := range sent {
		kept := keeps.FindSubmatch(testkit.Must(os.ReadFile(path)))
		require.NotNil(t, kept, path)
		require.Subset(t, names, strings.Split(string(kept[1]), ", "), path)
	}
}

// TestReliabilityLinksExistingTests fails when a test that the document links is renamed or moved.
func TestReliabilityLinksExistingTests(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(reliability)
	require.NoError(t, err)
	_, texts := written(t)
	links := regexp.MustCompile(`\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)`).FindAllStringSubmatch(string(document), -1)
	require.Greater(t, len(links), 100)
	for _, link := range links {
		text, file := link[1], link[2]
		require.FileExists(t, file)
		if !strings.HasPrefix(text, "Test") {
			continue
		}
		name, claim, sub := strings.Cut(text, "/")
		tests, _ := parsed(t, file)
		require.Contains(t, tests, name, "in %s", file)
		require.True(t, !sub || texts[claim], "%s has no subtest %q", name, claim)
	}
}

// TestConformanceNamesExistingTests fails when docs/conformance.md names a test or a claim that does not exist.
func TestConformanceNamesExistingTests(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("docs/conformance.md")
	require.NoError(t, err)
	tests, texts := written(t)
	spans := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(document), -1)
	require.Greater(t, len(spans), 50)
	for _, span := range spans {
		name, claim, _ := strings.Cut(span[1], "/")
		switch {
		case strings.HasPrefix(name, "Test") && name != "Test":
			require.True(t, tests[name], "there is no test %q", name)
			claim = claim[strings.LastIndex(claim, "/")+1:]
			require.True(t, !strings.Contains(claim, " ") || texts[claim], "%s has no subtest %q", name, claim)
		case strings.Contains(span[1], " "):
			require.True(t, texts[span[1]], "there is no claim %q", span[1])
		}
	}
}

// TestReadmeIsShort bounds the length of the README. What its program prints is checked with all other code of the documents, in
// internal/testkit/snippets.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, strings.Count(string(testkit.Must(os.ReadFile("README.md"))), "\n"), 120)
}

// TestChoosingHasWhatReadmeHas compares the drawing of the guide with the table of README.
func TestChoosingHasWhatReadmeHas(t *testing.T) {
	t.Parallel()
	uses := func(page, from, to string) (names []string) {
		_, section, _ := strings.Cut(string(testkit.Must(os.ReadFile(page))), from)
		section, _, _ = strings.Cut(section, to)
		return regexp.MustCompile(`New\w+|TryDo|AtLeast|Export|Adopt`).FindAllString(section, -1)
	}
	readme := uses("README.md", "\n## Which lock\n", "\n[Choosing]")
	require.Greater(t, len(readme), 8)
	drawn := uses("docs/guide/choosing.md", "\n```mermaid\n", "\n```\n")
	slices.Sort(drawn)
	slices.Sort(readme)
	require.Equal(t, slices.Compact(readme), slices.Compact(drawn))
}

// TestQuickStartStatesTheRequiredVersions checks that the guide and go.mod require the same versions. The tests run with the
// oldest go-redis that the guide permits, because Go selects the version in go.mod.
func TestQuickStartStatesTheRequiredVersions(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	guide, err := os.ReadFile("docs/guide/quickstart.md")
	require.NoError(t, err)
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)\.0$`).FindSubmatch(module)
	client := regexp.MustCompile(`(?m)^\s+github\.com/redis/go-redis/v9 (v\S+)$`).FindSubmatch(module)
	require.NotNil(t, language)
	require.NotNil(t, client)
	require.Contains(t, string(guide), fmt.Sprintf("rlock needs Go %s, go-redis %s or newer,", language[1], client[1]))
	require.NotContains(t, string(module), "\ntoolchain", "a toolchain line asks for more than the go line")
}

// testFiles matches the files that have tests, claims, and their names.
var testFiles = []string{
	"*_test.go", "internal/*/*_test.go", "internal/driver/*/*_test.go", "internal/suites/*/*_test.go", "interop/*_test.go",
	"internal/testkit/*.go", "internal/testkit/*/*.go",
}

// written returns the names of all tests of the library, and all texts in their files. The names of subtests are among them.
func written(t *testing.T) (tests, texts map[string]bool) {
	t.Helper()
	tests, texts = make(map[string]bool), make(map[string]bool)
	for _, pattern := range testFiles {
		for _, file := range testkit.Must(filepath.Glob(pattern)) {
			names, literals := parsed(t, file)
			for _, name := range names {
				tests[name] = true
			}
			for _, literal := range literals {
				texts[literal] = true
			}
		}
	}
	return tests, texts
}

// parsed returns the names of the tests in a file, and its string literals.
func parsed(t *testing.T, file string) (tests, literals []string) {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	ast.Inspect(source, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(n.Name.Name, "Test") {
				tests = append(tests, n.Name.Name)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				literals = append(literals, testkit.Must(strconv.Unquote(n.Value)))
			}
		}
		return true
	})
	return tests, literals
}

// TestLinksLead checks that each link between the documents leads to a file, and to a heading if it names one.
func TestLinksLead(t *testing.T) {
	t.Parallel()
	link, heading := regexp.MustCompile(`\]\(([^)\s]+)\)`), regexp.MustCompile(`(?m)^#+ (.*)$`)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guide/*.md"} {
		for _, file := range testkit.Must(filepath.Glob(pattern)) {
			for _, m := range link.FindAllStringSubmatch(string(testkit.Must(os.ReadFile(file))), -1) {
				path, anchor, named := strings.Cut(m[1], "#")
				if strings.Contains(m[1], "://") {
					continue
				}
				target := file
				if path != "" {
					target = filepath.Join(filepath.Dir(file), path)
				}
				text, err := os.ReadFile(target)
				if info, failed := os.Stat(target); failed == nil && info.IsDir() {
					continue
				}
				require.NoError(t, err, "%s links %s", file, m[1])
				if !named || filepath.Ext(target) != ".md" {
					continue
				}
				var anchors []string
				for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
					plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
					anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
				}
				require.Contains(t, anchors, anchor, "%s links %s", file, m[1])
			}
		}
	}
}
