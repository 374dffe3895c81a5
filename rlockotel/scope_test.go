package rlockotel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestVersion is about what build information says. TestTheVersionOfADependency has it from a program.
func TestVersion(t *testing.T) {
	t.Parallel()
	require.Empty(t, version(nil, false), "a program without build information")
	for want, program := range map[string]debug.BuildInfo{
		"v0.1.0": {Main: debug.Module{Path: "shop", Version: "v9.0.0"}, Deps: []*debug.Module{
			{Path: "github.com/go-rlock/rlock", Version: "v8.0.0"}, {Path: scope, Version: "v0.1.0"},
		}},
		"v0.1.1": {Deps: []*debug.Module{{Path: scope, Version: "v0.1.0", Replace: &debug.Module{Path: "fork", Version: "v0.1.1"}}}},
		"v0.1.2": {Main: debug.Module{Path: scope, Version: "v0.1.2"}},
	} {
		require.Equal(t, want, version(&program, true))
	}
	for _, program := range []debug.BuildInfo{
		{},
		{Main: debug.Module{Path: scope, Version: "(devel)"}},
		{Deps: []*debug.Module{{Path: scope, Version: "v0.1.0", Replace: &debug.Module{Path: "../rlockotel"}}}},
	} {
		require.Empty(t, version(&program, true), "a directory")
	}
}

// TestEverySentinelHasAType finds the errors in the source of rlock.
func TestEverySentinelHasAType(t *testing.T) {
	t.Parallel()
	source := testkit.Must(os.ReadFile(filepath.Join(testkit.Repository(), "errors.go")))
	declared := regexp.MustCompile(`(?m)^\t(Err\w+) = `).FindAllSubmatch(source, -1)
	require.Greater(t, len(declared), 10)
	names := make(map[string]bool)
	for _, s := range sentinels {
		names[s.name] = true
		require.Equal(t, s.name, errorType(fmt.Errorf("a wrapper: %w", s.err)).Value.AsString())
	}
	for _, d := range declared {
		require.True(t, names["rlock."+string(d[1])], "%s has no value of error.type", d[1])
	}
}

// TestTypesAreFew has all other errors be those of Redis, by their prefix, or one and the same.
func TestTypesAreFew(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"NOPERM this user has no permissions": "NOPERM",
		"OOM command not allowed":             "OOM",
		"Error of a proxy":                    "_OTHER",
		"dial tcp":                            "_OTHER",
		"":                                    "_OTHER",
	} {
		require.Equal(t, want, errorType(fmt.Errorf("the key %q: %w", "a", errors.New(text))).Value.AsString(), text)
	}
}

// TestReason has the innermost error.
func TestReason(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"EOF":             fmt.Errorf("lock %q: %w", "a", fmt.Errorf("%w: %w", rlock.ErrUnavailable, io.EOF)),
		"only":            errors.New("only"),
		"rlock: not held": rlock.ErrNotHeld,
	} {
		require.Equal(t, want, reason(err))
	}
}
