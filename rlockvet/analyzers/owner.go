package analyzers

import (
	"fmt"
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Owner finds owners that cannot re-enter or unlock what they should.
var Owner = &analysis.Analyzer{
	Name: "rlockowner",
	URL:  home,
	Doc: `report owners made by WithOwner that do not own what they should

Each call of WithOwner makes a new owner, which has none of the locks that its context holds. So the owner belongs where a goroutine or a
request begins, and all calls that are to be the same holder get its context:

	ctx = rlock.WithOwner(ctx)
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	defer lock.Unlock(ctx)

The analyzer reports an owner whose context is dropped, also one that only a single Lock or Unlock gets: nobody can re-enter or unlock with
it. It reports a lock that is locked with the context of one owner and unlocked with that of another, and a lock that is held, in the same
function, by another owner than the one that asks for it. And it reports WithOwner in a function that locks, if the package calls
this function with the context of a hold or of an owner: EnsureOwner keeps both.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, valuesAnalyzer},
	Run:      runOwner,
}

func runOwner(pass *analysis.Pass) (any, error) {
	o := &owners{newReporter(pass), pass.ResultOf[valuesAnalyzer].(*values)}
	for c := range rootOf(pass).Preorder((*ast.CallExpr)(nil), (*ast.FuncDecl)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CallExpr:
			if isFunction(pass.TypesInfo, n, "WithOwner", "EnsureOwner") {
				o.dropped(c, n)
			}
			if s, ok := sectionOf(pass.TypesInfo, n); ok {
				o.withinSection(c, s)
			}
		case *ast.FuncDecl:
			o.mixed(c)
			o.hides(c, n)
		}
	}
	return nil, nil
}

type owners struct {
	*reporter
	*values
}

func (o *owners) find(n ast.Node, format string, args ...any) {
	o.report(analysis.Diagnostic{Pos: n.Pos(), End: n.End(), Message: fmt.Sprintf(format, args...)})
}

// dropped reports an owner whose context nobody keeps.
func (o *owners) dropped(c inspector.Cursor, call *ast.CallExpr) {
	name := callee(o.TypesInfo, call).Name()
	switch n := c.Parent().Node().(type) {
	case *ast.ExprStmt:
		o.find(call, "the context that %s returns is dropped, so nothing has the owner: lock with that context", name)
	case *ast.AssignStmt:
		if left, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Lhs) == 1 && left.Name == "_" {
			o.find(call, "the context that %s returns is dropped, so nothing has the owner: lock with that context", name)
		}
	case *ast.CallExpr:
		receiver, verb := method(o.TypesInfo, n, "Lock", "TryLock", "Unlock", "IsHeld", "HoldCount")
		if receiver == nil || name != "WithOwner" {
			return
		}
		fixed, known := leaseOf(o.TypesInfo, n)
		switch {
		case verb != "Lock" && verb != "TryLock":
			o.find(call, "this owner is new and holds nothing: give %s the context with which the lock was taken", verb)
		case known && !fixed:
			o.find(call, "nobody can re-enter or unlock with an owner that only %s gets: keep the context that WithOwner returns", verb)
		}
	}
}

// verb is a call that locks or unlocks.
type verb struct {
	call     *ast.CallExpr
	name     string
	lock     string // the key of the handle, or ""
	kind     kind
	owner    string
	inline   bool // the owner is made in the call
	deferred bool
	in       ast.Node // the innermost function
}

// verbs returns the calls in a function that lock or unlock, in the order of the text.
func (o *owners) verbs(function inspector.Cursor) (all []verb) {
	for c := range function.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		receiver, name := method(o.TypesInfo, call, "Lock", "TryLock", "Acquire", "TryAcquire", "Do", "TryDo", "Unlock", "ForceUnlock")
		if isFunction(o.TypesInfo, call, "DoValue") && len(call.Args) > 1 {
			receiver, name = call.Args[1], "Do"
		}
		ctx := contextOf(o.TypesInfo, call)
		if receiver == nil || ctx == nil || isNamed(o.TypesInfo.TypeOf(receiver), library, "Hold") {
			continue
		}
		_, deferred := c.Parent().Node().(*ast.DeferStmt)
		made, inline := ast.Unparen(ctx).(*ast.CallExpr)
		inline = inline && isFunction(o.TypesInfo, made, "WithOwner")
		v := verb{
			call: call, name: name, lock: o.key(receiver), kind: o.kindOf(receiver),
			owner: o.owner(ctx), inline: inline, deferred: deferred,
		}
		if in, ok := enclosing(c); ok {
			v.in = in.Node()
		}
		all = append(all, v)
	}
	return all
}

// mixed reports locks that a function locks with one owner and unlocks, or locks again, with another.
func (o *owners) mixed(function inspector.Cursor) {
	var order []string
	byLock := make(map[string][]verb)
	for _, v := range o.verbs(function) {
		if v.lock == "" {
			continue
		}
		if byLock[v.lock] == nil {
			order = append(order, v.lock)
		}
		byLock[v.lock] = append(byLock[v.lock], v)
	}
	for _, lock := range order {
		o.unlocksOther(byLock[lock])
		o.waitsForOther(byLock[lock])
	}
}

// unlocksOther reports the Unlocks of a lock if all of them have other owners than the Locks.
func (o *owners) unlocksOther(verbs []verb) {
	made, lockers := false, make(map[string]bool)
	var unlocks []verb
	for _, v := range verbs {
		switch {
		case v.inline:
			return // dropped reports it
		case v.name == "Lock", v.name == "TryLock":
			lockers[v.owner] = true
		case v.name == "Unlock":
			unlocks = append(unlocks, v)
		default:
			return // a context of theirs has the owner, too
		}
		made = made || isOwner(v.owner)
	}
	if !made || len(lockers) == 0 || lockers[""] {
		return
	}
	for _, v := range unlocks {
		if v.owner == "" || lockers[v.owner] {
			return
		}
	}
	for _, v := range unlocks {
		o.find(v.call, "this unlocks with another owner than the one that locked: use the context of the Lock")
	}
}

// waitsForOther reports a Lock after a Lock of the same function, to which a deferred Unlock belongs.
func (o *owners) waitsForOther(verbs []verb) {
	var held *verb
	for i, v := range verbs {
		switch {
		case v.name == "ForceUnlock" || v.name == "Unlock" && !v.deferred:
			return
		case v.kind != exclusive && v.kind != fenced:
			return
		case held == nil && v.name == "Unlock" && i > 0 && verbs[i-1].name == "Lock" && verbs[i-1].in == v.in:
			held = &verbs[i-1]
		case held != nil && v.in == held.in && v.name != "Unlock" && differ(v.owner, held.owner):
			o.waits(v)
		}
	}
}

// differ reports whether two owners are known, and are two because WithOwner made one of them.
func differ(a, b string) bool { return a != "" && b != "" && a != b && (isOwner(a) || isOwner(b)) }

func (o *owners) waits(v verb) {
	what := "waits for itself"
	if v.name == "TryLock" || v.name == "TryAcquire" || v.name == "TryDo" {
		what = "never gets the lock"
	}
	o.find(v.call, "this %s: the lock is held here by another owner; lock with the context of that one, or use EnsureOwner", what)
}

// withinSection reports verbs in the function of Do that ask for Do's own lock with an owner made by WithOwner.
func (o *owners) withinSection(c inspector.Cursor, s section) {
	handle := s.lock(o.TypesInfo)
	if handle == nil || o.key(handle) == "" {
		return
	}
	if k := o.kindOf(handle); k != exclusive && k != fenced {
		return
	}
	inside, _ := c.FindNode(s.lit)
	for _, v := range o.verbs(inside) {
		if v.lock == o.key(handle) && v.in == ast.Node(s.lit) && v.name != "Unlock" && v.name != "ForceUnlock" &&
			isOwner(v.owner) && o.owner(s.ctx) != "" && v.owner != o.owner(s.ctx) {
			o.waits(v)
		}
	}
}
