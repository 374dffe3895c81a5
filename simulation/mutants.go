package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
)

// mutantsFiles have the planted bugs of the torture. They are read from its source, as it is a test of another module.
var mutantsFiles = []string{"../torture/mutants_test.go", "../torture/mutants_field_test.go"}

// elsewhere are the planted bugs that nothing in the simulation can show, with the reason and the suite that finds them.
var elsewhere = map[string]string{
	"M3":  "it is in the driver for go-redis, and the simulation has a driver of its own; the torture finds it",
	"M62": "it is in the driver for go-redis; the torture finds it",
	"M63": "it is in the driver for go-redis; the torture finds it",
	"F8":  "the driver of the simulation makes no connections for commands; internal/lease finds it",
	"F9":  "it costs time of Redis's processor, which takes no virtual time; internal/wire finds it",
}

// readMutants returns the planted bugs of the torture.
func readMutants(file string) ([]mutants.Mutant, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []mutants.Mutant
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasSuffix(strings.ToLower(spec.Names[0].Name), "mutants") {
			return true
		}
		list, _ := spec.Values[0].(*ast.CompositeLit)
		for _, e := range list.Elts {
			m, _ := e.(*ast.CompositeLit)
			edits, _ := m.Elts[3].(*ast.CompositeLit)
			one := mutants.Mutant{Name: text(m.Elts[0]), What: text(m.Elts[1])}
			for _, e := range edits.Elts {
				e, _ := e.(*ast.CompositeLit)
				one.Edits = append(one.Edits, mutants.Edit{File: text(e.Elts[0]), Old: text(e.Elts[1]), New: text(e.Elts[2])})
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

// allMutants returns the planted bugs of the torture, and those of the table, whose names begin with "table ".
func allMutants() ([]mutants.Mutant, error) {
	var all []mutants.Mutant
	for _, file := range mutantsFiles {
		some, err := readMutants(file)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	for _, m := range mutants.Table {
		m.Name = "table " + m.Name
		all = append(all, m)
	}
	return all, nil
}

// chosen reports whether a mutant is one of the names: its own, "all", or "table" and "torture" for those from there.
func chosen(m mutants.Mutant, names []string) bool {
	from := "torture"
	if strings.HasPrefix(m.Name, "table ") {
		from = "table"
	}
	return slices.ContainsFunc(names, func(name string) bool { return name == "all" || name == from || name == m.Name })
}

// hunt plays seeds for each of the mutants, and reports whether all were found. A seed that is not 0 is replayed instead.
func hunt(dir, names string, d draws, seed uint64) (bool, error) {
	all, err := allMutants()
	if err != nil {
		return false, err
	}
	all = slices.DeleteFunc(all, func(m mutants.Mutant) bool { return !chosen(m, strings.Split(names, ",")) })
	files, rest, err := mutants.Schemata("..", all)
	if err != nil {
		return false, err
	}
	shared, err := build(dir, files)
	if err != nil {
		return false, err
	}
	found, hunted := 0, 0
	for _, m := range all {
		if why := elsewhere[m.Name]; why != "" && seed == 0 {
			fmt.Printf("%s, %s: not hunted: %s\n", m.Name, m.What, why)
			continue
		}
		hunted++
		b := shared
		if slices.ContainsFunc(rest, func(r mutants.Mutant) bool { return r.Name == m.Name }) {
			if b, err = buildAlone(dir, m); err != nil {
				return false, err
			}
		}
		b.mutant = m.Name
		if seed != 0 {
			return b.replay(seed, &d.smaller)
		}
		t := b.draw(d)
		if len(t.broken) == 0 {
			fmt.Printf("%s, %s: not found; %v\n", m.Name, m.What, t)
			continue
		}
		found++
		fmt.Printf("%s, %s: found after %v of CPU and %d seeds by seed %d: %s\n",
			m.Name, m.What, t.cpu.Round(100*time.Millisecond), t.seeds, t.broken[0].Seed, t.broken[0].Broken[0])
		if len(all) == 1 {
			b.report(t.broken[0], d, fmt.Sprintf(" MUTANT=%q", m.Name))
		}
	}
	fmt.Printf("%d of %d mutants found\n", found, hunted)
	return found == hunted, nil
}

// buildAlone builds the binary with one mutant.
func buildAlone(dir string, m mutants.Mutant) (*binary, error) {
	files, err := m.Plant("..")
	if err != nil {
		return nil, err
	}
	dir, err = os.MkdirTemp(dir, "alone-")
	if err != nil {
		return nil, err
	}
	return build(dir, files)
}
