// Package analyzers finds mistakes in programs that use rlock. The command rlockvet runs all of them. Other drivers of
// golang.org/x/tools/go/analysis, such as a build of golangci-lint with plugins, take them from [All].
//
// An analyzer reports only what is certain: it keeps silent where it cannot see which lock or which context a value is. Tests, and
// functions that get a testing.TB, are left out, because tests do on purpose what a program must not do.
package analyzers

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// All returns the analyzers.
func All() []*analysis.Analyzer {
	return []*analysis.Analyzer{Context, Handle, Hold, Owner, Token, Unlock}
}

// home is where the analyzers are described for users.
const home = "https://github.com/go-rlock/rlock/blob/main/docs/guide/testing.md#checking-your-code"

// reporter reports the findings of one analyzer in one package.
type reporter struct {
	*analysis.Pass
	ignored map[line]bool
}

// line is a line of a file.
type line struct {
	file   string
	number int
}

var directive = regexp.MustCompile(`^//rlockvet:ignore (\w+) \S`)

// newReporter returns a reporter. It collects the lines whose findings a comment ignores.
func newReporter(pass *analysis.Pass) *reporter {
	r := &reporter{pass, make(map[line]bool)}
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if m := directive.FindStringSubmatch(comment.Text); m != nil && m[1] == pass.Analyzer.Name {
					p := pass.Fset.Position(comment.Pos())
					r.ignored[line{p.Filename, p.Line}] = true
					r.ignored[line{p.Filename, p.Line + 1}] = true
				}
			}
		}
	}
	return r
}

func (r *reporter) report(d analysis.Diagnostic) {
	p := r.Fset.Position(d.Pos)
	if r.ignored[line{p.Filename, p.Line}] || strings.HasSuffix(p.Filename, "_test.go") || r.isTest(d.Pos) {
		return
	}
	d.URL = home
	r.Report(d)
}

// isTest reports whether a position is in a function that may fail a test.
func (r *reporter) isTest(pos token.Pos) bool {
	for _, file := range r.Files {
		if !within(file, pos) {
			continue
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !within(fn, pos) {
				continue
			}
			sig := r.TypesInfo.Defs[fn.Name].(*types.Func).Signature()
			for param := range sig.Params().Variables() {
				if failsTests(param.Type()) {
					return true
				}
			}
			return sig.Recv() != nil && failsTests(sig.Recv().Type())
		}
	}
	return false
}

// failsTests reports whether a type has the methods of testing.TB that say so.
func failsTests(t types.Type) bool {
	methods := types.NewMethodSet(t)
	return methods.Lookup(nil, "Helper") != nil && methods.Lookup(nil, "FailNow") != nil
}
