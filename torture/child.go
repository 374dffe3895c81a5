package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// ChildEnv is the environment variable that makes a process a child. Its value is the child's [Site], as JSON. A child
// works until its standard input ends.
const ChildEnv = "RLOCK_TORTURE_CHILD"

// message is one line of a child's standard output.
type message struct {
	Turn  *Turn  `json:",omitempty"`
	Found string `json:",omitempty"` // a fault that the process noticed
}

// ChildMain is the main function of a child process.
func ChildMain() {
	if err := childRun(os.Getenv(ChildEnv), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

func childRun(text string, in io.Reader, out io.Writer) error {
	var site Site
	if err := json.Unmarshal([]byte(text), &site); err != nil {
		return err
	}
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	say := func(m message) {
		mu.Lock()
		defer mu.Unlock()
		_ = lines.Encode(m) // an error means that the parent is gone; then standard input ends, too
	}
	r, err := site.start(say)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	r.run(ctx)
	r.settle()
	if err := r.close(); err != nil {
		say(message{Found: fmt.Sprintf("left: close: %v", err)})
	}
	if err := leaks(sleeps); err != nil {
		say(message{Found: fmt.Sprintf("left: %v", err)})
	}
	return nil
}

// child is a site in a process of its own.
type child struct {
	site   Site
	cmd    *exec.Cmd
	in     io.Closer
	due    atomic.Bool   // it is to end
	ended  chan struct{} // closed when it has ended, and all its output has been read
	killed atomic.Bool
}

// startChild starts a child that reports its turns to the collector.
func startChild(tb testing.TB, site Site, to *collector) *child {
	tb.Helper()
	text, err := json.Marshal(site)
	require.NoError(tb, err)
	c := &child{site: site, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), ChildEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.in, err = c.cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, c.cmd.Start())
	go func() {
		defer close(c.ended)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var m message
			if json.Unmarshal(line, &m) == nil {
				to.hear(site.Name, m)
			}
		}
		if err := c.cmd.Wait(); !c.killed.Load() && (err != nil || !c.due.Load()) {
			to.foundf("%s: the process ended by itself, %v", site.Name, c.cmd.ProcessState)
		}
	}()
	return c
}

// dismiss makes the child finish its turns and exit.
func (c *child) dismiss() {
	c.due.Store(true)
	_ = c.in.Close()
}

func (c *child) kill() {
	c.killed.Store(true)
	_ = c.cmd.Process.Kill()
	<-c.ended
}

func (c *child) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }
