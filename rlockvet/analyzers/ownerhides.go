package analyzers

import (
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// hides reports WithOwner in a function that locks with it, and that the package calls with the context of a hold or of an owner.
func (o *owners) hides(function inspector.Cursor, decl *ast.FuncDecl) {
	var made *ast.CallExpr
	param := -1
	for c := range function.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if isFunction(o.TypesInfo, call, "WithOwner") && !inLiteral(decl.Body, call.Pos()) {
			if i := o.paramOf(decl, call.Args[0]); i >= 0 {
				made, param = call, i
			}
		}
	}
	if made == nil || !o.locksAs(function, fmt.Sprint(ownerPrefix, made.Pos())) {
		return
	}
	why := ""
	for c := range rootOf(o.Pass).Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if fn := callee(o.TypesInfo, call); fn == nil || fn.Origin() != o.TypesInfo.Defs[decl.Name] || len(call.Args) <= param {
			continue
		}
		if strings.HasSuffix(o.file(call), "_test.go") {
			continue
		}
		if o.begins(c) {
			return // here a goroutine begins
		}
		if carried := o.carries(call.Args[param]); carried != "" {
			why = fmt.Sprintf("it is called with the context of %s in line %d of %s", carried, o.Fset.Position(call.Pos()).Line, o.file(call))
		}
	}
	if why == "" {
		return
	}
	message := fmt.Sprintf("WithOwner in %s, which locks, hides what its caller holds: %s; use EnsureOwner", decl.Name.Name, why)
	d := analysis.Diagnostic{Pos: made.Pos(), End: made.End(), Message: message}
	if name, ok := ast.Unparen(made.Fun).(*ast.SelectorExpr); ok {
		d.SuggestedFixes = []analysis.SuggestedFix{{
			Message:   "Use EnsureOwner",
			TextEdits: []analysis.TextEdit{{Pos: name.Sel.Pos(), End: name.Sel.End(), NewText: []byte("EnsureOwner")}},
		}}
	}
	o.report(d)
}

// paramOf returns which parameter of a function a context is, or -1.
func (o *owners) paramOf(decl *ast.FuncDecl, ctx ast.Expr) int {
	owner := o.owner(ctx)
	params := o.TypesInfo.Defs[decl.Name].(*types.Func).Signature().Params()
	for i := range params.Len() {
		if isContext(params.At(i).Type()) && owner == fmt.Sprintf("%p", params.At(i)) {
			return i
		}
	}
	return -1
}

// locksAs reports whether a function locks with an owner, before it returns.
func (o *owners) locksAs(function inspector.Cursor, owner string) bool {
	for _, v := range o.verbs(function) {
		if v.owner == owner && v.name != "Unlock" && v.name != "ForceUnlock" && v.in == function.Node() {
			return true
		}
	}
	return false
}

// begins reports whether a call may run later than the function around it: in a go statement, or in a function literal that is not the
// function of a Do.
func (o *owners) begins(c inspector.Cursor) bool {
	for p := range c.Enclosing((*ast.GoStmt)(nil), (*ast.FuncLit)(nil)) {
		lit, ok := p.Node().(*ast.FuncLit)
		if !ok {
			return true
		}
		call, ok := p.Parent().Node().(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := sectionOf(o.TypesInfo, call); !ok || s.lit != lit {
			return true
		}
	}
	return false
}

// carries returns what a context is known to carry: a hold, an owner, or "".
func (o *owners) carries(ctx ast.Expr) string { return o.carriesWithin(ctx, depth) }

func (o *owners) carriesWithin(ctx ast.Expr, left int) string {
	if left == 0 {
		return ""
	}
	if call, ok := ast.Unparen(ctx).(*ast.CallExpr); ok {
		switch {
		case holdMethod(o.TypesInfo, call, "Context") != nil:
			return "a hold"
		case isFunction(o.TypesInfo, call, "WithOwner", "EnsureOwner"):
			return "an owner"
		case o.parentOf(call) != nil:
			return o.carriesWithin(o.parentOf(call), left-1)
		}
		return ""
	}
	obj := o.object(ctx)
	if obj == nil {
		return ""
	}
	if o.isSectionParam(obj) {
		return "a hold"
	}
	if set := o.set[obj]; len(set) == 1 && !o.unseen[obj] && set[0].result == 0 {
		return o.carriesWithin(set[0].value, left-1)
	}
	return ""
}

// isSectionParam reports whether a variable is the context that Do passes to its function, and has no other value.
func (o *owners) isSectionParam(obj types.Object) bool {
	if len(o.set[obj]) > 0 {
		return false
	}
	for c := range rootOf(o.Pass).Preorder((*ast.CallExpr)(nil)) {
		if s, ok := sectionOf(o.TypesInfo, c.Node().(*ast.CallExpr)); ok && s.param(o.TypesInfo) == obj {
			return true
		}
	}
	return false
}

func (o *owners) file(n ast.Node) string { return filepath.Base(o.Fset.Position(n.Pos()).Filename) }
