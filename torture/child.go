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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ChildEnv has the site that a child process is to be, as JSON. It works until its standard input ends.
const ChildEnv = "RLOCK_TORTURE_CHILD"

// message is what a child says on its standard output, a line each.
type message struct {
	Client string        `json:",omitempty"` // the id of one of its clients
	Turn   *Turn         `json:",omitempty"`
	Closed time.Duration `json:",omitempty"` // it has ended, and its Close took so long
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
		_ = lines.Encode(m) // nobody reads any more: the parent is gone, and so shall we be
	}
	r, err := site.start(func(t Turn) { say(message{Turn: &t}) })
	if err != nil {
		return err
	}
	for _, client := range r.clients {
		say(message{Client: client.ID()})
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	r.run(ctx)
	took, err := r.close()
	say(message{Closed: max(took, 1)})
	return err
}

// child is a site that is a process of its own.
type child struct {
	site  Site
	cmd   *exec.Cmd
	in    io.Closer
	ended chan struct{} // closed when all that it said has been read
}

// startChild starts one, which tells the collector what it does.
func startChild(tb testing.TB, site Site, to *collector) *child {
	tb.Helper()
	text, err := json.Marshal(site)
	require.NoError(tb, err)
	c := &child{site: site, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), ChildEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(tb, err)
	c.in = in
	require.NoError(tb, c.cmd.Start())
	go func() {
		defer close(c.ended)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			var m message
			if err != nil || json.Unmarshal(line, &m) != nil {
				return
			}
			to.hear(site.Name, m)
		}
	}()
	return c
}

// stop has the child end by itself.
func (c *child) stop() {
	_ = c.in.Close()
	<-c.ended
	_ = c.cmd.Wait()
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	_ = c.cmd.Wait()
}

func (c *child) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }
