//go:build linux

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

// openTerminal returns both ends of a new terminal: that of a person, and that of programs.
func openTerminal(t *testing.T) (person, programs *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	programs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = programs.Close() })
	return person, programs
}

// session is a shell on a terminal.
type session struct {
	*testing.T

	person *os.File
	screen program.Output
	shell  *program.Process
}

// newSession runs a script with bash, which has jobs, on a new terminal. $0 is the command.
func newSession(t *testing.T, addr, script string) *session {
	t.Helper()
	s := &session{T: t}
	var programs *os.File
	s.person, programs = openTerminal(t)
	go func() { _, _ = collect(&s.screen, s.person) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", s.screen.String())
		}
	})
	s.shell = program.StartWith(t, addr, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", "set -m\n" + script, os.Args[0]}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = programs, programs, programs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	})
	return s
}

// says waits until a text has come so often.
func (s *session) says(text string, times int) {
	s.Helper()
	redistest.Eventually(s, "it says "+text, func() bool { return strings.Count(s.screen.String(), text) >= times })
}

func (s *session) types(text string) {
	s.Helper()
	_, err := s.person.WriteString(text)
	require.NoError(s, err)
}

// What a person types to interrupt and to stop a program.
const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// TestRunOnATerminal lets the program read from it, and be stopped, continued and interrupted as by a shell's user, several times.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"", "</dev/null"} {
		s := newSession(t, redistest.Start(t).Addr, `
"$0" run job --ttl 60s -- sh -c 'read line </dev/tty; echo "got $line"; trap "echo continued" CONT; trap "echo interrupted; exit 4" INT; while :; do sleep 0.02; done' `+input+`
`+strings.Repeat(`echo "stopped with $?"; fg >/dev/null`+"\n", 6)+`
echo "ended with $?"`)
		s.types("a line\n")
		s.says("got a line", 1)
		for i := range 6 {
			s.types(ctrlZ)
			s.says(fmt.Sprintf("stopped with %d", 128+int(syscall.SIGTSTP)), i+1)
			s.says("\ncontinued", i+1) // not in the command, which the shell prints
		}
		s.types(ctrlC)
		s.says("^Cinterrupted", 1)
		s.says("ended with 4", 1)
	}
}

// TestRunInAPipeline beside a program that uses the terminal.
func TestRunInAPipeline(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t).Addr, `
"$0" run job -- seq 30000 | sh -c 'stty -echo </dev/tty; tail -n 1; read line </dev/tty; echo "got $line"'
echo "ended with ${PIPESTATUS[*]}"`)
	s.says("30000", 1)
	s.types("a line\n")
	s.says("got a line", 1)
	s.says("ended with 0 0", 1)
}

// TestRunInALoop has Ctrl-C end the shell's loop, not only the program.
func TestRunInALoop(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t).Addr, `
bash -c 'for i in 1 2 3; do "$0" run job -- sh -c "echo round; exec sleep 100"; echo after; done' "$0"`)
	s.says("round", 1)
	s.types(ctrlC)
	s.shell.Code()
	require.NotContains(t, s.screen.String(), "after")
}

// TestDoctorOnATerminal has colors, unless NO_COLOR is set, and says what it is trying.
func TestDoctorOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Client(t).Do(t.Context(), "config", "set", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru").Err())
	s := newSession(t, server.Addr, `"$0" doctor --try --kinds spin; echo "ended with $?"`)
	s.says("ended with 14", 1)
	require.Contains(t, s.screen.String(), "\x1b[31mproblem \x1b[0m eviction")
	require.Contains(t, s.screen.String(), "trying 1 of 2: spin")
	s = newSession(t, server.Addr, `NO_COLOR=1 "$0" doctor; echo "ended with $?"`)
	s.says("ended with 14", 1)
	require.Contains(t, s.screen.String(), "problem  eviction")
	require.NotContains(t, s.screen.String(), "\x1b[31m")
	code, out, _ := command(t, server.Addr, "doctor")
	require.Equal(t, 14, code)
	require.NotContains(t, out, "\x1b")
}

// TestFreeInALoop has Ctrl-C at the question end the shell's loop, not only this question.
func TestFreeInALoop(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	hold(t, newClient(t, rdb).NewLock("one"))
	hold(t, newClient(t, rdb).NewLock("two"))
	s := newSession(t, server.Addr, `
bash -c 'for name in one two; do "$0" free $name; echo after; done' "$0"`)
	s.says("Free it? [y/N]", 1)
	s.types(ctrlC)
	s.shell.Code()
	require.NotContains(t, s.screen.String(), "after")
	require.EqualValues(t, 2, rdb.Exists(t.Context(), "one", "two").Val())
}

// TestOutputThatCannotBeWritten is an error of this machine, and not of Redis.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	hold(t, newClient(t, server.Client(t)).NewLock("one"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	for _, args := range []string{"ls --all", "ls --all --json", "ls --all --sort name", "show one", "show one --json", "doctor", "ui --listen 127.0.0.1:0", "free one --yes"} {
		p := program.StartWith(t, server.Addr, func(cmd *exec.Cmd) { cmd.Stdout = full }, strings.Fields(args)...)
		require.Equal(t, exitFailed, p.Code(), args)
		require.Equal(t, "rlock: cannot write the output: no space left on device\n", p.Errs.String(), args)
	}
}

// collect collects what comes from a file, until it ends.
func collect(o *program.Output, from *os.File) (int64, error) {
	var buffer [1024]byte
	for total := int64(0); ; {
		n, err := from.Read(buffer[:])
		_, _ = o.Write(buffer[:n])
		if total += int64(n); err != nil {
			return total, err
		}
	}
}
