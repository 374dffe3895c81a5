package analyzers

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// Token finds fencing tokens of locks that have none.
var Token = &analysis.Analyzer{
	Name: "rlocktoken",
	URL:  home,
	Doc: `report Hold.Token of a lock without tokens

Only locks made with the option rlock.Fenced have fencing tokens: plain and fair locks, and the write side of
read-write locks. The token of any other lock, of a read lock, of a group and of a semaphore is 0. A resource that compares tokens refuses
nobody who presents 0, or everybody. Make the lock with tokens, in all programs that use its name:

	lock := locks.NewLock("document:7", rlock.Fenced())

A program that compares the token with a number, as in hold.Token() == 0, is no finding.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, valuesAnalyzer},
	Run:      runToken,
}

func runToken(pass *analysis.Pass) (any, error) {
	r, v := newReporter(pass), pass.ResultOf[valuesAnalyzer].(*values)
	for c := range rootOf(pass).Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		hold := holdMethod(pass.TypesInfo, call, "Token")
		if hold == nil {
			continue
		}
		if compare, ok := c.Parent().Node().(*ast.BinaryExpr); ok && (isNumber(v, compare.X) || isNumber(v, compare.Y)) {
			continue
		}
		if why := v.noToken(hold); why != "" {
			r.report(analysis.Diagnostic{Pos: call.Pos(), End: call.End(), Message: why})
		}
	}
	return nil, nil
}

func isNumber(v *values, e ast.Expr) bool { return v.info.Types[e].Value != nil }

// noToken says why a hold has no token, or returns "".
func (v *values) noToken(hold ast.Expr) string {
	set, ok := v.settings(hold)
	if !ok {
		return ""
	}
	why := ""
	for _, s := range set {
		call, ok := s.value.(*ast.CallExpr)
		if !ok {
			return ""
		}
		of, name := method(v.info, call, "Acquire", "TryAcquire")
		if isFunction(v.info, call, "HoldFrom") {
			of, name = call.Args[1], "HoldFrom"
		}
		if of == nil || s.result != 0 {
			return ""
		}
		switch k := v.kindOf(of); {
		case k == shared:
			why = "a read lock has no fencing token: this is always 0"
		case k == permits:
			why = "a semaphore has no fencing tokens: this is always 0"
		case k == group:
			why = "a multi lock or red lock has no fencing token: this is always 0; use rlock.HoldFrom for that of a member"
		case k == exclusive && name != "HoldFrom": // a context may carry a hold that another handle took
			why = "this lock has no fencing tokens: this is 0; make it with rlock.Fenced()"
		default:
			return ""
		}
	}
	return why
}
