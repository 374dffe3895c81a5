package analyzers

import (
	"fmt"
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
)

// Hold finds holds that are not unlocked.
var Hold = &analysis.Analyzer{
	Name: "rlockhold",
	URL:  home,
	Doc: `report a hold that is not unlocked on every path

Acquire and TryAcquire return a hold, which rlock renews until it is unlocked. If the program forgets a hold, the lock stays taken for as
long as the process lives. Unlock where the hold begins, or use Do, which unlocks by itself:

	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx)

A hold that is returned, stored or passed on is not followed. Neither is one that was taken with rlock.Lease: its lock becomes free by
itself, and some programs want that.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer, valuesAnalyzer},
	Run:      runHold,
}

func runHold(pass *analysis.Pass) (any, error) {
	r := newReporter(pass)
	h := &holds{reporter: r, values: pass.ResultOf[valuesAnalyzer].(*values), uses: make(map[types.Object][]use)}
	var taken []inspector.Cursor
	for c := range rootOf(pass).Preorder((*ast.CallExpr)(nil), (*ast.Ident)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CallExpr:
			if h.takes(n) {
				taken = append(taken, c)
			}
		case *ast.Ident:
			if obj := pass.TypesInfo.Uses[n]; obj != nil && isNamed(obj.Type(), library, "Hold") {
				h.uses[obj] = append(h.uses[obj], use{c, h.effect(c)})
			}
		}
	}
	for _, c := range taken {
		h.check(c)
	}
	return nil, nil
}

// holds checks the holds of a package.
type holds struct {
	*reporter
	*values
	uses map[types.Object][]use
}

// use is a place where a variable of a hold is named.
type use struct {
	at     inspector.Cursor
	effect effect
}

// effect is what a use means for a hold.
type effect int

const (
	ends   effect = iota // the use unlocks the hold, or hands it to somebody who may; also what is not known
	asks                 // the use changes nothing
	sets                 // the variable gets another value
	learns               // the use may tell that the hold is lost, so that nothing is left to unlock
)

// takes reports whether a call returns a hold that somebody has to unlock.
func (h *holds) takes(call *ast.CallExpr) bool {
	receiver, _ := method(h.TypesInfo, call, "Acquire", "TryAcquire")
	results, ok := h.TypesInfo.TypeOf(call).(*types.Tuple)
	if receiver == nil || !ok || results.Len() != 2 || !isNamed(results.At(0).Type(), library, "Hold") {
		return false
	}
	fixed, known := leaseOf(h.TypesInfo, call)
	return known && !fixed
}

// methods has what a call of a method of a hold means. TestEveryMethodIsKnown compares it with the library.
var methods = map[string]effect{
	"Context": asks, "Deadline": asks, "Token": asks, "LogValue": asks, "String": asks, "Extend": asks,
	"Err": learns, "Done": learns,
	"Unlock": ends, "Export": ends, "PermitIDs": ends, "ID": ends, // with an ID, another function can end it
}

// effect returns what a use of a hold's variable means. A method that a later version of rlock has may end the hold, too.
func (h *holds) effect(c inspector.Cursor) effect {
	parent := c.Parent()
	switch n := parent.Node().(type) {
	case *ast.AssignStmt:
		if c.ParentEdgeKind() == edge.AssignStmt_Lhs {
			return sets
		}
		if left, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Lhs) == 1 && left.Name == "_" {
			return asks
		}
	case *ast.BinaryExpr: // hold != nil
		return asks
	case *ast.SelectorExpr:
		return methods[n.Sel.Name]
	}
	return ends
}

// check reports a call that takes a hold if the hold is not unlocked.
func (h *holds) check(c inspector.Cursor) {
	call := c.Node().(*ast.CallExpr)
	const advice = "unlock it, as with defer, or use Do"
	statement := c.Parent()
	var target ast.Expr
	define := false
	switch n := statement.Node().(type) {
	case *ast.ExprStmt:
		h.report(analysis.Diagnostic{Pos: call.Pos(), End: call.End(), Message: "the hold is dropped, so nothing can unlock it: " + advice})
		return
	case *ast.AssignStmt:
		target = n.Lhs[0]
	case *ast.ValueSpec:
		target, define = n.Names[0], true
	}
	name, ok := target.(*ast.Ident)
	if !ok { // it is passed on, or stored
		return
	}
	if name.Name == "_" {
		h.report(analysis.Diagnostic{Pos: name.Pos(), End: call.End(), Message: "the hold is dropped, so nothing can unlock it: " + advice})
		return
	}
	obj := h.TypesInfo.ObjectOf(name)
	if obj == nil || obj.Parent() == h.Pkg.Scope() || h.unseen[obj] { // the last are named results, and variables with a pointer to them
		return
	}
	if function, graph := h.graph(statement); graph != nil && h.returnsContext(function) {
		return // perhaps that of the hold, so that the lock is held for as long as the process lives
	}
	never := true
	for _, u := range h.uses[obj] {
		never = never && u.effect != ends && u.effect != learns
	}
	if never {
		h.report(analysis.Diagnostic{Pos: name.Pos(), End: call.End(), Message: name.Name + " is never unlocked: " + advice})
		return
	}
	if define = define || h.TypesInfo.Defs[name] != nil; !define {
		return // a variable of an outer block may be unlocked there, under the condition under which it was set
	}
	if at := h.leak(statement, obj); at != nil {
		h.report(analysis.Diagnostic{
			Pos: name.Pos(), End: call.End(),
			Message: fmt.Sprintf("%s is not unlocked on all paths: the function may return in line %d with the lock held: %s",
				name.Name, h.Fset.Position(at.Pos()).Line, advice),
			Related: []analysis.RelatedInformation{{Pos: at.Pos(), Message: "returns with the lock held"}},
		})
	}
}

// returnsContext reports whether a function returns a context.
func (h *holds) returnsContext(function inspector.Cursor) bool {
	for result := range h.signature(function).Results().Variables() {
		if isContext(result.Type()) {
			return true
		}
	}
	return false
}

// graph returns the control-flow graph of the innermost function around a statement.
func (h *holds) graph(statement inspector.Cursor) (inspector.Cursor, *cfg.CFG) {
	function, ok := enclosing(statement)
	if !ok {
		return function, nil
	}
	flows := h.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	if decl, ok := function.Node().(*ast.FuncDecl); ok {
		return function, flows.FuncDecl(decl)
	}
	return function, flows.FuncLit(function.Node().(*ast.FuncLit))
}
