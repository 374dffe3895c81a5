package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
)

// build is rlock with mutants.
type build struct {
	overlay string
	torture func() string // the path of the torture's binary, which the first call builds
}

func newBuild(t *testing.T, files map[string]string) build {
	t.Helper()
	dir := t.TempDir()
	if _, file, ok := strings.Cut(os.Getenv("GOFLAGS"), "-overlay="); ok { // that of another driver, see the Makefile
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var driver struct{ Replace map[string]string }
		require.NoError(t, json.Unmarshal(raw, &driver))
		for path, from := range driver.Replace {
			text, err := os.ReadFile(from)
			require.NoError(t, err)
			files[path] = string(text)
		}
	}
	overlay, err := mutants.Overlay(dir, files)
	require.NoError(t, err)
	return build{overlay, sync.OnceValue(func() string {
		binary := filepath.Join(dir, "torture.test")
		out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".").CombinedOutput()
		require.NoError(t, err, "%s", out)
		return binary
	})}
}

// hunt returns the scene and the broken promise that revealed the mutant, or an empty string.
func (m mutant) hunt(t *testing.T, b build) string {
	t.Helper()
	if pkg, test, ok := strings.Cut(m.scenes[0], " "); ok {
		cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-overlay", b.overlay, "-run", "^"+test+"$", pkg)
		cmd.Dir, cmd.Env = "..", append(os.Environ(), mutants.Env+"="+m.name)
		out, err := cmd.CombinedOutput()
		for _, sign := range []string{"--- FAIL: " + test, "panic: "} {
			if err != nil && strings.Contains(string(out), sign) {
				return test
			}
		}
		t.Logf("%s: %v\n%s", m.name, err, out[max(0, len(out)-2000):])
		return ""
	}
	for _, scene := range m.scenes {
		for try := range 4 { // each with another seed
			cmd := exec.Command(b.torture(), "-test.run", "TestTorture$", "-test.timeout", "5m", "-test.v", "-scene", scene,
				"-seed", fmt.Sprint(max(*seed, 1)+uint64(try)))
			cmd.Env = append(os.Environ(), mutants.Env+"="+m.name) // its child processes have it, too
			out, err := cmd.CombinedOutput()
			require.NoError(t, os.WriteFile(filepath.Join(os.TempDir(), "rlock-"+m.name+".txt"), out, 0o600))
			for _, sign := range []string{"promises broken; the first ones:\n", "Received unexpected error:\n", "panic: "} {
				if _, after, ok := strings.Cut(string(out), sign); ok && err != nil {
					first, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
					return scene + ": " + first[:min(len(first), 110)]
				}
			}
			if err != nil {
				t.Logf("%s: %v\n%s", m.name, err, out[max(0, len(out)-2000):])
			}
		}
	}
	return ""
}
