package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheTwinIsCurrent fails if a file is not as it would be generated, or has become dead.
func TestTheTwinIsCurrent(t *testing.T) {
	t.Parallel()
	all, err := files("../../../rlockrueidis")
	require.NoError(t, err)
	require.Empty(t, outdated("../..", all), "run `go generate ./...` in rlockvalkey")
	paths, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		require.Contains(t, all, filepath.Base(path), "a file without one in rlockrueidis")
	}
}

// TestTheTwinRequiresTheSame fails if the modules require other versions, such as another one of valkey-go than of rueidis.
func TestTheTwinRequiresTheSame(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../rlockrueidis/go.mod")
	require.NoError(t, err)
	twin, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.ElementsMatch(t, strings.Split(names.Replace(string(text)), "\n"), strings.Split(string(twin), "\n"))
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	all := map[string][]byte{"a": []byte("1"), "of/b": []byte("2")}
	dir := t.TempDir()
	require.ElementsMatch(t, []string{"a", "of/b"}, outdated(dir, all))
	require.NoError(t, write(dir, all))
	require.Empty(t, outdated(dir, all))
	all["a"] = []byte("3")
	require.Equal(t, []string{"a"}, outdated(dir, all))
}
