package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schemata is the source with all mutants.
type schemata struct {
	files    map[string]*goFile  // that a mutant changes
	scripts  map[string][]script // that a mutant changes, by the directory of the package that embeds them
	switches map[string]string   // the name of each package with a mutant, by its directory
}

// script is the text of a script with a bug.
type script struct {
	number   int
	variable string
	text     string
}

// add adds a mutant, given its changed files, and reports whether it is possible.
func (s *schemata) add(number int, planted map[string]string) (bool, error) {
	type change struct {
		file    *goFile
		mutated *goFile
		changed []string
	}
	var changes []change
	scripts, packages := make(map[string][]script), make(map[string]string) // by directory
	for path, text := range planted {
		if filepath.Ext(path) != ".go" {
			dir, pkg, variable, err := embedding(path)
			if err != nil {
				return false, err
			}
			packages[dir] = pkg
			scripts[dir] = append(scripts[dir], script{number, variable, text})
			continue
		}
		f, err := s.fileOf(path)
		if err != nil {
			return false, err
		}
		mutated, err := parse(path, text)
		if err != nil {
			return false, err
		}
		changed, fits := f.differences(mutated)
		if !fits {
			return false, nil
		}
		changes = append(changes, change{f, mutated, changed})
	}
	for _, c := range changes {
		c.file.add(number, c.mutated, c.changed)
		s.switches[filepath.Dir(c.file.path)] = c.file.file.Name.Name
	}
	for dir, changed := range scripts {
		s.scripts[dir] = append(s.scripts[dir], changed...)
		s.switches[dir] = packages[dir]
	}
	return true, nil
}

func (s *schemata) fileOf(path string) (*goFile, error) {
	if f := s.files[path]; f != nil {
		return f, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := parse(path, string(raw))
	if err == nil {
		s.files[path] = f
	}
	return f, err
}

// embedding returns the package that embeds a file, its directory, and the variable. The file is there, or in a directory in it.
func embedding(path string) (dir, pkg, variable string, err error) {
	name := filepath.Base(path)
	for dir = filepath.Dir(path); ; dir = filepath.Dir(dir) {
		sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return "", "", "", err
		}
		embeds := regexp.MustCompile(`(?s)\npackage (\w+)\n.*//go:embed ` + regexp.QuoteMeta(name) + `\n\s*(?:var )?(\w+)`)
		for _, source := range sources {
			raw, err := os.ReadFile(source)
			if err != nil {
				return "", "", "", err
			}
			if m := embeds.FindStringSubmatch("\n" + string(raw)); m != nil {
				return dir, m[1], m[2], nil
			}
		}
		if len(sources) > 0 || dir == filepath.Dir(dir) {
			return "", "", "", fmt.Errorf("nothing embeds %s", path)
		}
		name = filepath.Base(dir) + "/" + name
	}
}

// switchOf returns the file of a package that knows which mutant the process has.
func (s *schemata) switchOf(dir, pkg string, all []Mutant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport \"os\"\n\nvar rlockMutant = map[string]int{", pkg)
	for i, m := range all {
		fmt.Fprintf(&b, "%q: %d, ", m.Name, i+1)
	}
	fmt.Fprintf(&b, "}[os.Getenv(%q)]\n", Env)
	if scripts := s.scripts[dir]; scripts != nil {
		b.WriteString("\nfunc init() {\n")
		for _, one := range scripts {
			fmt.Fprintf(&b, "\tif rlockMutant == %d {\n\t\t%s = %q\n\t}\n", one.number, one.variable, one.text)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// goFile is a file of Go.
type goFile struct {
	path      string
	source    string
	fset      *token.FileSet
	file      *ast.File
	functions map[string]*ast.FuncDecl // by receiver and name
	rest      string                   // without the functions and the imports

	switches map[string][]int // the mutants of each function
	copies   strings.Builder  // of changed functions
	imports  []string         // of the copies
}

func parse(path, source string) (*goFile, error) {
	f := &goFile{path: path, source: source, fset: token.NewFileSet(), functions: make(map[string]*ast.FuncDecl), switches: make(map[string][]int)}
	var err error
	if f.file, err = parser.ParseFile(f.fset, path, source, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	var rest strings.Builder
	for _, d := range f.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			key := d.Name.Name
			if d.Recv != nil {
				key = f.between(d.Recv.List[0].Type.Pos(), d.Recv.List[0].Type.End()) + "." + key
			}
			f.functions[key] = d
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				rest.WriteString(f.between(d.Pos(), d.End()))
			}
		}
	}
	f.rest = rest.String()
	return f, nil
}

func (f *goFile) at(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *goFile) between(from, to token.Pos) string { return f.source[f.at(from):f.at(to)] }

// differences returns the functions that a mutant changes, and reports whether it changes nothing else but imports.
func (f *goFile) differences(mutated *goFile) (changed []string, ok bool) {
	if f.rest != mutated.rest || len(f.functions) != len(mutated.functions) {
		return nil, false
	}
	for key, d := range f.functions {
		m := mutated.functions[key]
		if m == nil {
			return nil, false
		}
		if f.between(d.Pos(), d.End()) == mutated.between(m.Pos(), m.End()) {
			continue
		}
		if d.Name.Name == "init" || f.between(d.Type.Pos(), d.Type.End()) != mutated.between(m.Type.Pos(), m.Type.End()) {
			return nil, false
		}
		changed = append(changed, key)
	}
	slices.Sort(changed)
	return changed, true
}

// add adds the changed functions of a mutant.
func (f *goFile) add(number int, mutated *goFile, changed []string) {
	for _, key := range changed {
		d := mutated.functions[key]
		f.switches[key] = append(f.switches[key], number)
		text := mutated.between(d.Pos(), d.End())
		from, to := mutated.at(d.Name.Pos())-mutated.at(d.Pos()), mutated.at(d.Name.End())-mutated.at(d.Pos())
		f.copies.WriteString("\n" + text[:from] + copyOf(d.Name.Name, number) + text[to:] + "\n")
	}
	for _, one := range mutated.file.Imports {
		spec := mutated.between(one.Pos(), one.End())
		known := slices.ContainsFunc(f.file.Imports, func(i *ast.ImportSpec) bool { return f.between(i.Pos(), i.End()) == spec })
		if !known && !slices.Contains(f.imports, spec) {
			f.imports = append(f.imports, spec)
		}
	}
}

func copyOf(name string, number int) string { return name + "_mutant" + strconv.Itoa(number) }
