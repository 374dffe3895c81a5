// Package program runs a program as its users do: as processes, which can be told to end, or be killed. The test binary is the
// program too.
package program

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

// env makes a test binary run the program instead of its tests.
const env = "RLOCK_TEST_PROGRAM"

// aLongTime is the timeout after which a test that waits for the end of a process fails.
const aLongTime = 2 * time.Minute

// Run runs the program, and does not return, in a process that [Start] has started. TestMain calls it first.
func Run(main func()) {
	if os.Getenv(env) != "" {
		main()
		os.Exit(0)
	}
}

// Process is a process of the program.
type Process struct {
	*exec.Cmd

	// Out and Errs are what it has written so far, to its output and to its error output.
	Out, Errs Output
	// Ended is closed when it has ended.
	Ended chan struct{}

	tb testing.TB
}

// Start starts the program with the Redis at an address. It is killed when the test ends.
func Start(tb testing.TB, addr string, args ...string) *Process {
	tb.Helper()
	return StartWith(tb, addr, nil, args...)
}

// StartWith is Start, and lets set change the command before it is started.
func StartWith(tb testing.TB, addr string, set func(*exec.Cmd), args ...string) *Process {
	tb.Helper()
	p := &Process{Cmd: exec.Command(os.Args[0], args...), tb: tb, Ended: make(chan struct{})}
	p.Env = append(os.Environ(), env+"=1", "REDIS_URL=redis://"+addr, "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.Out, &p.Errs
	p.WaitDelay = 5 * time.Second
	if set != nil {
		set(p.Cmd)
	}
	require.NoError(tb, p.Start())
	go func() { defer close(p.Ended); _ = p.Wait() }()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("%s\n%s%s", strings.Join(args, " "), &p.Out, &p.Errs)
		}
	})
	return p
}

// Kill ends the process at once, with SIGKILL, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.Process.Kill()
	<-p.Ended
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	require.NoError(p.tb, p.Process.Signal(s))
}

// Code waits for the end and returns the exit code, which is -1 if a signal has ended the process.
func (p *Process) Code() int {
	p.tb.Helper()
	select {
	case <-p.Ended:
	case <-time.After(aLongTime):
		require.FailNow(p.tb, "it does not end", "%v\n%s%s", p.Args, &p.Out, &p.Errs)
	}
	return p.ProcessState.ExitCode()
}

// Says waits until the process has written a text.
func (p *Process) Says(text string) {
	p.tb.Helper()
	redistest.EventuallyWithin(p.tb, aLongTime, "it says "+text, func() bool { return p.Said(text) })
}

// Said reports whether the process has written a text.
func (p *Process) Said(text string) bool {
	return strings.Contains(p.Out.String()+p.Errs.String(), text)
}

// Output collects what a process writes. The zero value is empty. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
