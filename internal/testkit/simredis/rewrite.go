package simredis

import (
	"regexp"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// The operators of gopher-lua print and read numbers unlike those of Lua 5.1, and no metatable is asked about numbers and texts. So a
// script is rewritten before it is compiled: each chain of ".." becomes a call of luaConcat, and each operand of arithmetic that may be
// no number becomes a call of luaNumber. The rewriter also learns how Lua 5.1 names what a script indexes and calls, for its errors.

const userScript = "user_script" // the name of every script in errors

// nameBreak separates names of operands.
const nameBreak = "\x00"

// compile compiles a script.
func compile(source string) (*lua.FunctionProto, map[string]string, error) {
	chunk, err := parse.Parse(strings.NewReader(source), userScript)
	if err != nil {
		return nil, nil, err
	}
	r := &rewriter{names: map[string]string{}}
	r.function(nil, chunk)
	proto, err := lua.Compile(chunk, userScript)
	return proto, r.names, err
}

var (
	indexed  = regexp.MustCompile(`^(user_script:(\d+): )attempt to index a non-table object\((\w+)\) with key '(.*)'$`)
	called   = regexp.MustCompile(`^(user_script:(\d+): )attempt to call a non-function object$`)
	measured = regexp.MustCompile(`^(user_script:(\d+): )__len undefined$`)
	compared = regexp.MustCompile(`attempt to compare (\w+) with (\w+)$`)
	argument = regexp.MustCompile(`bad argument #(\d+) to (?:\w+\.)?(\w+) \(`)
	looped   = regexp.MustCompile(`for statement (init|limit|step) must be a number$`)
)

// inLua51 returns an error of gopher-lua as Lua 5.1 words it.
func (c *script) inLua51(text string) string {
	if m := indexed.FindStringSubmatch(text); m != nil {
		name, ok := c.names[m[2]+nameBreak+m[4]]
		if !ok {
			name = c.names[m[2]+nameBreak+unknownKey]
		}
		return m[1] + "attempt to index " + withType(name, m[3])
	}
	if m := called.FindStringSubmatch(text); m != nil {
		return m[1] + "attempt to call " + withType(c.names[m[2]+nameBreak+callKey], "nil")
	}
	if m := measured.FindStringSubmatch(text); m != nil {
		return m[1] + "attempt to get length of " + withType(c.names[m[2]+nameBreak+lengthKey], "nil")
	}
	if m := compared.FindStringSubmatch(text); m != nil && m[1] == m[2] {
		return strings.TrimSuffix(text, m[0]) + "attempt to compare two " + m[1] + " values"
	}
	if m := looped.FindStringSubmatch(text); m != nil {
		part := map[string]string{"init": "initial value", "limit": "limit", "step": "step"}[m[1]]
		return strings.TrimSuffix(text, m[0]) + "'for' " + part + " must be a number"
	}
	return argument.ReplaceAllString(text, "bad argument #$1 to '$2' (")
}

func withType(name, kind string) string {
	if name == "" {
		return "a " + kind + " value"
	}
	return name + " (a " + kind + " value)"
}

// The keys of names, besides those that a script indexes with.
const (
	unknownKey = "\x00?" // a key that is no text in the source
	callKey    = "\x00()"
	lengthKey  = "\x00#"
)

// rewriter changes the tree of a script in place.
type rewriter struct {
	names  map[string]string // line, break, key -> how Lua 5.1 names what is indexed there
	scopes []scope
}

// scope is a block, or a function.
type scope struct {
	function bool
	locals   map[string]bool
}

func (r *rewriter) open(function bool, names ...string) {
	s := scope{function, map[string]bool{}}
	r.scopes = append(r.scopes, s)
	r.declare(names...)
}

func (r *rewriter) close() { r.scopes = r.scopes[:len(r.scopes)-1] }

func (r *rewriter) declare(names ...string) {
	for _, name := range names {
		r.scopes[len(r.scopes)-1].locals[name] = true
	}
}

// nameOf returns how Lua 5.1 names an expression in an error, or an empty text.
func (r *rewriter) nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.IdentExpr:
		sort := "local"
		for _, s := range slices.Backward(r.scopes) {
			if s.locals[e.Value] {
				return sort + " '" + e.Value + "'"
			}
			if s.function {
				sort = "upvalue"
			}
		}
		return "global '" + e.Value + "'"
	case *ast.AttrGetExpr:
		if key, ok := e.Key.(*ast.StringExpr); ok {
			return "field '" + key.Value + "'"
		}
		return "field '?'"
	}
	return ""
}

func (r *rewriter) function(par *ast.ParList, stmts []ast.Stmt) {
	r.open(true)
	if par != nil {
		r.declare(par.Names...)
	}
	r.stmts(stmts)
	r.close()
}

func (r *rewriter) block(stmts []ast.Stmt, names ...string) {
	r.open(false, names...)
	r.stmts(stmts)
	r.close()
}

func (r *rewriter) stmts(stmts []ast.Stmt) {
	for _, stmt := range stmts {
		r.stmt(stmt)
	}
}

func (r *rewriter) stmt(stmt ast.Stmt) {
	switch s := stmt.(type) {
	case *ast.AssignStmt:
		r.exprs(s.Lhs)
		r.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		if len(s.Exprs) == 1 {
			if _, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
				r.declare(s.Names...) // a local function knows itself
			}
		}
		r.exprs(s.Exprs)
		r.declare(s.Names...)
	case *ast.FuncCallStmt:
		r.expr(&s.Expr)
	case *ast.DoBlockStmt:
		r.block(s.Stmts)
	case *ast.WhileStmt:
		r.expr(&s.Condition)
		r.block(s.Stmts)
	case *ast.RepeatStmt:
		r.open(false)
		r.stmts(s.Stmts)
		r.expr(&s.Condition)
		r.close()
	case *ast.IfStmt:
		r.expr(&s.Condition)
		r.block(s.Then)
		r.block(s.Else)
	case *ast.NumberForStmt:
		r.expr(&s.Init)
		r.expr(&s.Limit)
		if s.Step != nil {
			r.expr(&s.Step)
		}
		r.block(s.Stmts, s.Name)
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		r.block(s.Stmts, s.Names...)
	case *ast.FuncDefStmt:
		r.function(s.Func.ParList, s.Func.Stmts)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	}
}

func (r *rewriter) exprs(exprs []ast.Expr) {
	for i := range exprs {
		r.expr(&exprs[i])
	}
}

func (r *rewriter) expr(at *ast.Expr) {
	switch e := (*at).(type) {
	case *ast.AttrGetExpr:
		r.index(e.Line(), e.Object, e.Key)
		r.expr(&e.Object)
		r.expr(&e.Key)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			if field.Key != nil {
				r.expr(&field.Key)
			}
			r.expr(&field.Value)
		}
	case *ast.FuncCallExpr:
		if e.Receiver != nil {
			r.index(e.Line(), e.Receiver, &ast.StringExpr{Value: e.Method})
			r.expr(&e.Receiver)
		} else {
			r.learn(atLine(e.Line(), callKey), r.nameOf(e.Func))
			r.expr(&e.Func)
		}
		r.exprs(e.Args)
	case *ast.LogicalOpExpr:
		r.expr(&e.Lhs)
		r.expr(&e.Rhs)
	case *ast.RelationalOpExpr:
		r.expr(&e.Lhs)
		r.expr(&e.Rhs)
	case *ast.StringConcatOpExpr:
		*at = r.concat(e)
	case *ast.ArithmeticOpExpr:
		r.operand(&e.Lhs)
		r.operand(&e.Rhs)
		if e.Operator == "%" {
			*at = hidden(e.Line(), hiddenModulo, e.Lhs, e.Rhs)
		}
	case *ast.UnaryMinusOpExpr:
		r.operand(&e.Expr)
	case *ast.UnaryNotOpExpr:
		r.expr(&e.Expr)
	case *ast.UnaryLenOpExpr:
		r.learn(atLine(e.Line(), lengthKey), r.nameOf(e.Expr))
		r.expr(&e.Expr)
	case *ast.FunctionExpr:
		r.function(e.ParList, e.Stmts)
	}
}

// index learns the name of what is indexed with a key.
func (r *rewriter) index(line int, object, key ast.Expr) {
	text, what := r.nameOf(object), unknownKey
	if k, ok := key.(*ast.StringExpr); ok {
		what = k.Value
	}
	r.learn(atLine(line, what), text)
}

// learn keeps a name, unless the line has several.
func (r *rewriter) learn(key, name string) {
	if known, ok := r.names[key]; ok && known != name {
		name = ""
	}
	r.names[key] = name
}

// concat returns a chain of ".." as a call.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	var operands []ast.Expr
	for {
		operands = append(operands, e.Lhs)
		next, ok := e.Rhs.(*ast.StringConcatOpExpr)
		if !ok {
			operands = append(operands, e.Rhs)
			break
		}
		e = next
	}
	names := make([]string, len(operands))
	for i := range operands {
		names[i] = r.nameOf(operands[i])
		r.expr(&operands[i])
		single(operands[i])
	}
	return hidden(e.Line(), hiddenConcat, append([]ast.Expr{&ast.StringExpr{Value: strings.Join(names, nameBreak)}}, operands...)...)
}

// operand rewrites an operand of arithmetic.
func (r *rewriter) operand(at *ast.Expr) {
	name := r.nameOf(*at)
	r.expr(at)
	switch (*at).(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr, *ast.UnaryLenOpExpr:
		return
	case *ast.FuncCallExpr:
		if isHidden(*at, hiddenModulo) {
			return
		}
	}
	single(*at)
	*at = hidden((*at).Line(), hiddenNumber, *at, &ast.StringExpr{Value: name})
}

// single has an expression that may have several values have one.
func single(e ast.Expr) {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
}

func isHidden(e ast.Expr, name string) bool {
	call, ok := e.(*ast.FuncCallExpr)
	if !ok {
		return false
	}
	f, ok := call.Func.(*ast.IdentExpr)
	return ok && f.Value == name
}

// hidden returns a call of a hidden function.
func hidden(line int, name string, args ...ast.Expr) ast.Expr {
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: name}, Args: args, AdjustRet: true}
	call.Func.SetLine(line)
	call.SetLine(line)
	call.SetLastLine(line)
	for _, arg := range args {
		if arg.Line() == 0 {
			arg.SetLine(line)
			arg.SetLastLine(line)
		}
	}
	return call
}
