package wire_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/lua/assemble"
)

// What a script does most often is written out in it, because a function costs as much as a command. The comment "written out" marks the
// block, without which the script must do the same.

// variants are a script without what is written out in it, and with a count of the returns there.
type variants struct{ general, counted string }

// counts is the hash that counts which returns were reached.
const counts = "written out"

// blocks returns the source of a script with its blocks changed.
func blocks(source string, change func(block string) string) string {
	lines := strings.Split(source, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		begin, _, found := strings.Cut(lines[i], "if ")
		condition := lines[i]
		if i+1 < len(lines) && !strings.Contains(condition, " then") {
			condition = lines[i+1] // it has two lines
		}
		if !found || strings.TrimSpace(begin) != "" || !strings.Contains(condition, " then -- written out") {
			out = append(out, lines[i])
			continue
		}
		end := i + slices.Index(lines[i:], begin+"end")
		out = append(out, change(strings.Join(lines[i:end+1], "\n")))
		i = end
	}
	return strings.Join(out, "\n")
}

// writtenOut returns the variants of all scripts that have such blocks, by their digests, and the names of the returns in them.
func writtenOut(t *testing.T) (all map[any]variants, returns []string) {
	t.Helper()
	paths, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	general, counted := map[string]string{}, map[string]string{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		name := filepath.Base(path)
		without := blocks(string(raw), func(string) string { return "" })
		if without == string(raw) {
			continue
		}
		general[name] = without
		counted[name] = blocks(string(raw), func(block string) string {
			return regexp.MustCompile(`(?m)^ +return `).ReplaceAllStringFunc(block, func(found string) string {
				returns = append(returns, fmt.Sprint(name, " ", len(returns)))
				return fmt.Sprintf("redis.call('HINCRBY', '%s', '%s', 1)\n%s", counts, returns[len(returns)-1], found)
			})
		})
	}
	var texts [3]map[string]string
	for i, changed := range []map[string]string{nil, general, counted} {
		sources, err := assemble.Read("../lua", changed)
		require.NoError(t, err)
		texts[i], err = sources.Files()
		require.NoError(t, err)
	}
	all = map[any]variants{}
	for name, file := range texts[0] {
		digest, _ := lua.Open(file)
		_, without := lua.Open(texts[1][name])
		_, with := lua.Open(texts[2][name])
		all[digest] = variants{without, with}
	}
	return all, returns
}
