package analyzers

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
)

// paths searches a function for a way from an acquisition to a return on which the lock stays held.
type paths struct {
	*holds
	obj  types.Object         // the hold
	ends map[ast.Node]bool    // nodes that end the hold although it is not named in them
	comm map[ast.Node]bool    // the communications of select statements, which the graph puts before the choice
	vars map[types.Object]int // the variables of errors that were met, for the bits of state.errs
	seen map[visit]bool
}

// state is what is known at a point of a path.
type state struct {
	held bool   // the acquisition has succeeded for certain
	errs uint64 // the variables of which a value other than nil means that there is nothing to unlock
}

type visit struct {
	block *cfg.Block
	state state
}

// leak returns a return statement that is reached with the lock held, or nil.
func (h *holds) leak(statement inspector.Cursor, obj types.Object) ast.Node {
	function, graph := h.graph(statement)
	if graph == nil {
		return nil
	}
	p := &paths{
		holds: h, obj: obj,
		ends: make(map[ast.Node]bool), comm: make(map[ast.Node]bool), vars: make(map[types.Object]int), seen: make(map[visit]bool),
	}
	for c := range function.Preorder((*ast.CommClause)(nil)) {
		if comm := c.Node().(*ast.CommClause).Comm; comm != nil {
			p.comm[comm] = true
		}
	}
	start := p.begin(statement.Node())
	p.spread(statement, function, start)
	for _, block := range graph.Blocks {
		for i, n := range block.Nodes {
			if n == statement.Node() && block.Live {
				return p.walk(block, i+1, start)
			}
		}
	}
	return nil
}

// begin returns the state after the acquisition. An error that is dropped is taken for nil.
func (p *paths) begin(statement ast.Node) state {
	var err ast.Expr
	switch n := statement.(type) {
	case *ast.AssignStmt:
		err = n.Lhs[1]
	case *ast.ValueSpec:
		err = n.Names[1]
	}
	if id, ok := err.(*ast.Ident); ok && id.Name != "_" {
		return state{errs: p.bit(p.TypesInfo.ObjectOf(id))}
	}
	return state{held: true}
}

// bit returns the bit of a variable. There are none left after 64 variables, which then say nothing.
func (p *paths) bit(obj types.Object) uint64 {
	if obj == nil {
		return 0
	}
	if _, ok := p.vars[obj]; !ok {
		p.vars[obj] = len(p.vars)
	}
	return 1 << p.vars[obj]
}

// walk follows the paths from a node of a block.
func (p *paths) walk(block *cfg.Block, from int, s state) ast.Node {
	if from == 0 {
		if p.seen[visit{block, s}] {
			return nil
		}
		p.seen[visit{block, s}] = true
		if clause, ok := block.Stmt.(*ast.CommClause); ok && block.Kind == cfg.KindSelectCaseBody && p.does(clause.Comm, learns) {
			return nil // <-hold.Done()
		}
	}
	for _, n := range block.Nodes[from:] {
		var over bool
		if s, over = p.step(n, s); over {
			return nil
		}
	}
	if ret := block.Return(); ret != nil && s.held {
		return ret
	}
	var condition ast.Expr
	if len(block.Succs) == 2 && len(block.Nodes) > 0 {
		condition, _ = block.Nodes[len(block.Nodes)-1].(ast.Expr)
	}
	for i, next := range block.Succs {
		after := s
		if condition != nil {
			switch says := p.says(condition, i == 0, s); {
			case says == nothingHeld, says == maybeHeld && p.does(condition, learns):
				continue
			case says == certainlyHeld:
				after.held = true
			}
		}
		if at := p.walk(next, 0, after); at != nil {
			return at
		}
	}
	return nil
}

// step returns the state after a node, and whether the path needs no more attention.
func (p *paths) step(n ast.Node, s state) (after state, over bool) {
	if p.ends[n] || p.does(n, ends) || p.does(n, sets) {
		return s, true
	}
	if _, ok := n.(ast.Expr); ok || p.comm[n] {
		return s, false // the choice that follows tells
	}
	learned := p.does(n, learns)
	assign, ok := n.(*ast.AssignStmt)
	if !ok {
		return s, learned // as in <-hold.Done()
	}
	for i, left := range assign.Lhs {
		id, ok := left.(*ast.Ident)
		if !ok || !isError(p.TypesInfo.TypeOf(id)) {
			continue
		}
		bit := p.bit(p.TypesInfo.ObjectOf(id))
		s.errs &^= bit
		if len(assign.Lhs) == len(assign.Rhs) && p.does(assign.Rhs[i], learns) { // err := hold.Err()
			s.errs |= bit
			learned = false
		}
	}
	return s, learned
}

// does reports whether the hold is named in a node with an effect.
func (p *paths) does(n ast.Node, what effect) bool {
	if n == nil {
		return false
	}
	for _, u := range p.uses[p.obj] {
		if u.effect == what && within(n, u.at.Node().Pos()) {
			return true
		}
	}
	return false
}

// spread marks the statements that decide whether the hold is ended, and after which the function goes on either way, as in
//
//	if locked {
//		hold.Unlock(ctx)
//	}
//
// The condition is taken to be the one under which the lock is held.
func (p *paths) spread(statement, function inspector.Cursor, start state) {
	for _, u := range p.uses[p.obj] {
		on := u.effect == ends
		for c := u.at; on && c != function && !c.Contains(statement); c = c.Parent() {
			switch n := c.Node().(type) {
			case *ast.BlockStmt:
				on = goesOn(n.List)
			case *ast.CaseClause:
				on = goesOn(n.Body)
			case *ast.CommClause:
				on = goesOn(n.Body)
			case *ast.IfStmt:
				// Nothing needs to be taken for granted if the condition is the error of the acquisition.
				p.ends[n.Cond] = p.says(n.Cond, true, start) == maybeHeld && p.says(n.Cond, false, start) == maybeHeld
			default:
				p.mark(n)
			}
		}
	}
}

// mark has every path that comes to a statement end there.
func (p *paths) mark(statement ast.Node) {
	switch n := statement.(type) {
	case *ast.ForStmt:
		if n.Cond != nil {
			p.ends[n.Cond] = true
		}
	case *ast.RangeStmt:
		p.ends[n.X] = true
	case *ast.SwitchStmt:
		if n.Tag != nil {
			p.ends[n.Tag] = true
		}
		p.markClauses(n.Body)
	case *ast.TypeSwitchStmt:
		p.ends[n.Assign] = true
	case *ast.SelectStmt:
		p.markClauses(n.Body)
	}
}

func (p *paths) markClauses(body *ast.BlockStmt) {
	for _, clause := range body.List {
		switch c := clause.(type) {
		case *ast.CaseClause:
			for _, e := range c.List {
				p.ends[e] = true
			}
		case *ast.CommClause:
			if c.Comm != nil {
				p.ends[c.Comm] = true
			}
		}
	}
}

// goesOn reports whether control may come to the end of a list of statements.
func goesOn(list []ast.Stmt) bool {
	if len(list) == 0 {
		return true
	}
	switch n := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return false
	case *ast.BranchStmt:
		return n.Tok == token.FALLTHROUGH
	}
	return true
}
