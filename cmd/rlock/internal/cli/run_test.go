//go:build unix

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

// TestRun passes on the input, the output, the environment and the exit code, and holds the lock meanwhile.
func TestRun(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		lock := newClient(t, rdb).NewLock("job")
		in, out, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = in.Close(); _ = out.Close() })
		p := program.StartWith(t, addr(rdb), func(cmd *exec.Cmd) { cmd.Stdin = in },
			"run", "job", "--", "sh", "-c", `echo "$RLOCK_NAME $RLOCK_TOKEN $1"; read line; echo "got $line"; echo oops >&2; exit 7`, "sh", "an argument")
		p.Says(" an argument\n")
		require.True(t, locked(t, lock))
		redistest.Eventually(t, "the identity is written", func() bool { return len(rdb.Keys(t.Context(), "rlock_client:*").Val()) == 1 })
		info, err := newClient(t, rdb).NewLock("job", rlock.Fenced()).Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, "sh", info.Holders[0].Identity.Service)
		_, err = out.WriteString("a line\n")
		require.NoError(t, err)
		require.Equal(t, 7, p.Code())
		require.Regexp(t, `^job \d+ an argument\ngot a line\n$`, p.Out.String())
		require.Contains(t, p.Out.String(), fmt.Sprintf("job %d ", info.Token))
		require.Equal(t, "oops\n", p.Errs.String())
		require.False(t, locked(t, lock))
	})
}

// TestRunNotAcquired does not run the program.
func TestRunNotAcquired(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		client := newClient(t, rdb)
		hold(t, client.NewLock("taken"))
		hold(t, client.NewFairLock("fair"))
		hold(t, client.NewSemaphore("permits", rlock.Total(2)), rlock.Permits(2))
		for want, args := range map[int][]string{
			exitNotAcquired: {"taken", "--wait", "0"}, 0: {"taken", "--wait", "100ms", "-E", "0"},
			3: {"fair", "--fair", "--wait", "0", "-E", "3"}, 4: {"permits", "--permits", "2", "--wait", "0", "-E", "4"},
		} {
			code, out, errs := command(t, addr(rdb), append(append([]string{"run"}, args...), "--", "echo", "ran")...)
			require.Equal(t, want, code, errs)
			require.Empty(t, out)
			require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		}
	})
}

func TestRunUnavailable(t *testing.T) {
	t.Parallel()
	for what, args := range map[string][]string{"single": nil, "cluster": {"--cluster"}, "sentinel": {"--sentinel-master", "m"}} {
		code, out, errs := command(t, "127.0.0.1:1", append([]string{"run", "job", "--wait", "100ms", "--timeout", "500ms"}, append(args, "--", "echo", "ran")...)...)
		require.Equal(t, exitUnavailable, code, what+errs)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	}
}

// TestRunBadArguments sends nothing: there is no Redis.
func TestRunBadArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, c := range []struct {
		want int
		args string
	}{
		{exitUsage, "run"},
		{exitUsage, "run job"},
		{exitUsage, "run job echo ran"},
		{exitUsage, "run job more -- echo ran"},
		{exitUsage, "run job --wait soon -- echo ran"},
		{exitUsage, "run job --wait -1s -- echo ran"},
		{exitUsage, "run job --ttl 1ms -- echo ran"},
		{exitUsage, "run job --grace -1s -- echo ran"},
		{exitUsage, "run job --on-lost wait -- echo ran"},
		{exitUsage, "run job -E 256 -- echo ran"},
		{exitUsage, "run job --permits -1 -- echo ran"},
		{exitUsage, "run job --permits 0 -- echo ran"},
		{exitNotRunnable, "run job -- " + dir},
		{exitUsage, "run job --permits 2 --fair -- echo ran"},
		{exitUsage, "run job --timeout 1ns -- echo ran"},
		{exitUsage, "run job --url http://host -- echo ran"},
		{exitUsage, "run --no-such-flag job -- echo ran"},
		{exitUsage, "no-such-command"},
		{exitNotFound, "run job -- no-such-program"},
		{exitNotRunnable, "run job -- " + filepath.Join(dir, "file")},
	} {
		code, out, errs := command(t, "127.0.0.1:1", strings.Fields(c.args)...)
		require.Equal(t, c.want, code, c.args+": "+errs)
		require.Empty(t, out, c.args)
		require.Equal(t, 1, strings.Count(errs, "\n"), c.args+": "+errs)
	}
	code, _, _ := command(t, "127.0.0.1:1", "run", "", "--", "echo", "ran")
	require.Equal(t, exitUsage, code)
}

// TestRunPassesSignalsOn to the program, and releases the lock only when it has exited.
func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := newClient(t, rdb).NewLock("job")
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	p := program.Start(t, addr(rdb), "run", "job", "--", "sh", "-c",
		`trap 'echo got TERM; read line <"$0"; exit 9' TERM; echo ready; while :; do sleep 0.05; done`, fifo)
	p.Says("ready")
	p.Signal(syscall.SIGTERM)
	p.Says("got TERM")
	require.True(t, locked(t, lock), "the program still runs")
	require.NoError(t, os.WriteFile(fifo, []byte("go\n"), 0o600))
	require.Equal(t, 9, p.Code())
	require.False(t, locked(t, lock))

	p = program.Start(t, addr(rdb), "run", "job", "--", "sh", "-c", `echo ready; exec sleep 100`)
	p.Says("ready")
	p.Signal(syscall.SIGINT)
	require.Equal(t, 128+int(syscall.SIGINT), p.Code(), "as a shell says it")

	hold(t, lock)
	p = program.Start(t, addr(rdb), "run", "job", "--wait", "forever", "--", "echo", "ran")
	redistest.Eventually(t, "it waits", func() bool {
		info, err := lock.Inspect(t.Context())
		return err == nil && info.WaiterCount == 1
	})
	p.Signal(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), p.Code())
	require.Empty(t, p.Out.String())
}

// TestRunKilled has the program killed with rlock, so that it does not go on without its lock, which is free when its lease ends.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	p := program.Start(t, addr(rdb), "run", "job", "--ttl", "1s", "--", "sh", "-c", `echo pid $$; exec sleep 100`)
	p.Says("\n")
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(p.Out.String(), "pid ")))
	require.NoError(t, err)
	p.Signal(syscall.SIGKILL)
	require.Equal(t, -1, p.Code())
	redistest.Eventually(t, "the program is gone", func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
	code, _, errs := command(t, addr(rdb), "run", "job", "--", "true")
	require.Zero(t, code, errs)
}

// zombie reports whether nobody has waited for a process that has exited.
func zombie(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(status), ") Z ")
}

// TestRunLost ends the program, kindly at first, and says so whatever the program's exit code is.
func TestRunLost(t *testing.T) {
	t.Parallel()
	const stubborn = `trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.05; done`
	const obedient = `trap 'echo got TERM; exit 3' TERM; echo ready; while :; do sleep 0.05; done`
	const deaf = `trap '' TERM; echo ready; sleep 1; echo done`
	for what, c := range map[string]struct {
		script string
		flags  []string
		says   string
		not    string
	}{
		"SIGTERM ends it":        {obedient, nil, "got TERM", ""},
		"it ignores SIGTERM":     {stubborn, []string{"--grace", "300ms"}, "got TERM", ""},
		"it and its children do": {"(" + stubborn + ")& wait; " + stubborn, []string{"--grace", "300ms"}, "got TERM", ""},
		"it is killed at once":   {stubborn, []string{"--on-lost", "kill"}, "", "got TERM"},
		"no grace":               {deaf, []string{"--grace", "0"}, "", "done"},
		"it is kept":             {deaf, []string{"--on-lost", "keep"}, "done", ""},
		"it is stopped":          {`trap 'echo got TERM; exit 3' TERM; echo ready; kill -STOP $$`, nil, "got TERM", ""},
		"a permit":               {obedient, []string{"--permits", "1"}, "got TERM", ""},
		"a fair lock":            {obedient, []string{"--fair"}, "got TERM", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t).Client(t)
			p := program.Start(t, addr(rdb), append(append([]string{"run", "job", "--ttl", "2s"}, c.flags...), "--", "sh", "-c", c.script)...)
			p.Says("ready")
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			require.Equal(t, exitLost, p.Code())
			require.Contains(t, p.Out.String(), c.says)
			if c.not != "" {
				require.NotContains(t, p.Out.String(), c.not)
			}
			require.Contains(t, p.Errs.String(), `"job" was lost while the program ran`)
		})
	}
}

// TestRunOnHungRedis ends the program before the lease ends in Redis, where the lock is then another's.
func TestRunOnHungRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	p := program.Start(t, proxy.Addr, "run", "job", "--ttl", "2s", "--timeout", "300ms", "--", "sh", "-c",
		`trap 'echo got TERM; exit 3' TERM; echo ready; while :; do sleep 0.02; done`)
	p.Says("ready")
	proxy.Freeze()
	p.Says("got TERM")
	require.Equal(t, exitLost, p.Code())
	proxy.Thaw()
	code, _, errs := command(t, server.Addr, "run", "job", "--", "true")
	require.Zero(t, code, errs)
}

// TestRunWaitsForTheGroup keeps the lock while a process of the group is left.
func TestRunWaitsForTheGroup(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := newClient(t, rdb).NewLock("job")
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	p := program.Start(t, addr(rdb), "run", "job", "--", "sh", "-c", `(read line <"$0"; echo last) & echo first; exit 5`, fifo)
	p.Says("first")
	require.NoError(t, os.WriteFile(fifo, []byte("go\n"), 0o600)) // waits for the reader, which outlives its parent
	require.Equal(t, 5, p.Code())
	require.Equal(t, "first\nlast\n", p.Out.String())
	require.False(t, locked(t, lock))

	// The parent of the one that is left leaves the group.
	p = program.Start(t, addr(rdb), "run", "job", "--", "bash", "-c",
		`bash -c '(read line <"$0"; echo last) & exec setsid sleep 3' "$0" & echo first; exit 5`, fifo)
	p.Says("first")
	require.NoError(t, os.WriteFile(fifo, []byte("go\n"), 0o600))
	require.Equal(t, 5, p.Code())
	require.Equal(t, "first\nlast\n", p.Out.String())
}

// TestRunThatCannotRelease has the code of the program, which has run, and says that the lock stays taken.
func TestRunThatCannotRelease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Client(t).Do(t.Context(), "ACL", "SETUSER", "poor", "on", ">secret", "~*", "&*", "+@all", "-hdel", "-zrem").Err())
	for want, flags := range map[int]string{0: "", 7: "", 8: "--permits 1"} {
		args := []string{"run", fmt.Sprint("job", want), "--ttl", "300ms", "--timeout", "1s", "--url", "redis://poor:secret@" + server.Addr}
		args = append(append(args, strings.Fields(flags)...), "--", "sh", "-c", "exit "+strconv.Itoa(want))
		code, _, errs := command(t, server.Addr, args...)
		require.Equal(t, want, code, errs)
		require.Contains(t, errs, "rlock: lock could not be released; it is free when its lease ends")
	}
}

// TestRunManyAtOnce has 200 processes run a program that fails if it runs twice at a time. It is not parallel: they leave no processor
// to other tests.
func TestRunManyAtOnce(t *testing.T) {
	many := 200
	if testing.Short() {
		many = 40
	}
	rdb := redistest.Start(t).Client(t)
	dir := filepath.Join(t.TempDir(), "inside")
	all := make([]*program.Process, many)
	for i := range all {
		all[i] = program.Start(t, addr(rdb), "run", "job", "--wait", "forever", "--", "sh", "-c", `mkdir "$0" && rmdir "$0" && echo ran`, dir)
	}
	for _, p := range all {
		select {
		case <-p.Ended:
		case <-time.After(3 * time.Minute):
			require.FailNow(t, "they do not end")
		}
		require.Zero(t, p.Code(), p.Errs.String())
		require.Equal(t, "ran\n", p.Out.String())
	}
}

// TestRunPermits lets as many run at a time as there are permits.
func TestRunPermits(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	var inside []*program.Process
	for range 2 {
		p := program.Start(t, addr(rdb), "run", "job", "--permits", "2", "--", "sh", "-c", `echo "in${RLOCK_TOKEN}"; exec sleep 100`)
		p.Says("in\n")
		inside = append(inside, p)
	}
	code, _, _ := command(t, addr(rdb), "run", "job", "--permits", "2", "--wait", "0", "--", "true")
	require.Equal(t, exitNotAcquired, code)
	inside[0].Signal(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), inside[0].Code())
	code, _, errs := command(t, addr(rdb), "run", "job", "--permits", "2", "--", "true")
	require.Zero(t, code, errs)
}

// TestRunAtLeast runs the program once for all machines whose clocks strike within the time.
func TestRunAtLeast(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		for i := range 3 {
			code, out, errs := command(t, addr(rdb), "run", "job", "--wait", "0", "-E", "0", "--at-least", "1h", "--", "echo", "ran")
			require.Zero(t, code, errs)
			require.Equal(t, map[bool]string{true: "ran\n"}[i == 0], out)
		}
		code, out, errs := command(t, addr(rdb), "run", "another", "--at-least", "1h", "--", "false")
		require.Equal(t, 1, code, out+errs)
		require.True(t, locked(t, newClient(t, rdb).NewLock("another")), "also if the program fails")
	})
}

// TestRunStopped has SIGTSTP stop the program before rlock, so that it does not go on without renewals.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	log := filepath.Join(t.TempDir(), "log")
	p := program.StartWith(t, addr(rdb), func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} },
		"run", "job", "--ttl", "2s", "--", "sh", "-c", `echo ready; while echo x >>"$0"; do sleep 0.01; done`, log)
	p.Says("ready")
	p.Signal(syscall.SIGTSTP)
	lock := newClient(t, rdb).NewLock("job")
	redistest.Eventually(t, "its lease ends", func() bool { return !locked(t, lock) })
	before, err := os.ReadFile(log)
	require.NoError(t, err)
	code, _, errs := command(t, addr(rdb), "run", "job", "--", "sleep", "0.2")
	require.Zero(t, code, errs)
	after, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the first program has stopped")
	p.Signal(syscall.SIGCONT)
	require.Equal(t, exitLost, p.Code())
}

// TestRunInARun gives the inner program its own name and token.
func TestRunInARun(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	env := `cat /proc/self/environ | tr '\0' '\n' | grep -e ^RLOCK_NAME -e ^RLOCK_TOKEN`
	code, out, errs := command(t, addr(rdb), "run", "outer", "--", os.Args[0], "run", "inner", "--permits", "1", "--", "sh", "-c", env)
	require.Zero(t, code, errs)
	require.Equal(t, "RLOCK_NAME=inner\n", out)
}

// TestRunWhoseOutputIsClosed warns nobody, and lets the program end.
func TestRunWhoseOutputIsClosed(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	dir := t.TempDir()
	script := `exec 3>&1; "$0" run job --ttl 2s -- sh -c 'echo ready >&3; read line <"$0"; echo done >&3' "$1" 2>&1 >/dev/null | true; echo "${PIPESTATUS[0]}"`
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	p := program.StartWith(t, addr(rdb), func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", script, os.Args[0], fifo}
	})
	p.Says("ready")
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-pexpire").Err())
	redistest.Eventually(t, "renewals fail", func() bool {
		return rdb.Info(t.Context(), "errorstats").Val() != "" && strings.Contains(rdb.Info(t.Context(), "errorstats").Val(), "errorstat_")
	})
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "+@all").Err())
	require.NoError(t, os.WriteFile(fifo, []byte("go\n"), 0o600))
	p.Says("done")
	p.Says("\n0\n")
}

// TestRunLeavesNoZombies of processes that the program has left behind.
func TestRunLeavesNoZombies(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	p := program.Start(t, addr(rdb), "run", "job", "--", "sh", "-c",
		`for i in 1 2 3 4 5 6 7 8 9; do sh -c 'true & setsid true &'; done; echo ready; exec sleep 100`)
	p.Says("ready")
	redistest.Eventually(t, "no child but the program", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.Process.Pid))
		all := strings.Fields(string(children))
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
		for _, task := range tasks {
			more, _ := os.ReadFile(task)
			all = append(all, strings.Fields(string(more))...)
		}
		slices.Sort(all)
		return err == nil && len(slices.Compact(all)) == 1
	})
}
