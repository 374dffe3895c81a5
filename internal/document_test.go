package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// architecture is the document that these tests compare with the code.
const architecture = "../docs/architecture.md"

// root is the name of the root package in the document.
const root = "rlock (root)"

// document is docs/architecture.md, by the headings of its sections.
type document map[string]string

// readDocument splits the document at its headings.
func readDocument(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile(architecture)
	require.NoError(t, err)
	sections := make(document)
	heading := ""
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			heading = strings.Trim(title, "# \n")
		}
		sections[heading] += line
	}
	return sections
}

// drawing returns the Mermaid drawing of a section.
func (d document) drawing(t *testing.T, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(d[heading], "```mermaid\n")
	require.True(t, found, "the section %q has a drawing", heading)
	drawing, _, _ := strings.Cut(after, "```")
	return drawing
}

// rows returns the cells of the tables in a section, without their headings.
func (d document) rows(heading string) [][]string {
	var rows [][]string
	inTable := false
	for line := range strings.Lines(d[heading]) {
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasPrefix(line, "| ---"):
			inTable = true
		case inTable:
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

var quoted = regexp.MustCompile("`([^`]+)`")

// inQuotes returns everything that stands between backquotes.
func inQuotes(text string) []string {
	var all []string
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// packageOf returns the path of a package that the document may call by its last element.
func packageOf(short string) string {
	for _, floor := range floors {
		for _, pkg := range floor {
			if pkg == short || path.Base(pkg) == short {
				return pkg
			}
		}
	}
	return short
}

// called returns the name of the package at a path.
func called(pkg string) string {
	if pkg == "." {
		return "rlock"
	}
	return path.Base(pkg)
}

// declarations returns what the library declares: package.Name, package.Type.Method and package.Type.field.
func declarations(t *testing.T) map[string]source {
	t.Helper()
	all := make(map[string]source)
	for _, s := range sources(t) {
		prefix := called(s.pkg) + "."
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[prefix+nameOf(d)] = s
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					for _, name := range namesOf(spec) {
						all[prefix+name] = s
					}
				}
			}
		}
	}
	return all
}

// namesOf returns the names that a declaration declares. Those of the fields and methods of a type follow its name.
func namesOf(spec ast.Spec) []string {
	var names []string
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
	case *ast.TypeSpec:
		names = append(names, spec.Name.Name)
		var fields *ast.FieldList
		switch typ := spec.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		default:
			return names
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				names = append(names, spec.Name.Name+"."+name.Name)
			}
		}
	}
	return names
}

// nameOf returns the name of a function, or Type.Method.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && receiver == "" {
			receiver = name.Name
		}
		return true
	})
	return receiver + "." + f.Name.Name
}

// constants returns the constants of a type of the table, in order.
func constants(t *testing.T, file, typ string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("table", file), nil, 0)
	require.NoError(t, err)
	var all []string
	for _, d := range parsed.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		if name, ok := block.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || name.Name != typ {
			continue
		}
		for _, spec := range block.Specs {
			all = append(all, namesOf(spec)...)
		}
	}
	require.NotEmpty(t, all, "%s of %s", typ, file)
	return all
}

// dirOrFile returns a file of a directory, if it is one.
func dirOrFile(file string) string {
	if files, _ := filepath.Glob(filepath.Join(file, "*.go")); len(files) > 0 {
		return files[0]
	}
	return file
}

// checkTest checks that a file has a test, and that the tests beside it name its subtest.
func checkTest(t *testing.T, file, name string) {
	t.Helper()
	has := func(file, what string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Contains(string(text), what)
	}
	test, subtest, hasSubtest := strings.Cut(name, "/")
	require.True(t, has(file, "func "+test+"("), "%s has no %s", file, test)
	if !hasSubtest {
		return
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*_test.go"))
	require.NoError(t, err)
	named := slices.ContainsFunc(beside, func(file string) bool { return has(file, `"`+subtest+`"`) })
	require.True(t, named, "no test beside %s is named %q", file, subtest)
}
