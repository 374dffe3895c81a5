package mutants

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// insertion is a text that replaces a part of a file, or goes between two parts.
type insertion struct {
	from, to int
	text     string
}

// text returns the file with its mutants. Each line of the original stays where it is.
func (f *goFile) text() string {
	var all []insertion
	insert := func(at int, text string) { all = append(all, insertion{at, at, text}) }
	for _, spec := range f.imports {
		insert(f.at(f.file.Name.End()), "; import "+spec)
	}
	for key, numbers := range f.switches {
		d := f.functions[key]
		call := f.call(d, func(from, to int, text string) { all = append(all, insertion{from, to, text}) })
		var b strings.Builder
		for _, n := range numbers {
			one := fmt.Sprintf(call, copyOf(d.Name.Name, n))
			if d.Type.Results == nil {
				one += "; return"
			} else {
				one = "return " + one
			}
			fmt.Fprintf(&b, " if rlockMutant == %d { %s };", n, one)
		}
		insert(f.at(d.Body.Lbrace)+1, b.String())
	}
	slices.SortStableFunc(all, func(a, b insertion) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	last := 0
	for _, one := range all {
		b.WriteString(f.source[last:one.from] + one.text)
		last = one.to
	}
	b.WriteString(f.source[last:] + f.copies.String())
	return b.String()
}

// call returns a call of the function with its own arguments, with %s for the name. Parameters without a name get one.
func (f *goFile) call(d *ast.FuncDecl, replace func(from, to int, text string)) string {
	count := 0
	names := func(list *ast.FieldList) (all []string) {
		for _, field := range list.List {
			spread := ""
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				spread = "..."
			}
			name := func(from, to token.Pos, space string) {
				count++
				all = append(all, fmt.Sprintf("unnamed%d%s", count, spread))
				replace(f.at(from), f.at(to), fmt.Sprintf("unnamed%d%s", count, space))
			}
			if len(field.Names) == 0 {
				name(field.Type.Pos(), field.Type.Pos(), " ")
			}
			for _, one := range field.Names {
				if one.Name == "_" {
					name(one.Pos(), one.End(), "")
				} else {
					all = append(all, one.Name+spread)
				}
			}
		}
		return all
	}
	receiver := ""
	if d.Recv != nil {
		receiver = names(d.Recv)[0] + "."
	}
	kinds := ""
	if d.Type.TypeParams != nil {
		kinds = "[" + strings.Join(names(d.Type.TypeParams), ", ") + "]"
	}
	return receiver + "%s" + kinds + "(" + strings.Join(names(d.Type.Params), ", ") + ")"
}
