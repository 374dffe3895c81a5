package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain is the command itself if the environment says so: the tests run it as processes.
func TestMain(m *testing.M) {
	if os.Getenv("RLOCK_TEST_COMMAND") != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	goleak.VerifyTestMain(m)
}

// process is a running command.
type process struct {
	*exec.Cmd

	t        *testing.T
	out, err output
	done     chan struct{}
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts the command with the Redis at an address. It is killed when the test ends.
func start(t *testing.T, addr string, args ...string) *process {
	t.Helper()
	return startWith(t, addr, nil, args...)
}

func startWith(t *testing.T, addr string, set func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), t: t, done: make(chan struct{})}
	p.Env = append(os.Environ(), "RLOCK_TEST_COMMAND=1", "REDIS_URL=redis://"+addr, "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.out, &p.err
	p.WaitDelay = 5 * time.Second
	if set != nil {
		set(p.Cmd)
	}
	require.NoError(t, p.Start())
	go func() { defer close(p.done); _ = p.Wait() }()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s\n%s%s", strings.Join(args, " "), p.out.String(), p.err.String())
		}
	})
	return p
}

// code waits for the end and returns the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		require.FailNow(p.t, "it does not end", "%v\n%s%s", p.Args, p.out.String(), p.err.String())
	}
	return p.ProcessState.ExitCode()
}

// says waits until the process has written a text.
func (p *process) says(text string) {
	p.t.Helper()
	redistest.Eventually(p.t, "it says "+text, func() bool { return strings.Contains(p.out.String()+p.err.String(), text) })
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(s))
}

// command runs the command to its end.
func command(t *testing.T, addr string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, addr, args...)
	code = p.code()
	return code, p.out.String(), p.err.String()
}

// onBoth runs a test on an embedded Redis and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	for where, start := range map[string]func(t *testing.T) *redis.Client{
		"embedded": func(t *testing.T) *redis.Client { t.Helper(); return redistest.Embedded(t) },
		"single":   func(t *testing.T) *redis.Client { t.Helper(); return redistest.Start(t).Client(t) },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

func addr(rdb *redis.Client) string { return rdb.Options().Addr }

func newClient(t *testing.T, rdb redis.UniversalClient) *rlock.Client {
	t.Helper()
	c, err := rlock.New(rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// hold holds a lock until the test ends.
func hold(t *testing.T, of rlock.Acquirer, opts ...rlock.AcquireOption) {
	t.Helper()
	h, err := of.Acquire(t.Context(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Unlock(context.Background()) })
}

func locked(t *testing.T, l *rlock.Lock) bool {
	t.Helper()
	held, err := l.IsLocked(t.Context())
	require.NoError(t, err)
	return held
}
