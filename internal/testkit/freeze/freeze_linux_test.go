package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStop stops a command with children: one in a session of its own, one whose parent has ended, and one that is stopped already.
func TestStop(t *testing.T) {
	require.NoError(t, adopt())
	cmd := exec.Command("sh", "-c", `setsid sleep 1000 & echo $!
		sleep 1000 & kill -STOP $!; echo $!
		sh -c 'sleep 1000 >/dev/null & echo $!'
		wait`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	in := bufio.NewScanner(out)
	next := func() (pid int) {
		require.True(t, in.Scan())
		_, err := fmt.Sscan(in.Text(), &pid)
		require.NoError(t, err)
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		return pid
	}
	session, apart, orphan := next(), next(), next()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	is := func(pid int, what ...byte) {
		t.Helper()
		require.Eventually(t, func() bool { return slices.Contains(what, state(pid)) }, time.Minute, time.Millisecond, "%d", pid)
	}
	is(apart, 'T')
	require.Eventually(t, func() bool { _, parent := stat(orphan); return parent == os.Getpid() }, time.Minute, time.Millisecond)

	for range 5 {
		stopped := stop(os.Getpid())
		require.ElementsMatch(t, []int{cmd.Process.Pid, session, orphan}, stopped)
		require.Equal(t, cmd.Process.Pid, stopped[0], "the parent comes first")
		for _, pid := range stopped {
			is(pid, 'T')
		}
		resume(stopped)
		for _, pid := range stopped {
			is(pid, 'S', 'R')
		}
		is(apart, 'T')
	}
}

// TestRun freezes a command many times, and looks at the time that it notices, and at the code with which it exits.
func TestRun(t *testing.T) {
	clock, enough := t.TempDir()+"/times", t.TempDir()+"/enough"
	const script = `exec >"$0"; while [ ! -e "$1" ]; do date +%s%N; sleep 0.01; done; exit 7`
	times := 0
	code, err := run([]string{"sh", "-c", script, clock, enough}, func() (pause, frozen time.Duration) {
		if times++; times == 4 {
			require.NoError(t, os.WriteFile(enough, nil, 0o600))
		}
		return 50 * time.Millisecond, 100 * time.Millisecond
	})
	require.NoError(t, err)
	require.Equal(t, 7, code)
	raw, err := os.ReadFile(clock)
	require.NoError(t, err)
	longest, before := time.Duration(0), int64(0)
	for i, line := range strings.Fields(string(raw)) {
		var at int64
		_, err := fmt.Sscan(line, &at)
		require.NoError(t, err)
		if i > 0 {
			longest = max(longest, time.Duration(at-before))
		}
		before = at
	}
	require.GreaterOrEqual(t, longest, 100*time.Millisecond, "it stood still for so long at least once")

	code, err = run([]string{"sh", "-c", "kill -KILL $$"}, func() (pause, frozen time.Duration) { return time.Hour, 0 })
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGKILL), code)
	_, err = run([]string{"/does/not/exist"}, nil)
	require.Error(t, err)
}
