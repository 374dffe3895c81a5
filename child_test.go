package rlock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// childEnv, set to "<address> <kind> <name>", makes the test binary run as a child process. The child locks when it reads a
// line, prints the time of the acquisition, and unlocks when it reads the next line. For the kind "writes" it runs
// writesUntilLost instead.
const childEnv = "RLOCK_TEST_CHILD"

func childMain() {
	if err := childRun(); err != nil {
		fmt.Println("child:", err)
		os.Exit(1)
	}
}

func childRun() error {
	var addr, kind, name string
	if _, err := fmt.Sscan(os.Getenv(childEnv), &addr, &kind, &name); err != nil {
		return err
	}
	locks, err := rlock.New(redis.NewClient(&redis.Options{Addr: addr}), rlock.WithWatchdogTimeout(time.Second))
	if err != nil {
		return err
	}
	if kind == "writes" {
		return writesUntilLost(locks.NewFencedLock(name))
	}
	lock := kinds[kind].make(locks, name)
	ctx := context.Background()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := lock.Lock(ctx); err != nil {
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

// child is a test binary that runs as a child process, see childEnv.
type child struct {
	testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// startChild starts a child process for a lock of a kind.
func startChild(tb testing.TB, addr, kind, name string) *child {
	tb.Helper()
	c := &child{TB: tb, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+addr+" "+kind+" "+name)
	in, err := c.cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(tb, err)
	c.in, c.out = in, bufio.NewScanner(out)
	require.NoError(tb, c.cmd.Start())
	tb.Cleanup(c.kill)
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// next makes the child lock or unlock.
func (c *child) next() {
	c.Helper()
	_, err := io.WriteString(c.in, "\n")
	require.NoError(c, err)
}

// answer returns the next line that the child prints.
func (c *child) answer() string {
	c.Helper()
	require.True(c, c.out.Scan(), "the child has ended")
	return c.out.Text()
}

func TestTheLockOfAKilledProcessIsFreeAfterItsLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := newName()
	holder := startChild(t, server.Addr, "lock", name)
	holder.next()
	_, err := strconv.ParseInt(holder.answer(), 10, 64)
	require.NoError(t, err)

	lock := newClient(t, server.Client(t)).NewLock(name)
	ok, err := lock.TryLock(t.Context(), rlock.Wait(2*time.Second))
	require.NoError(t, err)
	require.False(t, ok, "the lock is renewed while its process lives")
	holder.kill()
	start := time.Now()
	require.NoError(t, lock.Lock(t.Context(), rlock.Wait(aLongTime)))
	require.Less(t, time.Since(start), 3*time.Second)
	require.NoError(t, lock.Unlock(t.Context()))
}
