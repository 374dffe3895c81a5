package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestMain is the program itself if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("RLOCK_TEST_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// instance is a process of the program.
type instance struct {
	*exec.Cmd

	mu  sync.Mutex
	out bytes.Buffer
}

func (i *instance) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.out.Write(p)
}

func (i *instance) says(text string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return strings.Contains(i.out.String(), text)
}

func start(t *testing.T, addr string) *instance {
	t.Helper()
	i := &instance{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	i.Env = append(os.Environ(), "RLOCK_TEST_PROGRAM=1", "REDIS_URL=redis://"+addr)
	i.Stdout, i.Stderr = i, i
	require.NoError(t, i.Start())
	t.Cleanup(func() {
		_ = i.Process.Kill()
		_ = i.Wait()
		if t.Failed() {
			t.Logf("%s", i.out.String())
		}
	})
	return i
}

// TestOneLeads has another instance lead when one is told to end, and when one is killed.
func TestOneLeads(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	told := start(t, addr)
	redistest.Eventually(t, "the first one leads", func() bool { return told.says("work 2") })
	killed := start(t, addr)
	redistest.Eventually(t, "the second one campaigns", func() bool { return killed.says("campaigns") })
	require.False(t, killed.says("leads"))
	require.NoError(t, told.Process.Signal(syscall.SIGTERM))
	redistest.Eventually(t, "the second one leads", func() bool { return killed.says("work 2") })
	require.True(t, told.says("does not lead any more"))
	last := start(t, addr)
	redistest.Eventually(t, "the third one campaigns", func() bool { return last.says("campaigns") })
	began := time.Now()
	require.NoError(t, killed.Process.Kill())
	redistest.Eventually(t, "the third one leads", func() bool { return last.says("work 1") })
	t.Logf("it leads %v after the other was killed, whose lease was %v", time.Since(began), lease)
}
