package differential

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// script is a script of rlock.
type script struct {
	name   string
	digest string // as EVALSHA sends it
	source string
	keys   int // how many it gets at most, for one lock
	argv   int
}

// kinds are all kinds, whatever they are kinds of.
func kinds() []*wire.Kind {
	all := []*wire.Kind{wire.Permit, wire.PlainPermit}
	for _, name := range slices.Sorted(maps.Keys(wire.Kinds)) {
		all = append(all, wire.Kinds[name])
	}
	return all
}

// scripts returns every script, each once.
func scripts() []script {
	var all []script
	known := map[string]bool{}
	add := func(name string, s *wire.Script) {
		if s == nil {
			return
		}
		digest, _ := s.Digest.(string)
		if !known[digest] {
			known[digest] = true
			all = append(all, script{name, digest, s.Source, s.Keys + 1, max(s.Argv, 3)})
		}
	}
	for _, k := range kinds() {
		addFields(k.Name()+" ", reflect.ValueOf(k).Elem(), add)
		if k.Line != nil {
			addFields(k.Name()+" line ", reflect.ValueOf(k.Line).Elem(), add)
		}
	}
	for _, others := range []map[string]*wire.Script{wire.Others, core.Scripts()} {
		for _, name := range slices.Sorted(maps.Keys(others)) {
			add(name, others[name])
		}
	}
	// The scripts that have no wire.Script, because nothing but EVAL calls them.
	for name, file := range map[string]string{"info": lua.LockInfo, "identity": lua.ClientWrite} {
		digest, source := lua.Open(file)
		add(name, &wire.Script{Source: source, Digest: digest, Keys: 2, Argv: 3})
	}
	slices.SortFunc(all, func(a, b script) int { return strings.Compare(a.name, b.name) })
	return all
}

// addFields adds the scripts that a struct has, so that a new field is found.
func addFields(name string, v reflect.Value, add func(name string, s *wire.Script)) {
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.Type == reflect.TypeFor[*wire.Script]() {
			s, _ := reflect.TypeAssert[*wire.Script](v.Field(i))
			add(name+field.Name, s)
		}
	}
}

// TestScriptsAreComplete checks that no script is forgotten.
func TestScriptsAreComplete(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../internal/lua/sent/*.lua")
	require.NoError(t, err)
	require.Greater(t, len(files), 40)
	for _, path := range files {
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		digest, _ := lua.Open(string(file))
		require.True(t, slices.ContainsFunc(scripts(), func(s script) bool { return s.digest == digest }),
			"no kind and nothing of wire.Others runs %s: the differential test cannot call it", path)
	}
}

// TestEveryCommandOfAScriptIsKnown checks that the simulated Redis has what the scripts of the library and of the command call.
func TestEveryCommandOfAScriptIsKnown(t *testing.T) {
	t.Parallel()
	known := simredis.Commands()
	call := regexp.MustCompile(`redis\.p?call\(['"](\w+)['"]`)
	for _, pattern := range []string{"../../../internal/lua/*.lua", "../../../internal/core/lua/*.lua"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range call.FindAllStringSubmatch(string(source), -1) {
				require.Contains(t, known, m[1], file)
			}
		}
	}
}
