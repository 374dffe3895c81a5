package analyzers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheStubIsTheAPI compares the stub of rlock, with which the analyzers are tested, with rlock.
func TestTheStubIsTheAPI(t *testing.T) {
	t.Parallel()
	api, stub := exported(t, "../../*.go"), exported(t, "testdata/src/"+library+"/*.go")
	if len(stub) < 50 {
		t.Errorf("the stub has only %d declarations", len(stub))
	}
	for name, have := range stub {
		if want, ok := api[name]; !ok || have != "" && have != want {
			t.Errorf("the stub has %s %s, the library %q", name, have, want)
		}
	}
}

// TestEveryMethodIsKnown fails if rlock.Hold has a method of which nobody has decided what it means for the hold.
func TestEveryMethodIsKnown(t *testing.T) {
	t.Parallel()
	var have []string
	for name := range exported(t, "../../*.go") {
		if method, ok := strings.CutPrefix(name, "(*Hold) "); ok {
			have = append(have, method)
		}
	}
	slices.Sort(have)
	if known := slices.Sorted(maps.Keys(methods)); !slices.Equal(have, known) {
		t.Errorf("rlock.Hold has the methods %v, and the analyzers know %v: add the new ones to methods", have, known)
	}
}

// exported returns the signatures of the functions and methods that files export, and the names of the types and variables.
func exported(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Skip("rlock is not beside this module")
	}
	found := make(map[string]string)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			declare(found, decl)
		}
	}
	return found
}

func declare(found map[string]string, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = "(" + types.ExprString(d.Recv.List[0].Type) + ") " + name
		}
		if d.Name.IsExported() {
			found[name] = signatureText(d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					found[name.Name] = ""
				}
			case *ast.TypeSpec:
				found[s.Name.Name] = ""
				if methods, ok := s.Type.(*ast.InterfaceType); ok {
					declareMethods(found, s.Name.Name, methods)
				}
			}
		}
	}
}

func declareMethods(found map[string]string, of string, methods *ast.InterfaceType) {
	for _, m := range methods.Methods.List {
		if fn, ok := m.Type.(*ast.FuncType); ok {
			found["("+of+") "+m.Names[0].Name] = signatureText(fn)
		} else {
			found["("+of+") "+types.ExprString(m.Type)] = ""
		}
	}
}

// signatureText returns the types of a function's type parameters, parameters and results.
func signatureText(fn *ast.FuncType) string {
	var text strings.Builder
	for _, fields := range []*ast.FieldList{fn.TypeParams, fn.Params, fn.Results} {
		text.WriteString("(")
		if fields != nil {
			for _, field := range fields.List {
				for range max(1, len(field.Names)) {
					text.WriteString(types.ExprString(field.Type) + ", ")
				}
			}
		}
		text.WriteString(")")
	}
	return text.String()
}
