package overlay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryEditFits applies the edits to the installed version of Go. If one does not fit any more, its error says which.
func TestEveryEditFits(t *testing.T) {
	dir := t.TempDir()
	f, err := WriteWithTesting(dir)
	require.NoError(t, err)
	path, err := f.Save(dir)
	require.NoError(t, err)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var saved File
	require.NoError(t, json.Unmarshal(raw, &saved))
	require.Equal(t, f, saved)
	for original, changed := range f.Replace {
		before, err := os.ReadFile(original)
		require.NoError(t, err, "it stands for a file that exists")
		after, err := os.ReadFile(changed)
		require.NoError(t, err)
		require.Greater(t, len(after), len(before), original)
	}
}

// TestAnEditThatDoesNotFit is about a version of Go in which a text is missing, or stands twice.
func TestAnEditThatDoesNotFit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runtime")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc.go"), []byte("a b b"), 0o600))
	for old, times := range map[string]string{"c": "fits 0 times", "b": "fits 2 times"} {
		_, err := write(dir, dir, "go9.9", []edit{{"proc.go", "order", old, "x"}})
		require.ErrorContains(t, err, `go9.9: the edit "order" of runtime/proc.go `+times)
		require.ErrorContains(t, err, "internal/overlay")
	}
	_, err := write(dir, dir, "go9.9", []edit{{"none.go", "order", "a", "x"}})
	require.ErrorContains(t, err, "none.go")
}
