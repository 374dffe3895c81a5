package internal_test

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxBools is how many fields of a struct may be bool: each of them doubles the states that a reader has to think of.
const maxBools = 6

// manyBools has the structs that have more. A number may only fall, and a struct that has come down to the limit goes.
var manyBools = map[string]int{}

// TestStructsHaveFewBools counts the bool fields of every struct.
func TestStructsHaveFewBools(t *testing.T) {
	t.Parallel()
	found := make(map[string]int)
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				if bools := boolsOf(fields); bools > maxBools {
					found[s.pkg+"."+spec.Name.Name] = bools
				}
			}
			return true
		})
	}
	for name, bools := range found {
		require.LessOrEqual(t, bools, max(manyBools[name], maxBools), "bool fields of %s", name)
	}
	for name := range manyBools {
		require.Contains(t, found, name, "it has come down to the limit")
	}
}

// boolsOf counts the bool fields of a struct, with those of structs inside of it that have no name.
func boolsOf(s *ast.StructType) (bools int) {
	for _, field := range s.Fields.List {
		switch of := field.Type.(type) {
		case *ast.Ident:
			if of.Name == "bool" {
				bools += len(field.Names)
			}
		case *ast.StructType:
			bools += boolsOf(of)
		case *ast.SelectorExpr:
			if of.Sel.Name == "Bool" { // of sync/atomic
				bools += len(field.Names)
			}
		}
	}
	return bools
}
