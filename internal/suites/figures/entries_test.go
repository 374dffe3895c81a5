package figures

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
)

// overlayEntries writes an overlay for `go test -overlay`, and the copies that it names, to a directory. It returns the path of the overlay.
// The packages are directories below the root of the repository.
func overlayEntries(dir, root string, packages []string) (string, error) {
	files := make(map[string]string)
	for _, pkg := range packages {
		paths, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			return "", err
		}
		for _, name := range paths {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			name, err = filepath.Abs(name)
			if err != nil {
				return "", err
			}
			if files[name], err = reporting(name, pkg); err != nil {
				return "", err
			}
		}
	}
	return mutants.Overlay(dir, files)
}

// reporting returns the text of a file in which each function reports its entry.
func reporting(name, pkg string) (string, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, raw, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	insert := map[int]string{fset.Position(file.Name.End()).Offset: "; import entriesOfFunctions " + `"github.com/go-rlock/rlock/internal/testkit/entries"`}
	found := 0
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			found++
			insert[fset.Position(f.Body.Lbrace).Offset+1] = fmt.Sprintf(" entriesOfFunctions.Enter(%q); ", path.Join("rlock", pkg)+" "+nameOf(f))
		}
	}
	if found == 0 {
		return string(raw), nil
	}
	var text strings.Builder
	for i, b := range raw {
		text.WriteString(insert[i])
		text.WriteByte(b)
	}
	return text.String(), nil
}

// nameOf returns the name of a function, with its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
			continue
		case *ast.IndexExpr:
			receiver = t.X
			continue
		case *ast.IndexListExpr:
			receiver = t.X
			continue
		}
		break
	}
	return fmt.Sprint(receiver) + "." + f.Name.Name
}
