package testkit

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/connect"
)

// childEnv, set to "<address> <kind> <name> <terms>", makes the test binary run as a child process. The child locks when it reads
// a line, prints the time of the acquisition, and unlocks when it reads the next line. For the kind "writes" it runs
// writesUntilLost instead, for the kind "many" holdsUntilTerminated, and for "turns" takesTurns.
const childEnv = "RLOCK_TEST_CHILD"

// childTerms are the terms on which a child locks.
var childTerms = map[string][]rlock.AcquireOption{
	"short": nil, // the watchdog's timeout is a second
	"long":  {rlock.RenewedLease(time.Minute)},
	"fixed": {rlock.Lease(time.Minute)},
}

func childMain() {
	if err := childRun(); err != nil {
		fmt.Println("child:", err)
		os.Exit(1)
	}
}

func childRun() error {
	var addr, kind, name, terms string
	if _, err := fmt.Sscan(os.Getenv(childEnv), &addr, &kind, &name, &terms); err != nil {
		return err
	}
	switch kind {
	case "many":
		return holdsUntilTerminated(addr, name)
	case "turns":
		return takesTurns(addr, name, terms)
	}
	locks, _, err := connect.Open(redis.NewClient(&redis.Options{Addr: addr}), rlock.WithWatchdogTimeout(2*time.Second))
	if err != nil {
		return err
	}
	if kind == "writes" {
		return writesUntilLost(locks.NewLock(name, rlock.Fenced()))
	}
	lock := Kinds[kind].Make(locks, name)
	ctx := context.Background()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := lock.Lock(ctx, childTerms[terms]...); err != nil {
			return err
		}
		fmt.Println(time.Now().UnixNano())
		if !in.Scan() {
			select {} // until it is killed
		}
		if err := lock.Unlock(ctx); err != nil {
			return err
		}
		fmt.Println("unlocked")
	}
	return nil
}

// Child is a test binary that runs as a child process, see childEnv.
type Child struct {
	testing.TB
	Cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// StartChild starts a child process for a lock of a kind.
func StartChild(tb testing.TB, addr, kind, name string) *Child {
	tb.Helper()
	return StartChildFor(tb, addr, kind, name, "short")
}

// StartChildFor starts a child process that locks on some of childTerms.
func StartChildFor(tb testing.TB, addr, kind, name, terms string) *Child {
	tb.Helper()
	redistest.NeedsRealServer(tb, "another process")
	c := &Child{TB: tb, Cmd: exec.Command(os.Args[0])}
	c.Cmd.Env = append(os.Environ(), childEnv+"="+addr+" "+kind+" "+name+" "+terms)
	in, err := c.Cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := c.Cmd.StdoutPipe()
	require.NoError(tb, err)
	c.in, c.out = in, bufio.NewScanner(out)
	var words bytes.Buffer
	c.Cmd.Stderr = &words
	require.NoError(tb, c.Cmd.Start())
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the child's goroutines: %s", c.lastWords(&words))
		}
		c.Kill()
	})
	return c
}

// lastWords ends a child that still runs, and returns what it has printed, and the stacks of its goroutines.
func (c *Child) lastWords(words *bytes.Buffer) string {
	_ = c.Cmd.Process.Signal(syscall.SIGQUIT)
	_ = c.Cmd.Process.Signal(syscall.SIGCONT)
	var printed strings.Builder
	for c.out.Scan() {
		printed.WriteString(c.out.Text() + "\n")
	}
	_ = c.Cmd.Wait()
	return printed.String() + words.String()
}

// Kill ends the process at once, and waits until it has ended.
func (c *Child) Kill() {
	_ = c.Cmd.Process.Kill()
	_ = c.Cmd.Wait()
}

// Next makes the child lock or unlock.
func (c *Child) Next() {
	c.Helper()
	_, err := io.WriteString(c.in, "\n")
	require.NoError(c, err)
}

// Answer returns the next line that the child prints.
func (c *Child) Answer() string {
	c.Helper()
	require.True(c, c.out.Scan(), "the child has ended")
	return c.out.Text()
}

// writesUntilLost is the program of a process with a classic bug: it checks that it has the lock, and then writes. It prints the
// token and the time of each write. In the end it prints the reason of the loss.
func writesUntilLost(lock *rlock.Lock) error {
	hold, err := lock.Acquire(context.Background())
	if err != nil {
		return err
	}
	for hold.Err() == nil {
		<-time.After(time.Millisecond) // the likely point at which it is stopped
		fmt.Println(hold.Token(), time.Now().UnixNano())
	}
	<-hold.Context().Done()
	fmt.Println("lost:", context.Cause(hold.Context()))
	return nil
}
