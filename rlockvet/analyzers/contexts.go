package analyzers

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// parentOf returns the context from which an expression derives one: that of context.WithTimeout(ctx, d) is ctx.
func (v *values) parentOf(e ast.Expr) ast.Expr {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil
	}
	if t := v.info.TypeOf(call); !isContext(t) {
		results, ok := t.(*types.Tuple)
		if !ok || results.Len() == 0 || !isContext(results.At(0).Type()) {
			return nil
		}
	}
	return contextOf(v.info, call)
}

// sources returns the keys of a context and of all contexts from which it may be derived.
func (v *values) sources(ctx ast.Expr) map[string]bool {
	found := make(map[string]bool)
	v.addSources(found, ctx, depth)
	return found
}

func (v *values) addSources(found map[string]bool, ctx ast.Expr, left int) {
	if left == 0 {
		return
	}
	if parent := v.parentOf(ctx); parent != nil {
		v.addSources(found, parent, left-1)
		return
	}
	found[v.place(ctx)] = true
	if obj := v.object(ctx); obj != nil {
		for _, s := range v.set[obj] {
			if s.result == 0 {
				v.addSources(found, s.value, left-1)
			}
		}
	}
}

// place is key, but also tells variables apart that are set several times. It says where a value is, and not which value that is.
func (v *values) place(e ast.Expr) string {
	if id, ok := ast.Unparen(e).(*ast.Ident); ok {
		if obj := v.object(id); obj != nil {
			return fmt.Sprintf("%p", obj)
		}
	}
	return v.key(e)
}

const ownerPrefix = "owner made at "

// owner returns a text that is the same for two contexts only if they have the same owner, or "" if that cannot be seen. The text begins
// with ownerPrefix if the owner was made by WithOwner in this package.
func (v *values) owner(ctx ast.Expr) string { return v.ownerWithin(ctx, depth) }

func (v *values) ownerWithin(ctx ast.Expr, left int) string {
	ctx = ast.Unparen(ctx)
	if left == 0 {
		return ""
	}
	if call, ok := ctx.(*ast.CallExpr); ok {
		parent := v.parentOf(call)
		fn := callee(v.info, call)
		switch {
		case isFunction(v.info, call, "WithOwner"):
			return fmt.Sprint(ownerPrefix, call.Pos())
		case parent != nil && fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "context":
			return v.ownerWithin(parent, left-1)
		case fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "net/http":
			return v.key(call)
		}
		return ""
	}
	obj := v.object(ctx)
	if obj == nil {
		return ""
	}
	if _, plain := ctx.(*ast.Ident); !plain {
		return v.key(ctx)
	}
	switch set := v.set[obj]; {
	case len(set) == 0:
		return fmt.Sprintf("%p", obj)
	case len(set) == 1 && !v.unseen[obj] && set[0].result == 0:
		return v.ownerWithin(set[0].value, left-1)
	}
	return v.ownerBefore(obj, ctx, left)
}

// ownerBefore returns the owner of a variable that is set several times, at one place. It knows it only if the variable is set by
// statements that all run once, one after the other, as in ctx = rlock.WithOwner(ctx).
func (v *values) ownerBefore(obj types.Object, at ast.Expr, left int) string {
	var last *setting
	for i, s := range v.set[obj] {
		body, ok := s.at.Parent().Node().(*ast.BlockStmt)
		// A branch or a loop that does not have the variable of its own may be left out, and a function literal run at another time.
		if !ok || s.result != 0 || !within(s.at.Parent().Parent().Node(), obj.Pos()) || inLiteral(body, at.Pos()) {
			return ""
		}
		if s.at.Node().End() <= at.Pos() && (last == nil || s.at.Node().Pos() > last.at.Node().Pos()) {
			last = &v.set[obj][i]
		}
	}
	if last == nil {
		if v.unseen[obj] {
			return fmt.Sprintf("%p", obj)
		}
		return ""
	}
	return v.ownerWithin(last.value, left-1)
}

func within(n ast.Node, pos token.Pos) bool { return n.Pos() <= pos && pos < n.End() }

// inLiteral reports whether a position is in a function literal of a body.
func inLiteral(body *ast.BlockStmt, pos token.Pos) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok && within(lit.Body, pos) {
			found = true
		}
		return n != nil && within(n, pos) && !found
	})
	return found
}

func isOwner(owner string) bool { return strings.HasPrefix(owner, ownerPrefix) }
