package internal_test

import (
	"go/ast"
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

// TestFloorsAreDrawn checks the drawing of the floors against the lists of floors and of permitted imports.
func TestFloorsAreDrawn(t *testing.T) {
	t.Parallel()
	drawing := readDocument(t).drawing(t, "The floors")
	drawn := make([][]string, 0, len(floors))
	ids := make(map[string]string)
	arrows := make(map[string][]string)
	for line := range strings.Lines(drawing) {
		if strings.Contains(line, "subgraph") {
			drawn = append(drawn, nil)
		}
		if m := regexp.MustCompile(`^\s+(\w+)\["(.+)"\]`).FindStringSubmatch(line); m != nil {
			pkg := strings.Replace(m[2], root, ".", 1)
			ids[m[1]] = pkg
			drawn[len(drawn)-1] = append(drawn[len(drawn)-1], pkg)
		}
		if m := regexp.MustCompile(`^\s+(\w+) --> (\w+)$`).FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			arrows[ids[m[1]]] = append(arrows[ids[m[1]]], ids[m[2]])
		}
	}
	require.Len(t, drawn, len(floors))
	for i, floor := range floors {
		require.ElementsMatch(t, floor, drawn[i], "floor %d", len(floors)-1-i)
	}
	for pkg, imported := range permitted {
		want := slices.DeleteFunc(slices.Clone(imported), func(p string) bool { return floorOf(p) >= len(floors)-2 })
		require.ElementsMatch(t, want, arrows[pkg], "arrows from %s", pkg)
		delete(arrows, pkg)
	}
	require.Empty(t, arrows)
}

// TestPackagesAreListed checks that each package has its row, with the imports that are permitted.
func TestPackagesAreListed(t *testing.T) {
	t.Parallel()
	want := []string{"."}
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || name == "." {
			return err
		}
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		if len(files) > 0 {
			want = append(want, "internal/"+filepath.ToSlash(name))
		}
		return err
	}))
	types := declarations(t)
	var listed []string
	for _, row := range readDocument(t).rows("Where things live") {
		if len(row) != 4 {
			continue // of the questions
		}
		pkg := inQuotes(row[0])[0]
		if pkg == "rlock" {
			pkg = "."
		}
		listed = append(listed, pkg)
		for _, name := range inQuotes(row[2]) {
			require.Contains(t, types, called(pkg)+"."+name, "the main types of %s", pkg)
		}
		if floorOf(pkg) < 0 {
			continue
		}
		imports := inQuotes(row[3])
		for i, short := range imports {
			imports[i] = packageOf(short)
		}
		require.ElementsMatch(t, permitted[pkg], imports, "the imports of %s", pkg)
	}
	require.Subset(t, listed, want)
}

// transition is an arrow in a drawing of states.
type transition struct{ from, to, label string }

var transitionLine = regexp.MustCompile(`(?m)^ +(\S+) --> (\w+|\[\*\])(?:: (.*))?$`)

func transitions(drawing string) []transition {
	var all []transition
	for _, m := range transitionLine.FindAllStringSubmatch(drawing, -1) {
		all = append(all, transition{m[1], m[2], m[3]})
	}
	return all
}

// TestStatesAreDrawn checks that the drawings of states have the stages of a grant and the phases of an attempt and of an
// exit, in the order of the code, and that each can be reached and left.
func TestStatesAreDrawn(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for _, states := range []struct{ heading, file, typ string }{
		{"The states of a grant", "stages.go", "stage"},
		{"The phases of an attempt", "stages.go", "phase"},
		{"The phases of an exit", "stages.go", "exitPhase"},
	} {
		var order, reached, left []string
		add := func(list []string, state string) []string {
			if state == "[*]" || slices.Contains(list, state) {
				return list
			}
			return append(list, state)
		}
		for _, arrow := range transitions(d.drawing(t, states.heading)) {
			order = add(add(order, arrow.from), arrow.to)
			reached, left = add(reached, arrow.to), add(left, arrow.from)
		}
		want := constants(t, states.file, states.typ)
		require.Equal(t, want, order, states.heading)
		require.ElementsMatch(t, want, reached, "%s: reached", states.heading)
		require.ElementsMatch(t, want, left, "%s: left", states.heading)
	}
}

// TestStagesAreSetWhereDrawn checks that the arrows to each stage name exactly the functions that set it.
func TestStagesAreSetWhereDrawn(t *testing.T) {
	t.Parallel()
	stages := constants(t, "stages.go", "stage")
	set := make(map[string]bool) // stage (function)
	for _, s := range sources(t) {
		if s.pkg != "internal/table" {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
					for i := range a.Lhs {
						field, isField := a.Lhs[i].(*ast.SelectorExpr)
						value, isName := a.Rhs[i].(*ast.Ident)
						if isField && isName && field.Sel.Name == "stage" && slices.Contains(stages, value.Name) {
							set[value.Name+" ("+f.Name.Name+")"] = true
						}
					}
				}
				return true
			})
		}
	}
	drawn := make(map[string]bool)
	function := regexp.MustCompile(`\(\w+\)$`)
	for _, arrow := range transitions(readDocument(t).drawing(t, "The states of a grant")) {
		if arrow.from != "[*]" && arrow.to != "[*]" {
			drawn[arrow.to+" "+function.FindString(arrow.label)] = true
		}
	}
	require.Equal(t, set, drawn)
}

// TestCallsAreDrawn checks that the calls in the sequence drawings are methods of the packages that they reach.
func TestCallsAreDrawn(t *testing.T) {
	t.Parallel()
	packages := map[string]string{"table": "table", "conn": "transport", "hub": "pubsub", "driver": "driver", "dog": "watchdog"}
	declared := make(map[string]bool)
	for name := range declarations(t) {
		parts := strings.Split(name, ".")
		declared[parts[0]+"."+parts[len(parts)-1]] = true
	}
	d := readDocument(t)
	call := regexp.MustCompile(`(?m)^ +(\w+)->>(\w+): (\w+)`)
	for _, heading := range []string{"A plain lock, from the call to the return", "A write lock, from the call to the return", "The reply comes after the caller left"} {
		calls := call.FindAllStringSubmatch(d.drawing(t, heading), -1)
		require.Greater(t, len(calls), 5, heading)
		for _, m := range calls {
			if pkg, ok := packages[m[2]]; ok {
				require.Contains(t, declared, pkg+"."+m[3], "%s: %s", heading, m[0])
			}
		}
	}
}

// TestGoroutinesAreListed checks that the document has every function that starts a goroutine, a timer with a function, or a
// cleanup.
func TestGoroutinesAreListed(t *testing.T) {
	t.Parallel()
	var want []string
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && starts(f) {
				want = append(want, called(s.pkg)+"."+nameOf(f))
			}
		}
	}
	var listed []string
	for _, row := range readDocument(t).rows("Goroutines") {
		listed = append(listed, inQuotes(row[1])...)
	}
	require.ElementsMatch(t, want, listed)
}

// TestGoroutinesAreDrawn checks that the drawing has every goroutine of the table, and that Close ends them in the order drawn.
func TestGoroutinesAreDrawn(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	drawing := d.drawing(t, "Goroutines")
	drawn := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\w\["([^"]+)"\]`).FindAllStringSubmatch(drawing, -1) {
		drawn[m[1]] = true
	}
	listed := make(map[string]bool)
	for _, row := range d.rows("Goroutines") {
		name, _, _ := strings.Cut(row[0], ",")
		listed[name] = true
	}
	require.Equal(t, listed, drawn)

	var want, order []string
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.pkg == "internal/client" && nameOf(f) == "Client.Close" {
				want = callsOfParts(f)
			}
		}
	}
	for i, m := range regexp.MustCompile(`(\d+) (\w+\.\w+)`).FindAllStringSubmatch(drawing, -1) {
		require.Equal(t, strconv.Itoa(i+1), m[1])
		order = append(order, m[2])
	}
	require.Equal(t, want, order)
}

// callsOfParts returns the methods that a function calls on fields of its receiver c, as field.Method.
func callsOfParts(f *ast.FuncDecl) []string {
	var calls []string
	ast.Inspect(f, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall {
			return true
		}
		method, isMethod := call.Fun.(*ast.SelectorExpr)
		if !isMethod {
			return true
		}
		part, isPart := method.X.(*ast.SelectorExpr)
		if !isPart || part.Sel.Name == "closing" { // the sync.Once around them
			return true
		}
		if receiver, ok := part.X.(*ast.Ident); ok && receiver.Name == "c" {
			calls = append(calls, part.Sel.Name+"."+method.Sel.Name)
		}
		return true
	})
	return calls
}

// starts reports whether a function starts a goroutine, now or later.
func starts(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok {
				found = found || slices.Contains([]string{"Go", "AfterFunc", "AddCleanup"}, method.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestMutexesAreOrdered checks that the section about the lock order has every mutex.
func TestMutexesAreOrdered(t *testing.T) {
	t.Parallel()
	want := make(map[string]bool)
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType {
				return true
			}
			st, isStruct := spec.Type.(*ast.StructType)
			if !isStruct {
				return true
			}
			for _, field := range st.Fields.List {
				if typ, ok := field.Type.(*ast.SelectorExpr); ok && strings.HasSuffix(typ.Sel.Name, "Mutex") {
					for _, name := range field.Names {
						want[called(s.pkg)+"."+spec.Name.Name+"."+name.Name] = true
					}
				}
			}
			return true
		})
	}
	have := make(map[string]bool)
	for _, name := range regexp.MustCompile(`\w+\.\w+\.mu\b`).FindAllString(readDocument(t)["Lock order"], -1) {
		have[name] = true
	}
	require.Equal(t, want, have)
}

// TestInvariantsHaveTests checks that each invariant has one row, which links its place in the code and its test.
func TestInvariantsHaveTests(t *testing.T) {
	t.Parallel()
	rows := readDocument(t).rows("The invariants")
	require.Len(t, rows, 11)
	for _, row := range rows {
		require.Len(t, row, 4, row[0])
		require.Contains(t, row[2], "](../internal/", "the place of invariant %s", row[0])
		require.Contains(t, row[3], "[Test", "the test of invariant %s", row[0])
	}
}

var identifier = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)*$`)

// TestArchitectureDocument checks that every linked file exists, and has what the link names: a test, or a declaration.
func TestArchitectureDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(architecture)
	require.NoError(t, err)
	headings := make(map[string]bool)
	for heading := range readDocument(t) {
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading), "")
		headings["#"+strings.ReplaceAll(anchor, " ", "-")] = true
	}
	declared := declarations(t)
	links := regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(links), 50)
	for _, link := range links {
		name, target := strings.Trim(link[1], "`"), link[2]
		if strings.HasPrefix(target, "#") {
			require.Contains(t, headings, target, link[0])
			continue
		}
		file := filepath.Join("../docs", target)
		require.FileExists(t, dirOrFile(file), link[0])
		switch {
		case strings.HasPrefix(name, "Test"):
			checkTest(t, file, name)
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(name, ".go") && identifier.MatchString(name):
			pkg, err := filepath.Rel("..", filepath.Dir(file))
			require.NoError(t, err)
			prefix := called(filepath.ToSlash(pkg)) + "."
			s, ok := declared[prefix+strings.TrimPrefix(name, prefix)]
			require.True(t, ok, "%s: nothing is declared by that name", link[0])
			require.Equal(t, filepath.Clean(file), filepath.Clean(s.path), link[0])
		}
	}
}
