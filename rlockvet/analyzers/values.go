package analyzers

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// valuesAnalyzer finds out what the variables and fields of a package are set to. The other analyzers share the result.
var valuesAnalyzer = &analysis.Analyzer{
	Name:       "rlockvalues",
	Doc:        "collect what variables and fields are set to",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*values](),
	Run: func(pass *analysis.Pass) (any, error) {
		v := &values{
			pkg: pass.Pkg, info: pass.TypesInfo,
			set: make(map[types.Object][]setting), unseen: make(map[types.Object]bool),
		}
		for c := range rootOf(pass).Preorder() {
			v.visit(c)
		}
		return v, nil
	},
}

func rootOf(pass *analysis.Pass) inspector.Cursor {
	return pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root()
}

// setting is one assignment to a variable or field.
type setting struct {
	at     inspector.Cursor // the statement, or the element of a composite literal
	value  ast.Expr
	result int // which result of value, if it is a call with several
}

// values has the settings of all variables and fields of a package.
type values struct {
	pkg  *types.Package
	info *types.Info
	set  map[types.Object][]setting
	// unseen has the objects that get values which are not in set, such as parameters and variables whose address is taken.
	unseen map[types.Object]bool
}

func (v *values) visit(c inspector.Cursor) {
	switch n := c.Node().(type) {
	case *ast.AssignStmt:
		v.assign(c, n.Lhs, n.Rhs)
	case *ast.ValueSpec:
		names := make([]ast.Expr, len(n.Names))
		for i, name := range n.Names {
			names[i] = name
		}
		if len(n.Values) > 0 { // otherwise the value is nil, which holds nothing
			v.assign(c, names, n.Values)
		}
	case *ast.RangeStmt:
		v.hide(n.Key)
		v.hide(n.Value)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			v.hide(n.X)
		}
	case *ast.Field:
		if _, member := c.Parent().Parent().Node().(*ast.StructType); !member { // a parameter, a result or a receiver
			for _, name := range n.Names {
				v.hide(name)
			}
		}
	case *ast.CompositeLit:
		v.composite(c, n)
	}
}

// assign notes an assignment of several values, or of the results of one call.
func (v *values) assign(at inspector.Cursor, left, right []ast.Expr) {
	for i, target := range left {
		obj := v.object(target)
		if obj == nil {
			continue
		}
		switch {
		case len(right) == len(left):
			v.set[obj] = append(v.set[obj], setting{at, ast.Unparen(right[i]), 0})
		case len(right) == 1:
			v.set[obj] = append(v.set[obj], setting{at, ast.Unparen(right[0]), i})
		}
	}
}

// composite notes the fields that a composite literal sets.
func (v *values) composite(c inspector.Cursor, lit *ast.CompositeLit) {
	t := v.info.TypeOf(lit)
	if t == nil {
		return
	}
	if p, ok := t.Underlying().(*types.Pointer); ok { // &T is left out in a list of *T
		t = p.Elem()
	}
	fields, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, element := range lit.Elts {
		value, target := element, types.Object(nil)
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			value = pair.Value
			if key, ok := pair.Key.(*ast.Ident); ok {
				target = v.info.Uses[key]
			}
		} else if i < fields.NumFields() {
			target = fields.Field(i)
		}
		if target != nil {
			target = origin(target)
			v.set[target] = append(v.set[target], setting{c, ast.Unparen(value), 0})
		}
	}
}

// hide notes that an expression may get values that nobody sees here.
func (v *values) hide(e ast.Expr) {
	if e == nil {
		return
	}
	if obj := v.object(e); obj != nil {
		v.unseen[obj] = true
	}
}

// object returns the variable or field that an expression names, or nil.
func (v *values) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if obj, ok := v.info.ObjectOf(e).(*types.Var); ok {
			return origin(obj)
		}
	case *ast.SelectorExpr:
		if obj, ok := v.info.ObjectOf(e.Sel).(*types.Var); ok {
			return origin(obj)
		}
	}
	return nil
}

// origin returns the field of the generic type for that of an instance.
func origin(obj types.Object) types.Object {
	if v, ok := obj.(*types.Var); ok {
		return v.Origin()
	}
	return obj
}

// settings returns everything that a variable or field is ever set to, or false if that cannot be known.
func (v *values) settings(e ast.Expr) ([]setting, bool) {
	obj := v.object(e)
	if obj == nil || v.unseen[obj] || obj.Pkg() != v.pkg {
		return nil, false
	}
	field := obj.(*types.Var).IsField()
	if (field || obj.Parent() == v.pkg.Scope()) && obj.Exported() {
		return nil, false // other packages may set it
	}
	return v.set[obj], len(v.set[obj]) > 0
}

// key returns a text that is the same for two expressions only if they have the same value: a variable that is set once, a field of
// such a variable, a getter of rlock or of net/http, or a handle of a constant name. Otherwise it returns "".
func (v *values) key(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		obj := v.object(e)
		if obj == nil || len(v.set[obj]) > 1 || v.unseen[obj] && len(v.set[obj]) > 0 {
			return ""
		}
		return fmt.Sprintf("%p", obj)
	case *ast.SelectorExpr:
		if v.info.Selections[e] == nil { // a variable of another package
			return v.key(e.Sel)
		}
		if inner := v.key(e.X); inner != "" && v.object(e) != nil {
			return inner + "." + e.Sel.Name
		}
	case *ast.CallExpr:
		return v.callKey(e)
	}
	return ""
}

func (v *values) callKey(call *ast.CallExpr) string {
	fn := callee(v.info, call)
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if fn == nil || !ok || fn.Signature().Recv() == nil {
		return ""
	}
	inner := v.key(selector.X)
	if inner == "" {
		return ""
	}
	constant := len(call.Args) > 0 && v.info.Types[call.Args[0]].Value != nil
	switch {
	case len(call.Args) == 0 && (isContext(v.info.TypeOf(call)) || fromLibrary(fn)):
		return inner + "." + fn.Name() + "()"
	case fromLibrary(fn) && strings.HasPrefix(fn.Name(), "New") && constant:
		return fmt.Sprintf("%s.%s(%s)", inner, fn.Name(), v.info.Types[call.Args[0]].Value.ExactString())
	}
	return ""
}

// variable returns the variable with which an expression that has a key begins.
func (v *values) variable(e ast.Expr) types.Object {
	for {
		switch inner := ast.Unparen(e).(type) {
		case *ast.Ident:
			return v.object(inner)
		case *ast.SelectorExpr:
			e = inner.X
		case *ast.CallExpr:
			e = inner.Fun
		default:
			return nil
		}
	}
}

// enclosing returns the innermost function around a node.
func enclosing(c inspector.Cursor) (inspector.Cursor, bool) {
	for function := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		return function, true
	}
	return inspector.Cursor{}, false
}

// signature returns the signature of a function declaration or a function literal.
func (v *values) signature(function inspector.Cursor) *types.Signature {
	if decl, ok := function.Node().(*ast.FuncDecl); ok {
		return v.info.Defs[decl.Name].(*types.Func).Signature()
	}
	return v.info.TypeOf(function.Node().(*ast.FuncLit)).Underlying().(*types.Signature)
}
