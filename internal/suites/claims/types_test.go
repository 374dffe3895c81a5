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
	"context"
	"time"

	"github.com/go-rlock/rlock"
)

func options(ctx context.Context, c *rlock.Client, lock *rlock.Lock) {
	_ = c.NewLock("name", rlock.Fenced(), rlock.NonReentrant(), rlock.Wait(time.Second), rlock.RenewedLease(time.Minute))
	_ = c.NewSemaphore("name", rlock.Total(3), rlock.Permits(2))
	_ = c.NewLock("name", rlock.WithMaxHold(time.Hour)) // refused
	_ = lock.Lock(ctx, rlock.Lease(time.Minute))
	_ = lock.Lock(ctx, rlock.Fenced())           // refused
	_ = lock.Lock(ctx, rlock.LockOption(nil))    // refused
	_, _ = rlock.New(nil, rlock.Wait(time.Hour)) // refused
}

func handles(ctx context.Context, c *rlock.Client, lock *rlock.Lock) {
	both := rlock.NewMultiLock(lock, c.NewRWLock("name").Reader())
	_ = rlock.NewRedLock(both) // refused
	_, _ = rlock.HoldFrom(ctx, both)
	_, _ = rlock.HoldFrom(ctx, c.NewSemaphore("name"))
	_, _ = rlock.HoldFrom(ctx, mine{}) // refused
}

type mine struct{ rlock.Client }

func (mine) handle() error { return nil }

var (
	_ rlock.LockOption = rlock.Wait(time.Second)
	_ rlock.LockOption = mine{} // refused
)
`

func TestTheCompilerKnowsWhereAnOptionBelongs(t *testing.T) {
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
