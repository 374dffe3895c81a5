package snippets

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// server is the address of Redis in the documents. The code gets that of another one.
const server = `"localhost:6379"`

// source is the Go file of a snippet.
type source struct {
	snippet

	text    string
	module  string // which has the packages that it needs
	program bool
}

// packages has the packages that snippets name, and the modules which have them, if they are not the root's.
var packages = map[string]struct{ path, module string }{
	"context": {path: "context"}, "errors": {path: "errors"}, "fmt": {path: "fmt"}, "http": {path: "net/http"}, "log": {path: "log"},
	"os": {path: "os"}, "signal": {path: "os/signal"}, "slog": {path: "log/slog"}, "strings": {path: "strings"},
	"synctest": {path: "testing/synctest"}, "syscall": {path: "syscall"}, "testing": {path: "testing"}, "time": {path: "time"},
	"redis":        {path: "github.com/redis/go-redis/v9"},
	"rlock":        {path: "github.com/go-rlock/rlock"},
	"snippets":     {path: "github.com/go-rlock/rlock/internal/testkit/snippets"},
	"gocron":       {"github.com/go-co-op/gocron/v2", "rlockcron"},
	"rlockcron":    {"github.com/go-rlock/rlock/rlockcron", "rlockcron"},
	"rlockotel":    {"github.com/go-rlock/rlock/rlockotel", "rlockotel"},
	"rlockrueidis": {"github.com/go-rlock/rlock/rlockrueidis", "rlockrueidis"},
	"rlocktest":    {"github.com/go-rlock/rlock/rlocktest", "rlocktest"},
	"embedded":     {"github.com/go-rlock/rlock/rlocktest/embedded", "rlocktest"},
	"rueidis":      {"github.com/redis/rueidis", "rlockrueidis"},
}

const clause = "package tests\n"

// source returns the Go file of a snippet. If the code does not parse, the compiler will say so.
func (s snippet) source(root string) (source, error) {
	at := func(line int) string { return fmt.Sprintf("//line %s:%d\n", filepath.Join(root, s.page), line) }
	src := source{snippet: s, module: "."}
	if strings.HasPrefix(s.code, "package main\n") {
		src.program, src.text = true, at(s.line)+s.code
		return src, nil
	}
	text := at(s.line) + s.code
	if _, err := parser.ParseFile(token.NewFileSet(), "", clause+s.code, parser.SkipObjectResolution); err != nil {
		text = s.function(at(s.line))
	}
	if s.given != "" {
		text += at(s.givenLine) + s.given
	}
	src.text = clause
	for _, name := range needs(clause + text) {
		p := packages[name]
		src.text += fmt.Sprintf("import %q\n", p.path)
		if p.module == "" || p.module == src.module {
			continue
		}
		if src.module != "." {
			return src, fmt.Errorf("%s: %w: %s and %s", s.where(), errTwoModules, src.module, p.module)
		}
		src.module = p.module
	}
	src.text += text
	return src, nil
}

var errTwoModules = errors.New("a snippet needs two modules")

// needs returns the names of the packages that a file uses.
func needs(text string) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok || packages[x.Name].path == "" || slices.Contains(names, x.Name) || !slices.Contains(file.Unresolved, x) {
			return true
		}
		names = append(names, x.Name)
		return true
	})
	return names
}

// function returns a test that runs the statements of a snippet.
func (s snippet) function(at string) string {
	id := regexp.MustCompile(`\W`).ReplaceAllString(s.where(), "_")
	code, end, switches := s.statements()
	var test string
	if !s.only {
		test = fmt.Sprintf("func Test_%s(t *testing.T) { snippets.Run(t, %q, snippet_%s) }\n", id, s.where(), id)
	}
	if switches {
		test += fmt.Sprintf("func Test_%s_switch(t *testing.T) { snippets.Switch(t, %q, snippet_%s) }\n", id, s.where(), id)
	}
	var names, values []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Prelude]()) {
		if field.IsExported() {
			names = append(names, string(unicode.ToLower(rune(field.Name[0])))+field.Name[1:])
			values = append(values, "prelude."+field.Name)
		}
	}
	all := strings.Join(names, ", ")
	return fmt.Sprintf("%sfunc snippet_%s(t *testing.T, prelude *snippets.Prelude) error {\n%s := %s\n%s = %s\n{\n%s%s\n//line end.go:1\n%s}\n}\n",
		test, id, all, strings.Join(values, ", "), strings.Repeat("_, ", len(names)-1)+"_", all,
		at, strings.ReplaceAll(code, server, "prelude.Addr"), end)
}

// omitted is a line that stands for code of the reader.
var omitted = regexp.MustCompile(`(?m)^\s*…$`)

// statements returns the code with checks in it, and what must come behind it: uses of the variables, which Go demands, and the error.
// It reports whether the code has a switch that tells errors apart.
func (s snippet) statements() (code, end string, switches bool) {
	const head = "package p; func _() {\n"
	code = omitted.ReplaceAllString(s.code, "")
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", head+code+"}", parser.ParseComments)
	if err != nil || len(file.Decls) != 1 {
		return code, "", false
	}
	c := checks{snippet: s, comments: make(map[int]string), checked: make(map[ast.Stmt]bool), line: func(p token.Pos) int { return fset.Position(p).Line }}
	for _, group := range file.Comments {
		c.comments[c.line(group.Pos())] = group.List[0].Text
	}
	body := file.Decls[0].(*ast.FuncDecl).Body
	ast.Inspect(body, c.visit)
	slices.SortFunc(c.edits, func(a, b edit) int { return int(b.at - a.at) })
	for _, e := range c.edits {
		offset := fset.Position(e.at).Offset - len(head)
		code = code[:offset] + e.text + code[offset:]
	}
	result := "nil"
	for _, stmt := range body.List {
		for _, name := range defined(stmt) {
			end += "_ = " + name + "\n"
		}
		if a, ok := stmt.(*ast.AssignStmt); ok && slices.ContainsFunc(a.Lhs, isErr) {
			result = "err"
			if c.checked[stmt] {
				result = "nil"
			}
		}
	}
	return code, end + "return " + result + "\n", c.switches
}

func isErr(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "err"
}

// defined returns the names of the variables that a statement defines.
func defined(stmt ast.Stmt) (names []string) {
	var all []ast.Expr
	switch stmt := stmt.(type) {
	case *ast.AssignStmt:
		if stmt.Tok == token.DEFINE {
			all = stmt.Lhs
		}
	case *ast.DeclStmt:
		for _, spec := range stmt.Decl.(*ast.GenDecl).Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range v.Names {
					all = append(all, name)
				}
			}
		}
	}
	for _, x := range all {
		if id, ok := x.(*ast.Ident); ok && id.Name != "_" {
			names = append(names, id.Name)
		}
	}
	return names
}
