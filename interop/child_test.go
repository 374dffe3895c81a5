package interop_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// childEnv is the environment variable that makes the test binary a child process. Its value is a childCall in JSON.
const childEnv = "RLOCK_INTEROP_CHILD"

// children holds the functions of child processes, by name. A function gets its arguments and the lines that the test sends,
// and prints its replies. A child ends with its function, or as soon as its standard input ends.
var children = map[string]func(args json.RawMessage, told <-chan string) error{
	"hold":        childFunc(hold),
	"hold all":    childFunc(holdAll),
	"hold permit": childFunc(holdPermit),
	"count":       childFunc(countInGo),
	"bench":       childFunc(benchInGo),
}

type childCall struct {
	Function string          `json:"function"`
	Args     json.RawMessage `json:"args"`
}

func childMain() {
	var call childCall
	err := json.Unmarshal([]byte(os.Getenv(childEnv)), &call)
	if err == nil {
		told := make(chan string)
		go func() {
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				told <- in.Text()
			}
			os.Exit(0) // the tests have ended
		}()
		err = children[call.Function](call.Args, told)
	}
	if err != nil {
		fmt.Println("child:", err)
		os.Exit(1)
	}
}

// childFunc adapts a function with typed arguments for children.
func childFunc[A any](run func(A, <-chan string) error) func(json.RawMessage, <-chan string) error {
	return func(args json.RawMessage, told <-chan string) error {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return err
		}
		return run(a, told)
	}
}

// holding holds the arguments of hold.
type holding struct {
	Addr     string
	Kind     string // as in kinds
	Name     string
	Watchdog time.Duration
	FairWait time.Duration // zero means the default
}

// hold acquires a lock when it gets a line, and releases it at the next one. It prints a line after each.
func hold(h holding, told <-chan string) error {
	rdb := redis.NewClient(&redis.Options{Addr: h.Addr})
	locks, err := rlock.New(rdb, rlock.WithWatchdogTimeout(h.Watchdog),
		tune.FairWait(cmp.Or(h.FairWait, 5*time.Minute)))
	if err != nil {
		return err
	}
	lock := kindNamed(h.Kind).newLock(locks, h.Name)
	for range told {
		if err := lock.Lock(context.Background()); err != nil {
			return err
		}
		fmt.Println("locked")
		<-told
		if err := lock.Unlock(context.Background()); err != nil {
			return err
		}
		fmt.Println("unlocked")
	}
	return nil
}

// child is a child process, see children.
type child struct {
	testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// startChild starts a child that runs a function of children. The child ends with the test.
func startChild(tb testing.TB, function string, args any) *child {
	tb.Helper()
	require.Contains(tb, children, function)
	text, err := json.Marshal(args)
	require.NoError(tb, err)
	call, err := json.Marshal(childCall{Function: function, Args: text})
	require.NoError(tb, err)
	c := &child{TB: tb, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(call))
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(tb, err)
	c.in, c.out = in, bufio.NewScanner(out)
	require.NoError(tb, c.cmd.Start())
	tb.Cleanup(c.kill)
	return c
}

// kill kills the child.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// say sends the child a line.
func (c *child) say(text string) {
	c.Helper()
	_, err := io.WriteString(c.in, text+"\n")
	require.NoError(c, err)
}

// reply reads the next line of the child's output.
func (c *child) reply() string {
	c.Helper()
	said := make(chan bool, 1)
	go func() { said <- c.out.Scan() }()
	require.True(c, within(c, "the child replies", said), "the child has ended")
	return c.out.Text()
}
