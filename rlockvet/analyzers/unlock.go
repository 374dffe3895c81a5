package analyzers

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Unlock finds errors of Unlock that are dropped although only they can tell of a loss.
var Unlock = &analysis.Analyzer{
	Name: "rlockunlock",
	URL:  home,
	Doc: `report an Unlock whose error is dropped just before success is reported

After Lock and TryLock, only the error of Unlock says that the lock was lost: another owner may have done the same work. A function that
drops this error and returns nil reports a success of which it knows nothing. Look at the error, or use Do, which does:

	if err := lock.Unlock(ctx); errors.Is(err, rlock.ErrLost) {
		return err
	}
	return nil

The analyzer reports an Unlock just before "return nil", as a statement by itself. After a Lock with rlock.Lease, which is lost as soon
as the work takes longer, it reports "_ = lock.Unlock(ctx)" too. A hold is reported only if the function uses nothing else of it: neither
its context, nor Err, nor Token. A deferred Unlock is never a finding.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, valuesAnalyzer},
	Run:      runUnlock,
}

func runUnlock(pass *analysis.Pass) (any, error) {
	u := &unlocks{newReporter(pass), pass.ResultOf[valuesAnalyzer].(*values)}
	for c := range rootOf(pass).Preorder((*ast.ReturnStmt)(nil)) {
		before, ok := c.PrevSibling()
		if !ok || !u.reportsSuccess(c) {
			continue
		}
		call, explicit := dropped(before.Node())
		if call == nil {
			continue
		}
		receiver, _ := method(pass.TypesInfo, call, "Unlock")
		if receiver == nil {
			continue
		}
		if how := u.taken(before, receiver); how == leased || how == renewed && !explicit {
			u.report(analysis.Diagnostic{
				Pos: call.Pos(), End: call.End(),
				Message: "the error of Unlock is dropped before success is returned: it alone says that the lock was lost; " +
					"check it for rlock.ErrLost, or use Do",
			})
		}
	}
	return nil, nil
}

type unlocks struct {
	*reporter
	*values
}

// dropped returns the call whose results a statement drops, and whether it says so.
func dropped(statement ast.Node) (call *ast.CallExpr, explicit bool) {
	switch n := statement.(type) {
	case *ast.ExprStmt:
		call, _ = n.X.(*ast.CallExpr)
	case *ast.AssignStmt:
		if name, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Lhs) == 1 && name.Name == "_" {
			call, _ = n.Rhs[0].(*ast.CallExpr)
		}
		explicit = true
	}
	return call, explicit
}

// reportsSuccess reports whether a return statement returns nil as the error of its function.
func (u *unlocks) reportsSuccess(c inspector.Cursor) bool {
	results := c.Node().(*ast.ReturnStmt).Results
	if len(results) == 0 || !u.TypesInfo.Types[results[len(results)-1]].IsNil() {
		return false
	}
	function, ok := enclosing(c)
	if !ok {
		return false
	}
	declared := u.signature(function).Results()
	return isError(declared.At(declared.Len() - 1).Type())
}

// terms is how a lock was taken.
type terms int

const (
	elsewhere terms = iota // or in a way that makes the error of Unlock dispensable
	renewed
	leased
)

// taken returns how the lock that a statement unlocks was taken before in the same function.
func (u *unlocks) taken(unlock inspector.Cursor, receiver ast.Expr) terms {
	key := u.key(receiver)
	function, ok := enclosing(unlock)
	if key == "" || !ok || u.watched(function, receiver) {
		return elsewhere
	}
	how := elsewhere
	for c := range function.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if call.Pos() > unlock.Node().Pos() {
			break
		}
		if !u.takes(c, call, receiver, key) {
			continue
		}
		if before, ok := unlock.PrevSibling(); ok && before.Contains(c) {
			return elsewhere // nothing was done under the lock
		}
		fixed, known := leaseOf(u.TypesInfo, call)
		switch {
		case fixed:
			how = leased
		case known:
			how = renewed
		default:
			return elsewhere
		}
	}
	return how
}

// takes reports whether a call takes the lock, or the hold, that has a key.
func (u *unlocks) takes(c inspector.Cursor, call *ast.CallExpr, receiver ast.Expr, key string) bool {
	if of, _ := method(u.TypesInfo, call, "Lock", "TryLock"); of != nil {
		return u.key(of) == key
	}
	if of, _ := method(u.TypesInfo, call, "Acquire", "TryAcquire"); of == nil {
		return false
	}
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	return ok && u.object(assign.Lhs[0]) != nil && u.object(assign.Lhs[0]) == u.object(receiver)
}

// watched reports whether a function has another way to learn that a hold is lost, has a token for a resource that refuses late
// writes, or hands the hold on.
func (u *unlocks) watched(function inspector.Cursor, receiver ast.Expr) bool {
	if !isNamed(u.TypesInfo.TypeOf(receiver), library, "Hold") {
		return false
	}
	obj := u.object(receiver)
	for c := range function.Preorder((*ast.Ident)(nil)) {
		if u.TypesInfo.Uses[c.Node().(*ast.Ident)] != obj {
			continue
		}
		selector, ok := c.Parent().Node().(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "Unlock" && selector.Sel.Name != "LogValue" && selector.Sel.Name != "String" {
			return true
		}
	}
	return false
}
