package analyzers

import (
	"go/ast"
	"go/token"
	"go/types"
)

// verdict is what a condition says about a hold.
type verdict int

const (
	maybeHeld     verdict = iota
	nothingHeld           // the acquisition failed, or the hold is over
	certainlyHeld         // the acquisition succeeded
)

// says returns what is known if a condition has a value.
func (p *paths) says(condition ast.Expr, value bool, s state) verdict {
	switch n := ast.Unparen(condition).(type) {
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			return p.says(n.X, !value, s)
		}
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LAND, token.LOR:
			x, y := p.says(n.X, value, s), p.says(n.Y, value, s)
			both := value == (n.Op == token.LAND) // have the value; otherwise it is one of them
			switch {
			case x == y:
				return x
			case both && (x == nothingHeld || y == nothingHeld):
				return nothingHeld
			case both:
				return certainlyHeld
			}
		case token.EQL, token.NEQ:
			return p.compared(n, value == (n.Op == token.EQL), s)
		default: // an order says nothing
		}
	case *ast.CallExpr:
		if fn := callee(p.TypesInfo, n); value && fn != nil && len(n.Args) == 2 && fn.Pkg() != nil && fn.Pkg().Path() == "errors" {
			if p.refused(n.Args[0], s) || lost(p.TypesInfo, n.Args[1]) {
				return nothingHeld // errors.Is(err, …), errors.As(err, …)
			}
		}
	}
	return maybeHeld
}

// compared returns what a comparison with nil says.
func (p *paths) compared(n *ast.BinaryExpr, equal bool, s state) verdict {
	x, y := ast.Unparen(n.X), ast.Unparen(n.Y)
	if p.TypesInfo.Types[x].IsNil() {
		x, y = y, x
	}
	if !p.TypesInfo.Types[y].IsNil() {
		if equal && p.refused(x, s) { // err == rlock.ErrNotAcquired
			return nothingHeld
		}
		return maybeHeld
	}
	named := false
	if id, ok := x.(*ast.Ident); ok {
		named = p.TypesInfo.Uses[id] == p.obj
	}
	call, _ := x.(*ast.CallExpr)
	asked := call != nil && p.does(call, learns) // hold.Err()
	switch {
	case named && equal, (asked || p.refused(x, s)) && !equal:
		return nothingHeld
	case named, asked, p.refused(x, s):
		return certainlyHeld
	}
	return maybeHeld
}

// refused reports whether an expression is a variable whose error means that nothing is held.
func (p *paths) refused(e ast.Expr, s state) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok || !isError(p.TypesInfo.TypeOf(id)) {
		return false
	}
	bit := p.bit(p.TypesInfo.Uses[id])
	return bit != 0 && s.errs&bit != 0
}

// lost reports whether an expression is the error of a lock that is held no more.
func lost(info *types.Info, e ast.Expr) bool {
	selector, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := info.Uses[selector.Sel]
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == library && (obj.Name() == "ErrLost" || obj.Name() == "ErrNotHeld")
}
