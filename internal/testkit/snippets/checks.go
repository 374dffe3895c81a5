package snippets

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// checks makes checks of the comments that name results.
type checks struct {
	snippet

	comments map[int]string // by their lines
	line     func(token.Pos) int
	edits    []edit
	checked  map[ast.Stmt]bool
	switches bool // one of them tells errors apart
}

// edit is a text to insert.
type edit struct {
	at   token.Pos
	text string
}

// visit looks at the statements of each block.
func (c *checks) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt:
		c.list(n.List)
	case *ast.CaseClause:
		c.list(n.Body)
	case *ast.CommClause:
		c.list(n.Body)
	case *ast.SwitchStmt:
		c.cases(n)
	}
	return true
}

// results matches the results in a comment: at its beginning, or behind another remark.
var results = regexp.MustCompile(`(?:^//\s*|; |\bor )((?:true|false)(?:, (?:nil|Err[A-Z]\w*))?|nil|Err[A-Z]\w*)\b`)

func (c *checks) list(stmts []ast.Stmt) {
	for _, stmt := range stmts {
		line := c.line(stmt.End())
		found := results.FindStringSubmatch(c.comments[line])
		if found == nil {
			continue
		}
		// The code begins on the second line of what was parsed.
		call := fmt.Sprintf("snippets.Results(t, \"%s:%d\", %s)", c.page, c.snippet.line+line-2, strings.ReplaceAll(found[1], "Err", "rlock.Err"))
		switch stmt := stmt.(type) {
		case *ast.ExprStmt:
			c.edits = append(c.edits, edit{stmt.Pos(), call + "("}, edit{stmt.End(), ")"})
		case *ast.AssignStmt:
			names := make([]string, len(stmt.Lhs))
			for i, x := range stmt.Lhs {
				names[i] = fmt.Sprint(x)
			}
			c.edits = append(c.edits, edit{stmt.End(), "; " + call + "(" + strings.Join(names, ", ") + ")"})
		default:
			continue
		}
		c.checked[stmt] = true
	}
}
