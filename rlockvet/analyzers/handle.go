package analyzers

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// Handle finds handles that are made and not used.
var Handle = &analysis.Analyzer{
	Name: "rlockhandle",
	URL:  home,
	Doc: `report a handle that is made and not used

To make a handle locks nothing: NewLock, Reader and the like return a value, and only its methods ask Redis. So a call whose result nobody
uses does nothing, although it may look as if it took the lock:

	client.NewLock("x")        // locks nothing
	rw.Writer()                // neither
	_ = client.NewSemaphore("y")`,
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runHandle,
}

// handles are the types of handles.
var handles = []string{
	"Lock", "RWLock", "MultiLock", "RedLock", "Semaphore", "PlainSemaphore", "CountDownLatch", "Election",
}

func runHandle(pass *analysis.Pass) (any, error) {
	r := newReporter(pass)
	unused := func(value ast.Expr) {
		call, ok := ast.Unparen(value).(*ast.CallExpr)
		if !ok || pass.TypesInfo.Types[ast.Unparen(call.Fun)].IsType() { // a conversion makes no handle
			return
		}
		of, ok := pass.TypesInfo.TypeOf(call).(*types.Pointer)
		if ok && slices.ContainsFunc(handles, func(name string) bool { return isNamed(of, library, name) }) {
			r.report(analysis.Diagnostic{Pos: call.Pos(), End: call.End(), Message: "the handle is not used, so this does nothing: call its methods"})
		}
	}
	for c := range rootOf(pass).Preorder((*ast.ExprStmt)(nil), (*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)) {
		switch n := c.Node().(type) {
		case *ast.ExprStmt:
			unused(n.X)
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && name.Name == "_" && len(n.Rhs) == len(n.Lhs) {
					unused(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if name.Name == "_" && len(n.Values) == len(n.Names) {
					unused(n.Values[i])
				}
			}
		}
	}
	return nil, nil
}
