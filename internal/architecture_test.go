// Package internal_test holds the code to the architecture that docs/architecture.md describes.
package internal_test

import (
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
)

const module = "github.com/go-rlock/rlock"

// floors lists the packages from the top down. A package imports only packages of lower floors.
var floors = [][]string{
	{"."},
	{"internal/group"},
	{"internal/client"},
	{"internal/core"},
	{"internal/watchdog", "internal/pubsub"},
	{"internal/transport", "internal/driver/goredis"},
	{"internal/table", "internal/driver", "internal/report"},
	{
		"internal/wire", "internal/task", "internal/queue", "internal/table/internal/fairness", "internal/notice", "internal/lease",
		"internal/owner", "internal/outcome", "internal/config", "internal/table/internal/place",
	},
	{"internal/fault", "internal/clock", "internal/lua", "observe"},
}

// permitted lists what the packages import of each other. An import that is not here needs a decision, and a line here.
var permitted = map[string][]string{
	".": {
		"internal/client", "internal/config", "internal/driver", "internal/driver/goredis", "internal/fault", "internal/group", "internal/notice",
		"internal/table", "internal/wire", "observe",
	},
	"internal/group": {
		"internal/client", "internal/clock", "internal/driver", "internal/fault", "internal/lease", "internal/notice", "internal/owner",
		"internal/report", "internal/table",
	},
	"internal/client": {
		"internal/clock", "internal/config", "internal/core", "internal/driver", "internal/fault", "internal/notice",
		"internal/outcome", "internal/owner", "internal/pubsub", "internal/queue", "internal/report", "internal/table", "internal/task",
		"internal/transport", "internal/watchdog", "internal/wire", "observe",
	},
	"internal/core": {
		"internal/clock", "internal/config", "internal/fault", "internal/lease", "internal/notice", "internal/outcome", "internal/owner",
		"internal/pubsub", "internal/queue", "internal/task", "internal/transport", "internal/watchdog", "internal/wire", "observe",
	},
	"internal/watchdog": {
		"internal/clock", "internal/config", "internal/driver", "internal/fault", "internal/notice", "internal/table", "internal/task",
		"internal/wire",
	},
	"internal/pubsub":         {"internal/clock", "internal/driver", "internal/fault", "internal/queue", "internal/task", "internal/wire"},
	"internal/transport":      {"internal/clock", "internal/driver", "internal/fault", "internal/task", "internal/wire"},
	"internal/driver/goredis": {"internal/driver", "internal/fault", "internal/wire"},
	"internal/table": {
		"internal/clock", "internal/config", "internal/fault", "internal/lease", "internal/notice", "internal/outcome", "internal/owner",
		"internal/queue", "internal/table/internal/fairness", "internal/table/internal/place", "internal/task",
		"internal/wire", "observe",
	},
	"internal/report":                  {"internal/clock", "internal/fault", "internal/notice", "observe"},
	"internal/driver":                  {"internal/fault", "internal/wire"},
	"internal/wire":                    {"internal/fault", "internal/lua"},
	"internal/table/internal/fairness": {"internal/clock"},
	"internal/notice":                  {"internal/clock", "observe"},
	"internal/outcome":                 {"internal/clock", "internal/fault"},
	"internal/lease":                   {"internal/clock"},
	"internal/config":                  {"internal/clock"},
	"internal/table/internal/place":    {"internal/clock"},
}

// goRedis lists the packages that know go-redis.
var goRedis = []string{".", "internal/driver/goredis"}

// lines limits the lines of a package, comments included, without tests. That of the hub is so high because its connections
// to shards ask their nodes for the role. That of the wire is, because it has the calls of all objects.
var lines = map[string]int{
	".": 2074, "internal/group": 1015, "internal/client": 3185, "internal/pubsub": 1465,
	"internal/transport": 1194, "internal/wire": 1802,
}

// house is the table and the packages that are mostly for it, and maxHouse limits the lines of all of them together, so that it is no
// gain to move lines from one to another. It is so high because the line between processes and the queue within one decide together,
// under one mutex, who is next.
var house = []string{"internal/table", "internal/queue", "internal/table/internal/place", "internal/table/internal/fairness"}

const maxHouse = 4836

// These limit the library as a whole, and they only fall: its lines of Go without tests, comments included, its lines of Lua as written, and
// what the root exports: functions, methods, types, constants and variables. internal/core takes the place of the lock table and of the line, kind by
// kind; until the last kind has moved, it counts by itself.
const (
	maxLibrary  = 19718
	maxCore     = 2650
	maxLua      = 3153
	maxExported = 149
)

const (
	maxPackage  = 1190
	maxFile     = 400
	maxFunction = 60
	maxNoLint   = 6
)

// source is one file of the library, without tests.
type source struct {
	path, pkg string
	text      string
	file      *ast.File
	fset      *token.FileSet
}

// sources returns the files of the library.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, floor := range floors {
		for _, pkg := range floor {
			paths, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
			require.NoError(t, err)
			require.NotEmpty(t, paths, "package %s", pkg)
			for _, path := range paths {
				if strings.HasSuffix(path, "_test.go") {
					continue
				}
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				fset := token.NewFileSet()
				file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
				require.NoError(t, err)
				all = append(all, source{path, pkg, string(text), file, fset})
			}
		}
	}
	return all
}

func floorOf(pkg string) int {
	return slices.IndexFunc(floors, func(floor []string) bool { return slices.Contains(floor, pkg) })
}

// TestImportsPointDown checks that every import is permitted, and that what is permitted points down.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, s := range sources(t) {
		for _, imported := range s.file.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			require.NoError(t, err)
			if strings.HasPrefix(path, "github.com/redis/go-redis") {
				require.Contains(t, goRedis, s.pkg, "%s imports go-redis", s.path)
			}
			if rest, ok := strings.CutPrefix(path, module); ok {
				target := strings.TrimPrefix(rest, "/")
				require.Contains(t, permitted[s.pkg], target, "%s imports %s", s.path, path)
				used[s.pkg+" "+target] = true
			}
		}
	}
	for pkg, targets := range permitted {
		for _, target := range targets {
			require.Less(t, floorOf(pkg), floorOf(target), "%s stands above %s", pkg, target)
			require.True(t, used[pkg+" "+target], "%s imports %s no more: take it off the list", pkg, target)
		}
	}
}

// TestOnlyTheLibraryCanBeImported checks that a user can import the root package and observe, and nothing else of its module: what is for
// tests is below internal, and an example is a program.
func TestOnlyTheLibraryCanBeImported(t *testing.T) {
	t.Parallel()
	found := 0
	require.NoError(t, filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, own := os.Stat(filepath.Join(name, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"
			if name != ".." && (own == nil || hidden || d.Name() == "internal") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || filepath.Dir(name) == ".." || filepath.Dir(name) == filepath.Join("..", "observe") {
			return nil
		}
		found++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly)
		require.NoError(t, err)
		require.Equal(t, "main", file.Name.Name, "%s is of a package that users may import", name)
		return nil
	}))
	require.NotZero(t, found, "examples are programs")
}

// TestSizes checks that no file, function or package hides a second idea.
func TestSizes(t *testing.T) {
	t.Parallel()
	packages, rootFiles := make(map[string]int), 0
	for _, s := range sources(t) {
		n := strings.Count(s.text, "\n")
		require.LessOrEqual(t, n, maxFile, s.path)
		packages[s.pkg] += n
		if s.pkg == "." {
			rootFiles++
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				length := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
				require.LessOrEqual(t, length, maxFunction, "%s: %s", s.path, f.Name.Name)
			}
		}
	}
	inHouse := 0
	for _, pkg := range house {
		inHouse += packages[pkg]
	}
	require.LessOrEqual(t, inHouse, maxHouse, "packages %v", house)
	require.LessOrEqual(t, packages["internal/core"], maxCore, "lines of the next core")
	for pkg, n := range packages {
		if slices.Contains(house, pkg) || pkg == "internal/core" {
			continue
		}
		limit := maxPackage
		if own, ok := lines[pkg]; ok {
			limit = own
		}
		require.LessOrEqual(t, n, limit, "package %s", pkg)
	}
	total := 0
	for pkg, n := range packages {
		if pkg != "internal/core" {
			total += n
		}
	}
	require.LessOrEqual(t, total, maxLibrary, "lines of the library")
	require.LessOrEqual(t, rootFiles, 26, "files in the root")
	tests, err := filepath.Glob("../*_test.go")
	require.NoError(t, err)
	require.LessOrEqual(t, len(tests), 10, "test files in the root")
}

// TestTheScriptsAreShort checks the length of the Lua sources.
func TestTheScriptsAreShort(t *testing.T) {
	t.Parallel()
	former, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	next, err := filepath.Glob("core/lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, next)
	n := 0
	for _, path := range append(former, next...) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		n += strings.Count(string(text), "\n")
	}
	require.LessOrEqual(t, n, maxLua)
}

// TestTheAPIIsSmall counts what the root exports.
func TestTheAPIIsSmall(t *testing.T) {
	t.Parallel()
	exported := 0
	count := func(name *ast.Ident) {
		if name.IsExported() {
			exported++
		}
	}
	for _, s := range sources(t) {
		if s.pkg != "." {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				count(d.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						count(spec.Name)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							count(name)
						}
					}
				}
			}
		}
	}
	require.LessOrEqual(t, exported, maxExported)
}

// TestHouseRules checks rules that a linter does not know.
func TestHouseRules(t *testing.T) {
	t.Parallel()
	noLint := 0
	for _, s := range sources(t) {
		noLint += strings.Count(s.text, "//nolint")
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if st, ok := n.Type.(*ast.StructType); ok && !slices.Contains(keepsContext, s.pkg+"."+n.Name.Name) {
					checkNoContext(t, s, n.Name.Name, st)
				}
			case *ast.FuncDecl:
				if s.pkg != "internal/wire" {
					checkNoPositional(t, s, n)
				}
			}
			return true
		})
	}
	require.LessOrEqual(t, noLint, maxNoLint, "exceptions from the linters")
}

// TestLogLines checks that what is logged is a message of internal/notice, which docs/guide/observing.md lists, and that each is used.
func TestLogLines(t *testing.T) {
	t.Parallel()
	direct, used := regexp.MustCompile(`\.LogAttrs\(|slog\.(Debug|Info|Warn|Error)(Context)?\(|notice\.Message\{`), ""
	messages := regexp.MustCompile(`(?m)^\t(Log\w+) += &Message\{`)
	var names []string
	for _, s := range sources(t) {
		if s.pkg == "internal/notice" {
			for _, m := range messages.FindAllStringSubmatch(s.text, -1) {
				names = append(names, m[1])
			}
			continue
		}
		used += s.text
		if s.path != filepath.Join("..", "internal", "client", "log.go") {
			require.NotRegexp(t, direct, s.text, s.path)
		}
	}
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Regexp(t, `notice\.`+name+`\b`, used, "nothing logs it")
	}
}

// keepsContext lists the types that keep a context: a hold, because its own is a child of it, and what is told to an observer when
// the hold is over, because the values of a span are in it.
var keepsContext = []string{"internal/driver.Lent", "internal/client.Hold", "internal/report.Span", "internal/report.valued"}

// checkNoContext checks that a struct keeps no context. A context type itself may embed one.
func checkNoContext(t *testing.T, s source, name string, st *ast.StructType) {
	t.Helper()
	for _, field := range st.Fields.List {
		sel, ok := field.Type.(*ast.SelectorExpr)
		isContext := ok && sel.Sel.Name == "Context"
		require.False(t, isContext && len(field.Names) > 0, "%s: %s keeps a context", s.path, name)
	}
}

// checkNoPositional checks that a function takes no arguments of a script as a bare list.
func checkNoPositional(t *testing.T, s source, f *ast.FuncDecl) {
	t.Helper()
	for _, p := range f.Type.Params.List {
		list, isList := p.Type.(*ast.ArrayType)
		if !isList {
			continue
		}
		elem, isName := list.Elt.(*ast.Ident)
		require.False(t, isName && elem.Name == "any" && f.Name.IsExported(), "%s: %s takes []any", s.path, f.Name.Name)
	}
}
