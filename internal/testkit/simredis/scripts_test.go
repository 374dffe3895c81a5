package simredis

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCacheOfScripts(t *testing.T) {
	t.Parallel()
	const source, noScript = "return ARGV[1]", Err("NOSCRIPT No matching script. Please use EVAL.")
	f, other := newFixture(t), newFixture(t)
	digest := Digest(source)
	require.Equal(t, noScript, f.Do("EVALSHA", digest, "0", "a"))
	require.Equal(t, "a", f.eval(source, "a"))
	require.Equal(t, "b", f.Do("EVALSHA", strings.ToUpper(digest), "0", "b"), "EVAL keeps it")
	require.Equal(t, noScript, other.Do("EVALSHA", digest, "0", "a"), "every server has its own")
	f.FlushScripts()
	require.Equal(t, noScript, f.Do("EVALSHA", digest, "0", "a"))
	require.Equal(t, digest, f.Do("SCRIPT", "LOAD", source))
	require.Equal(t, []any{int64(1), int64(0)}, f.Do("SCRIPT", "EXISTS", digest, "x"))
	require.Equal(t, Status("OK"), f.do("SCRIPT FLUSH SYNC"))
	require.Equal(t, noScript, f.Do("EVALSHA", digest, "0", "a"))
	require.Contains(t, f.Do("SCRIPT", "LOAD", "if"), "ERR Error compiling script (new function): ")
	require.Equal(t, errNotInt, f.Do("EVAL", source, "x"))
	require.Equal(t, Err("ERR Number of keys can't be negative"), f.Do("EVAL", source, "-1"))
	require.Equal(t, Err("ERR Number of keys can't be greater than number of args"), f.Do("EVAL", source, "2", "k"))
}

// TestNumbersOfLua51 has the numbers for which gopher-lua alone is different.
func TestNumbersOfLua51(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		source string
		want   any
	}{
		{"return 1e15 .. ''", "1e+15"},
		{"return tostring(123456789012345)", "1.2345678901234e+14"},
		{"return 99999999999999 .. '|' .. 1/3", "99999999999999|0.33333333333333"},
		{"local n = 2^53\nreturn 'a' .. n .. 'b'", "a9.007199254741e+15b"},
		{"return tonumber('1e3')", int64(1000)},
		{"return tonumber('010')", int64(10)},
		{"return tonumber('0x10')", int64(16)},
		{"return tonumber('0b1') or 'none'", "none"},
		{"return tonumber('1_0') or 'none'", "none"},
		{"return tonumber(' 5 ')", int64(5)},
		{"return '010' + 1", int64(11)},
		{"return #(1e15 .. '')", int64(5)},
		{"return table.concat({1e15, 2}, 1.5)", "1e+151.52"},
		{"return string.format('%s %d %.0f', 1e15, 3.9, 2^60)", "1e+15 3 1152921504606846976"},
		{"return string.sub(1e15, 1, 2)", "1e"},
		{"return {tostring(0/0 == 0/0), 5 % -3, -5 % 3}", []any{"false", int64(-1), int64(1)}},
		{"return {2^63, -2^63, 1e300, 3.99, -3.99}", []any{int64(-1 << 63), int64(-1 << 63), int64(-1 << 63), int64(3), int64(-3)}},
		{"return redis.call('SET', 'k', 2^60) and redis.call('GET', 'k')", "1.152921504606847e+18"},
		{"return redis.call('SET', 'k', 123456789012345678) and redis.call('GET', 'k')", "1.2345678901234568e+17"},
		{"return {math.random, math.randomseed}", []any{}},
	} {
		require.Equal(t, c.want, f.eval(c.source), c.source)
	}
}

func TestErrorsOfLua51(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		source string
		want   string
	}{
		{"local a\nreturn a.b", "user_script:2: attempt to index local 'a' (a nil value)"},
		{"local a = {}\nreturn a.b.c", "user_script:2: attempt to index field 'b' (a nil value)"},
		{"local a = {}\nlocal function f()\nreturn a.b .. 1\nend\nreturn f()", "user_script:3: attempt to concatenate field 'b' (a nil value)"},
		{"local a\nlocal function f()\nreturn a + 1\nend\nreturn f()", "user_script:3: attempt to perform arithmetic on upvalue 'a' (a nil value)"},
		{"return 1 < '2'", "user_script:1: attempt to compare number with string"},
		{"return {} < {}", "user_script:1: attempt to compare two table values"},
		{"return redis.nosuch()", "user_script:1: attempt to call field 'nosuch' (a nil value)"},
		{"local a\nreturn #a", "user_script:2: attempt to get length of local 'a' (a nil value)"},
		{"return nosuch", "user_script:1: Script attempted to access nonexistent global variable 'nosuch'"},
		{"nosuch = 1", "user_script:1: Attempt to modify a readonly table"},
		{"error('x')", "user_script:1: x"},
		{"error('x', 0)", "x"},
		{"return math.floor(nil)", "user_script:1: bad argument #1 to 'floor' (number expected, got nil)"},
	} {
		reply, failed := f.eval(c.source).(Err)
		require.True(t, failed, c.source)
		text, where, _ := strings.Cut(string(reply), " script: ")
		require.Equal(t, "ERR "+c.want, text)
		require.True(t, strings.HasPrefix(where, Digest(c.source)+", on @user_script:"), where)
	}
}

func TestScriptsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.IsType(t, Err(""), f.eval("local function f() return f() + 1 end\nreturn f()"), "the stack overflows")
	require.IsType(t, Err(""), f.eval("return redis.call('INCR', KEYS[1])"))
	require.Equal(t, []any{"a"}, f.eval("return ARGV", "a"))
	require.Equal(t, []any{}, f.eval("return KEYS"))
	require.Equal(t, 0, f.engine.state.GetTop())
}

// TestNothingFromOutside checks that the package has no source of chance: no goroutine, no timer, no random number, and no clock but
// the server's.
func TestNothingFromOutside(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, spec := range tree.Imports {
			require.NotContains(t, spec.Path.Value, "rand", file)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s has a goroutine or a channel", file)
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" {
					require.True(t, slices.Contains([]string{"Time"}, n.Sel.Name), "%s uses time.%s", file, n.Sel.Name)
				}
			}
			return true
		})
	}
}
