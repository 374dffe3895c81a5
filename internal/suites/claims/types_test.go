package claims

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
)

// program is a package that uses rlock. The compiler must refuse the lines that say so, and no others.
const program = `package program

import (
	"time"

	"github.com/go-rlock/rlock"
)

func options(c *rlock.Client) {
	all := []rlock.LockOption{rlock.NonReentrant()}
	_ = c.NewLock("name", all...)
	_ = c.NewSpinLock("name", []rlock.SpinOption{all[0], rlock.Backoff(time.Second, time.Second)}...)
	_ = c.NewLock("name", rlock.Backoff(time.Second, time.Second))       // refused
	_ = c.NewFairLock("name", rlock.Backoff(time.Second, time.Second))   // refused
	_ = c.NewFencedLock("name", rlock.Backoff(time.Second, time.Second)) // refused
	_ = c.NewRWLock("name", rlock.Backoff(time.Second, time.Second))     // refused
	_ = append(all, rlock.Backoff(time.Second, time.Second))             // refused
}

type mine struct{ rlock.Client }

func (mine) lockOption() rlock.LockOption { return nil }

var (
	_ rlock.SpinOption = rlock.NonReentrant()
	_ rlock.SpinOption = mine{} // refused
	_ rlock.Acquirer   = rlock.Locker(nil)
	_ rlock.Locker     = (*rlock.Lock)(nil)
	_ rlock.Locker     = rlock.Acquirer(nil) // refused
)
`

func TestTheCompilerRefusesABackoffForOtherKinds(t *testing.T) {
	t.Parallel()
	repository := testkit.Must(filepath.Abs(testkit.Repository()))
	file := filepath.Join(t.TempDir(), "program.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	replace := map[string]string{filepath.Join(repository, "program", "program.go"): file}
	text := testkit.Must(json.Marshal(map[string]any{"Replace": replace}))
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./program")
	build.Dir = repository
	output, err := build.CombinedOutput()
	require.Error(t, err)

	var want, have []string
	for i, line := range strings.Split(program, "\n") {
		if strings.HasSuffix(line, "// refused") {
			want = append(want, strconv.Itoa(i+1))
		}
	}
	for _, found := range regexp.MustCompile(`program\.go:(\d+):`).FindAllStringSubmatch(string(output), -1) {
		have = append(have, found[1])
	}
	require.Equal(t, want, have, "%s", output)
}
