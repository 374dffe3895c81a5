package driver_test

import (
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "record the edition of what driver modules use, if it is a new one")

// library is the part of the path of a package that is common to the packages of the root module.
const library = "github.com/go-rlock/rlock/"

// seam is the package whose types driver modules exchange with rlock.
const seam = "internal/driver"

// used collects what the driver modules use of the root module's internal packages, and what that mentions.
type used struct {
	t     *testing.T
	fset  *token.FileSet
	names map[string]bool // of all identifiers in the driver module
	files map[string][]*ast.File
	lines map[string]string // by package.Name
}

// parse returns the files of a package, without tests.
func (u *used) parse(pattern string) (files []*ast.File) {
	u.t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(u.t, err)
	for _, file := range paths {
		if !strings.HasSuffix(file, "_test.go") {
			parsed, err := parser.ParseFile(u.fset, file, nil, 0)
			require.NoError(u.t, err)
			files = append(files, parsed)
		}
	}
	require.NotEmpty(u.t, files, pattern)
	return files
}

// mentions adds what a node mentions of internal packages. own is the package of the node.
func (u *used) mentions(own string, file *ast.File, node ast.Node) {
	imported := make(map[string]string)
	for _, spec := range file.Imports {
		if name, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), library); ok {
			imported[path.Base(name)] = name
		}
	}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] != "" {
				u.add(imported[x.Name], n.Sel.Name)
				return false
			}
		case *ast.Ident:
			if own != "" && n.IsExported() {
				u.add(own, n.Name)
			}
		}
		return true
	})
}

// add adds what a package declares by a name, if it does.
func (u *used) add(pkg, name string) {
	key := pkg + "." + name
	if _, ok := u.lines[key]; ok || strings.Contains(name, "MustHaveTheSameMinorVersion") {
		return
	}
	if u.files[pkg] == nil {
		u.files[pkg] = u.parse(filepath.Join("..", "..", pkg, "*.go"))
	}
	for _, file := range u.files[pkg] {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if receiver(decl) == name && u.names[decl.Name.Name] && decl.Name.IsExported() {
					u.line(pkg, key+"."+decl.Name.Name, file, decl.Type)
				} else if decl.Recv == nil && decl.Name.Name == name {
					u.line(pkg, key, file, decl.Type)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					u.spec(pkg, name, file, spec)
				}
			}
		}
	}
}

// spec adds a declaration of a type, a constant or a variable, if it is that of a name.
func (u *used) spec(pkg, name string, file *ast.File, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.Name != name {
			return
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			s.Fields.List = slices.DeleteFunc(s.Fields.List, func(f *ast.Field) bool {
				return len(f.Names) > 0 && !slices.ContainsFunc(f.Names, func(n *ast.Ident) bool {
					// A field that is new to a type of another's, such as a script, is nothing to a driver module.
					return n.IsExported() && (pkg == seam || u.names[n.Name])
				})
			})
		}
		u.line(pkg, pkg+"."+name, file, spec.Type)
	case *ast.ValueSpec:
		for _, n := range spec.Names {
			if n.Name == name {
				u.line(pkg, pkg+"."+name, file, spec.Type)
			}
		}
	}
}

// line adds the text of a declaration, and what it mentions.
func (u *used) line(pkg, key string, file *ast.File, typ ast.Expr) {
	u.lines[key] = key
	if typ == nil {
		return
	}
	var text strings.Builder
	require.NoError(u.t, format.Node(&text, token.NewFileSet(), typ)) // a set that knows no lines, so the text does not depend on them
	u.lines[key] = key + " " + strings.Join(strings.Fields(text.String()), " ")
	u.mentions(pkg, file, typ)
}

func receiver(f *ast.FuncDecl) (name string) {
	if f.Recv != nil {
		ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && name == "" {
				name = id.Name
			}
			return true
		})
	}
	return name
}

// TestAChangeForDriverModulesIsANewEdition compares what the driver modules use with the record of the edition. They compile with any
// version of rlock that has the constant of their edition, so a change asks for another constant: see edition.go.
func TestAChangeForDriverModulesIsANewEdition(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("edition.go")
	require.NoError(t, err)
	numbers := regexp.MustCompile(`SameMinorVersion(\d+)`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, numbers, 2)
	require.Equal(t, numbers[0][1], numbers[1][1], "the editions of rlockrueidis and rlockvalkey, which is generated from it")

	u := &used{t: t, fset: token.NewFileSet(), names: make(map[string]bool), files: make(map[string][]*ast.File), lines: make(map[string]string)}
	module := u.parse("../../rlockrueidis/*.go")
	for _, file := range module {
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				u.names[id.Name] = true
			}
			return true
		})
	}
	for _, file := range module {
		u.mentions("", file, file)
	}
	var have strings.Builder
	for _, line := range slices.Sorted(func(yield func(string) bool) {
		for _, line := range u.lines {
			if !yield(line) {
				return
			}
		}
	}) {
		have.WriteString(line + "\n")
	}
	record := filepath.Join("testdata", "edition"+numbers[0][1]+".txt")
	want, err := os.ReadFile(record)
	if os.IsNotExist(err) && *update {
		require.NoError(t, os.WriteFile(record, []byte(have.String()), 0o644))
		return
	}
	require.NoError(t, err)
	require.Equal(t, string(want), have.String(), "What rlockrueidis and rlockvalkey use has changed. "+
		"Has a release the constants of edition.go, give them the number %s and use them in rlockrueidis/agreement.go; otherwise delete %s. "+
		"Then run the test with -update.", next(numbers[0][1]), record)
}

func next(number string) string {
	n, _ := strconv.Atoi(number)
	return strconv.Itoa(n + 1)
}
