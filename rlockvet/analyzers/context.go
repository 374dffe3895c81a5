package analyzers

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Context finds the outer context within the function of Do.
var Context = &analysis.Analyzer{
	Name: "rlockctx",
	URL:  home,
	Doc: `report work in the function of Do that has the context of the caller

Do, TryDo, DoValue and Election.Run give their function a context of its own. It ends when the lock is lost, and locking with it is a
re-entry. The context of the caller has neither: work under it goes on while another owner has the lock, and a Lock with it waits for
itself. Pass on the context that the function gets. If it has the name of the outer one, no mistake is possible:

	err := lock.Do(ctx, func(ctx context.Context) error {
		return db.Save(ctx, order)
	})

These uses of the outer context are no findings: in defer and go statements and in function literals that may run later; where an error is
handled, because that may have to work after the loss; for a logger, or to read a value; and context.WithoutCancel, which says why.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, valuesAnalyzer},
	Run:      runContext,
}

func runContext(pass *analysis.Pass) (any, error) {
	r, v := newReporter(pass), pass.ResultOf[valuesAnalyzer].(*values)
	var sections []*outer
	for c := range rootOf(pass).Preorder((*ast.CallExpr)(nil)) {
		if s, ok := sectionOf(pass.TypesInfo, c.Node().(*ast.CallExpr)); ok {
			o := &outer{values: v, s: s, sources: v.sources(s.ctx)}
			inside, _ := c.FindNode(s.lit)
			o.find(inside)
			sections = append(sections, o)
		}
	}
	// In a section within a section, the context of the inner one is the one to use.
	seen := make(map[ast.Expr]bool)
	for _, o := range slices.Backward(sections) {
		o.uses = slices.DeleteFunc(o.uses, func(use outerUse) bool { return seen[use.arg] })
		for _, use := range o.uses {
			seen[use.arg] = true
		}
	}
	for _, o := range sections {
		o.report(r)
	}
	return nil, nil
}

// outerUse is a call in a section that gets an outer context.
type outerUse struct {
	call *ast.CallExpr
	arg  ast.Expr
}

// outer finds the outer contexts in a section.
type outer struct {
	*values
	s       section
	sources map[string]bool
	uses    []outerUse // in the order of the text
}

// find collects the calls that get an outer context.
func (o *outer) find(inside inspector.Cursor) {
	inside.Inspect(nil, func(c inspector.Cursor) bool {
		switch n := c.Node().(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return false
		case *ast.FuncLit:
			return n == o.s.lit || o.runsInPlace(c)
		case *ast.BlockStmt:
			return !o.handlesError(c)
		case *ast.CaseClause, *ast.CommClause:
			return !o.isErrorCase(n)
		case *ast.CallExpr:
			if o.exempt(n) {
				return true
			}
			sig, ok := signatureOf(o.info, n)
			for i, arg := range n.Args {
				if ok && isContext(parameter(sig, i)) && o.isOuter(arg) {
					o.uses = append(o.uses, outerUse{n, arg})
				}
			}
		}
		return true
	})
}

// isOuter reports whether an expression is a context from which that of the section is derived, and not the other way round.
func (o *outer) isOuter(arg ast.Expr) bool {
	place, variable := o.place(arg), o.variable(arg)
	if place == "" || !o.sources[place] || variable == nil || within(o.s.lit, variable.Pos()) {
		return false
	}
	for _, s := range o.set[variable] {
		if within(o.s.lit, s.at.Node().Pos()) {
			return false
		}
	}
	return true
}

// runsInPlace reports whether a function literal runs while the call to which it is given does: it is called at once, or given to a
// call that gets a context, too.
func (o *outer) runsInPlace(c inspector.Cursor) bool {
	call, ok := c.Parent().Node().(*ast.CallExpr)
	if !ok {
		return false
	}
	if ast.Unparen(call.Fun) == c.Node() {
		return true
	}
	fn := callee(o.info, call)
	return contextOf(o.info, call) != nil && (fn == nil || fn.Name() != "AfterFunc")
}

// handlesError reports whether a block is the body of an if statement whose condition is about an error, or about the end of a context.
func (o *outer) handlesError(c inspector.Cursor) bool {
	branch, ok := c.Parent().Node().(*ast.IfStmt)
	return ok && branch.Body == c.Node() && o.aboutError(branch.Cond)
}

func (o *outer) isErrorCase(clause ast.Node) bool {
	switch n := clause.(type) {
	case *ast.CaseClause:
		for _, e := range n.List {
			if o.aboutError(e) {
				return true
			}
		}
	case *ast.CommClause:
		return n.Comm != nil && o.aboutError(n.Comm)
	}
	return false
}

// aboutError reports whether an expression has a part that is an error, or is a call of Done.
func (o *outer) aboutError(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok && isError(o.info.TypeOf(e)) {
			found = true
		}
		if call, ok := n.(*ast.CallExpr); ok {
			fn := callee(o.info, call)
			found = found || fn != nil && fn.Name() == "Done"
		}
		return !found
	})
	return found
}

var (
	// acquiring has the functions of rlock for which it matters with which context they are called.
	acquiring = regexp.MustCompile(`^((Try)?(Lock|Acquire|Do)|DoValue|Run|Await|HoldFrom|WithOwner|EnsureOwner)$`)
	reading   = regexp.MustCompile(`From[A-Za-z]*(Context|Ctx)$`)
)

// exempt reports whether a call may get the outer context.
func (o *outer) exempt(call *ast.CallExpr) bool {
	fn := callee(o.info, call)
	sig, ok := signatureOf(o.info, call)
	if fn == nil || fn.Pkg() == nil || !ok {
		return false
	}
	results := sig.Results()
	switch fn.Pkg().Path() {
	case library:
		return !acquiring.MatchString(fn.Name())
	case "context":
		return fn.Name() == "WithoutCancel" || fn.Name() == "Cause" || fn.Name() == "AfterFunc"
	case "log/slog":
		return true
	}
	if sig.Variadic() && results.Len() == 0 || reading.MatchString(fn.Name()) { // a logger or a metric; a getter
		return true
	}
	if sig.Params().Len() != 1 || results.Len() == 0 {
		return false
	}
	for result := range results.Variables() {
		if isError(result.Type()) || isContext(result.Type()) {
			return false
		}
	}
	return true // it only reads a value
}

func (o *outer) report(r *reporter) {
	param := o.s.param(o.info)
	for i, use := range o.uses {
		name := types.ExprString(use.arg)
		advice := "pass on the context that its function gets"
		if param != nil && param.Name() != name {
			advice = "pass on " + param.Name()
		}
		why := "which does not end when the lock is lost"
		if o.waitsForItself(use.call) {
			why = fmt.Sprintf("which waits for the lock that %s holds, unless it has an owner", o.s.name)
		}
		fix := o.rename(r.Pass, use)
		if param == nil && i == 0 {
			fix = o.name()
		}
		r.report(analysis.Diagnostic{
			Pos: use.arg.Pos(), End: use.arg.End(), SuggestedFixes: fix,
			Message: fmt.Sprintf("%s within %s is the context of the caller, %s: %s", name, o.s.name, why, advice),
		})
	}
}

// waitsForItself reports whether a call in the section asks for the section's lock.
func (o *outer) waitsForItself(call *ast.CallExpr) bool {
	of := o.s.lock(o.info)
	if of == nil {
		return false
	}
	receiver, _ := method(o.info, call, "Lock", "Acquire", "Do")
	if isFunction(o.info, call, "DoValue") && len(call.Args) > 1 {
		receiver = call.Args[1]
	}
	if receiver == nil || o.key(of) == "" || o.key(of) != o.key(receiver) {
		return false
	}
	k := o.kindOf(of)
	return k == exclusive || k == fenced
}

// rename returns the change of an outer context to the section's own.
func (o *outer) rename(pass *analysis.Pass, use outerUse) []analysis.SuggestedFix {
	param := o.s.param(o.info)
	scope := pass.Pkg.Scope().Innermost(use.arg.Pos())
	if param == nil || scope == nil {
		return nil
	}
	if _, visible := scope.LookupParent(param.Name(), use.arg.Pos()); visible != param {
		return nil
	}
	return []analysis.SuggestedFix{{
		Message:   "Pass on " + param.Name(),
		TextEdits: []analysis.TextEdit{{Pos: use.arg.Pos(), End: use.arg.End(), NewText: []byte(param.Name())}},
	}}
}

// name returns the change that gives the section's own context the name of the outer one, which is then out of sight.
func (o *outer) name() []analysis.SuggestedFix {
	name, ok := ast.Unparen(o.uses[0].arg).(*ast.Ident)
	same := func(use outerUse) bool { return ok && o.object(use.arg) == o.object(name) }
	if !ok || !all(o.uses, same) || len(o.uses) != mentions(o.values, o.s.lit, name) {
		return nil // the name would change what else the function does
	}
	params := o.s.lit.Type.Params.List
	edit := analysis.TextEdit{Pos: params[0].Type.Pos(), NewText: []byte(name.Name + " ")}
	switch {
	case len(params[0].Names) == 1:
		edit = analysis.TextEdit{Pos: params[0].Names[0].Pos(), End: params[0].Names[0].End(), NewText: []byte(name.Name)}
	case len(params) > 1 || len(params[0].Names) > 1:
		return nil // all of them would need names
	}
	return []analysis.SuggestedFix{{Message: "Name the function's context " + name.Name, TextEdits: []analysis.TextEdit{edit}}}
}

// mentions returns how often a variable is named in a function.
func mentions(v *values, lit *ast.FuncLit, name *ast.Ident) (n int) {
	ast.Inspect(lit.Body, func(node ast.Node) bool {
		if id, ok := node.(*ast.Ident); ok && v.object(id) == v.object(name) {
			n++
		}
		return true
	})
	return n
}

func all(uses []outerUse, is func(outerUse) bool) bool {
	return !slices.ContainsFunc(uses, func(use outerUse) bool { return !is(use) })
}
