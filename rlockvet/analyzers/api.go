package analyzers

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// library is the import path of rlock.
const library = "github.com/go-rlock/rlock"

// callee returns the function or method that a call names, or nil.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	fn, _ := typeutil.Callee(info, call).(*types.Func)
	return fn
}

// fromLibrary reports whether a function belongs to rlock.
func fromLibrary(fn *types.Func) bool { return fn.Pkg() != nil && fn.Pkg().Path() == library }

// isFunction reports whether a call is that of one of rlock's functions with these names. Methods are none.
func isFunction(info *types.Info, call *ast.CallExpr, names ...string) bool {
	fn := callee(info, call)
	return fn != nil && fromLibrary(fn) && fn.Signature().Recv() == nil && slices.Contains(names, fn.Name())
}

// method returns the receiver of a call of a method of rlock with one of the names. A method of a user's interface counts if it takes
// rlock's options: docs/guide/testing.md advises programs to have such interfaces.
func method(info *types.Info, call *ast.CallExpr, names ...string) (receiver ast.Expr, name string) {
	fn := callee(info, call)
	if fn == nil || fn.Signature().Recv() == nil || !slices.Contains(names, fn.Name()) {
		return nil, ""
	}
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !fromLibrary(fn) && !takesOptions(fn.Signature()) {
		return nil, ""
	}
	return selector.X, fn.Name()
}

// holdMethod returns the receiver of a call of a method of rlock.Hold with one of the names.
func holdMethod(info *types.Info, call *ast.CallExpr, names ...string) ast.Expr {
	receiver, _ := method(info, call, names...)
	if receiver == nil || !isNamed(info.TypeOf(receiver), library, "Hold") {
		return nil
	}
	return receiver
}

// takesOptions reports whether the last parameters of a function are rlock's options of an acquisition.
func takesOptions(sig *types.Signature) bool {
	if !sig.Variadic() {
		return false
	}
	last, ok := sig.Params().At(sig.Params().Len() - 1).Type().(*types.Slice)
	return ok && isNamed(last.Elem(), library, "AcquireOption")
}

// isNamed reports whether a type, or the type to which it points, is the named one.
func isNamed(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// contextOf returns the first argument of a call that the callee takes as a context, or nil.
func contextOf(info *types.Info, call *ast.CallExpr) ast.Expr {
	sig, ok := signatureOf(info, call)
	if !ok {
		return nil
	}
	for i, arg := range call.Args {
		if isContext(parameter(sig, i)) {
			return arg
		}
	}
	return nil
}

// signatureOf returns the signature of what a call calls. It returns false for a conversion and for a builtin.
func signatureOf(info *types.Info, call *ast.CallExpr) (*types.Signature, bool) {
	fun := info.Types[call.Fun]
	if fun.Type == nil || fun.IsType() {
		return nil, false
	}
	sig, ok := fun.Type.Underlying().(*types.Signature)
	return sig, ok
}

// parameter returns the type of the parameter that takes argument i, or nil for one of a variadic function's last arguments.
func parameter(sig *types.Signature, i int) types.Type {
	if n := sig.Params().Len(); i >= n || sig.Variadic() && i == n-1 {
		return nil
	}
	return sig.Params().At(i).Type()
}

// section is a call that runs a function literal under a lock or as a leader: Do, TryDo, DoValue, Election.Run, and functions of the
// user that take the same arguments.
type section struct {
	call *ast.CallExpr
	name string // of the function that is called
	ctx  ast.Expr
	lit  *ast.FuncLit
}

// sectionOf returns the section that a call runs.
func sectionOf(info *types.Info, call *ast.CallExpr) (section, bool) {
	fn := callee(info, call)
	if fn == nil || !fromLibrary(fn) && !takesOptions(fn.Signature()) {
		return section{}, false
	}
	s := section{call: call, name: fn.Name(), ctx: contextOf(info, call)}
	for _, arg := range call.Args {
		if lit, ok := ast.Unparen(arg).(*ast.FuncLit); ok {
			if sig, ok := info.TypeOf(lit).(*types.Signature); ok && sig.Params().Len() > 0 && isContext(sig.Params().At(0).Type()) {
				s.lit = lit
			}
		}
	}
	return s, s.ctx != nil && s.lit != nil
}

// param returns the variable of the section's own context. It is nil if the function literal does not name it.
func (s section) param(info *types.Info) types.Object {
	field := s.lit.Type.Params.List[0]
	if len(field.Names) == 0 || field.Names[0].Name == "_" {
		return nil
	}
	return info.Defs[field.Names[0]]
}

// lock returns the handle of the section's lock, or nil.
func (s section) lock(info *types.Info) ast.Expr {
	if isFunction(info, s.call, "DoValue") && len(s.call.Args) > 1 {
		return s.call.Args[1]
	}
	receiver, _ := method(info, s.call, "Do", "TryDo")
	return receiver
}

// leaseOf reports whether an acquisition has a fixed lease. It returns false for known if the options cannot be seen.
func leaseOf(info *types.Info, call *ast.CallExpr) (fixed, known bool) {
	sig, ok := signatureOf(info, call)
	if !ok {
		return false, false
	}
	known = true
	for i := sig.Params().Len() - 1; i < len(call.Args); i++ {
		option, ok := ast.Unparen(call.Args[i]).(*ast.CallExpr)
		switch {
		case !ok || !isFunction(info, option, "Lease", "RenewedLease", "Wait", "Permits", "AtLeast"):
			known = false
		case callee(info, option).Name() == "Lease":
			fixed = true
		}
	}
	return fixed, known
}
