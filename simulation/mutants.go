package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mutantsFile has the planted bugs of the torture. They are read from its source, as it is a test of another module.
const mutantsFile = "../torture/mutants_test.go"

// mutant is a bug planted in rlock.
type mutant struct {
	name, what string
	edits      [][3]string // file, old text, new text
}

// readMutants returns the planted bugs of the torture.
func readMutants(file string) ([]mutant, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []mutant
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "mutants" {
			return true
		}
		list, _ := spec.Values[0].(*ast.CompositeLit)
		for _, e := range list.Elts {
			m, _ := e.(*ast.CompositeLit)
			edits, _ := m.Elts[3].(*ast.CompositeLit)
			one := mutant{name: text(m.Elts[0]), what: text(m.Elts[1])}
			for _, e := range edits.Elts {
				e, _ := e.(*ast.CompositeLit)
				one.edits = append(one.edits, [3]string{text(e.Elts[0]), text(e.Elts[1]), text(e.Elts[2])})
			}
			all = append(all, one)
		}
		return false
	})
	return all, nil
}

// text is the value of an expression of string literals.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	}
	return ""
}

// plant returns the changed files of rlock, by their paths.
func (m mutant) plant(root string) (map[string]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	planted := make(map[string]string)
	for _, e := range m.edits {
		path := filepath.Join(root, e[0])
		text, ok := planted[path]
		if !ok {
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		if n := strings.Count(text, e[1]); n != 1 {
			return nil, fmt.Errorf("%s: its edit of %s fits %d times instead of once", m.name, e[0], n)
		}
		planted[path] = strings.Replace(text, e[1], e[2], 1)
	}
	return planted, nil
}

// hunt plays seeds for each of the mutants, and reports whether all were found. A seed that is not 0 is replayed instead.
func hunt(dir, names string, d draws, seed uint64) (bool, error) {
	all, err := readMutants(mutantsFile)
	if err != nil {
		return false, err
	}
	found, hunted := 0, 0
	for _, m := range all {
		if names != "all" && !slices.Contains(strings.Split(names, ","), m.name) {
			continue
		}
		hunted++
		planted, err := m.plant("..")
		if err != nil {
			return false, err
		}
		b, err := build(dir, planted)
		if err != nil {
			return false, err
		}
		if seed != 0 {
			return b.replay(seed, &d.smaller)
		}
		t := b.draw(d)
		if len(t.broken) == 0 {
			fmt.Printf("%s, %s: not found; %v\n", m.name, m.what, t)
			continue
		}
		found++
		fmt.Printf("%s, %s: found after %v of CPU and %d seeds by seed %d: %s\n",
			m.name, m.what, t.cpu.Round(100*time.Millisecond), t.seeds, t.broken[0].Seed, t.broken[0].Broken[0])
		b.report(t.broken[0], d, " MUTANT="+m.name)
	}
	fmt.Printf("%d of %d mutants found\n", found, hunted)
	return found == hunted, nil
}
