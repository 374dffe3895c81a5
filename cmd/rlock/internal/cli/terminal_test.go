//go:build linux

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

// TestRunOnATerminal lets the program read from it, and be stopped, continued and interrupted as by a shell's user.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	person, programs := openTerminal(t)
	var screen output
	go func() { _, _ = screen.read(person) }()
	shell := `set -m
"$0" run job --ttl 5s -- sh -c 'read line; echo "got $line"; trap "echo continued" CONT; trap "echo interrupted; exit 4" INT; while :; do sleep 0.05; done'
echo "stopped with $?"
fg >/dev/null
echo "ended with $?"`
	startWith(t, server.Addr, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", shell, os.Args[0]}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = programs, programs, programs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	})
	says := func(text string) {
		t.Helper()
		redistest.Eventually(t, "it says "+text, func() bool { return strings.Contains(screen.String(), text) })
	}
	types := func(text string) {
		t.Helper()
		_, err := person.WriteString(text)
		require.NoError(t, err)
	}
	types("a line\n")
	says("got a line")
	types("\x1a") // Ctrl-Z
	says(fmt.Sprintf("stopped with %d", 128+int(syscall.SIGSTOP)))
	says("continued")
	types("\x03") // Ctrl-C
	says("interrupted")
	says("ended with 4")
}

// read collects what comes from a file, until it ends.
func (o *output) read(from *os.File) (int64, error) {
	var buffer [1024]byte
	for total := int64(0); ; {
		n, err := from.Read(buffer[:])
		_, _ = o.Write(buffer[:n])
		if total += int64(n); err != nil {
			return total, err
		}
	}
}
