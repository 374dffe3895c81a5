package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
	"github.com/go-rlock/rlock/observe"
)

func TestMain(m *testing.M) {
	program.Run(main)
	goleak.VerifyTestMain(m)
}

// The times that a payment takes in these tests.
const (
	atOnce = "0s"
	soon   = "500ms"
	later  = "2s"
	never  = "1h"
)

// instance is a process of the service.
type instance struct {
	*program.Process

	t   *testing.T
	url string
}

// start starts an instance whose payments take so long.
func start(t *testing.T, server *redistest.Server, takes string) *instance {
	t.Helper()
	p := program.StartWith(t, server.Addr, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "ADDR=127.0.0.1:0", "CHARGE="+takes)
	})
	p.Says("locks on")
	return &instance{p, t, regexp.MustCompile(`http://\S+:\d+`).FindString(p.Out.String())}
}

// answer is what a request got.
type answer struct {
	code   int
	text   string
	header http.Header
	took   time.Duration
}

// ask sends a request, and returns no code if there was no answer.
func (i *instance) ask(ctx context.Context, method, path string) answer {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, i.url+path, http.NoBody)
	if err != nil {
		return answer{text: err.Error()}
	}
	request.Close = true
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{text: err.Error()}
	}
	return answer{response.StatusCode, strings.TrimSpace(string(text)), response.Header, time.Since(began)}
}

func (i *instance) pay(ctx context.Context) answer {
	i.t.Helper()
	return i.ask(ctx, http.MethodPost, "/invoices/42/payment")
}

// paying sends a request, and returns once it works.
func (i *instance) paying(ctx context.Context) <-chan answer {
	i.t.Helper()
	result := make(chan answer, 1)
	go func() { result <- i.pay(ctx) }()
	i.Says("charging")
	return result
}

func lock(t *testing.T, server *redistest.Server) *rlock.Lock {
	t.Helper()
	locks, err := rlock.New(server.Client(t))
	require.NoError(t, err)
	t.Cleanup(func() { locks.Close() })
	return invoiceLock(locks, "42")
}

func free(t *testing.T, l *rlock.Lock) bool {
	t.Helper()
	locked, err := l.IsLocked(t.Context())
	require.NoError(t, err)
	return !locked
}

// TestOneOfTwoPays lets one of two requests at two instances pay. The other one gets the same receipt, as does a later one.
func TestOneOfTwoPays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := start(t, server, soon), start(t, server, soon)
	first := one.paying(t.Context())
	second := other.pay(t.Context())
	require.Equal(t, http.StatusOK, second.code, second.text)
	require.Equal(t, second.text, (<-first).text)
	require.Equal(t, second.text, one.pay(t.Context()).text)
	require.False(t, other.Said("charging"))
}

// TestOneWorksTheOtherConflicts answers 409 while another instance works, until that one is killed and its lease has ended.
func TestOneWorksTheOtherConflicts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	killed, other := start(t, server, never), start(t, server, atOnce)
	killed.paying(t.Context())
	var stats observe.Stats
	require.NoError(t, json.Unmarshal([]byte(killed.ask(t.Context(), http.MethodGet, "/readyz").text), &stats))
	require.Equal(t, 1, stats.Held, "the layers below re-enter")

	refused := other.pay(t.Context())
	require.Equal(t, http.StatusConflict, refused.code, refused.text)
	require.GreaterOrEqual(t, refused.took, wait)
	require.Empty(t, refused.header.Get("Retry-After"))

	killed.Kill()
	passed := redistest.Stopwatch(t)
	for {
		a := other.pay(t.Context())
		if a.code == http.StatusOK {
			break
		}
		require.Equal(t, http.StatusConflict, a.code, a.text)
		require.Less(t, passed(), 2*lease)
	}
}

// TestLost stops a request whose lock somebody else has taken away, and says so.
func TestLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	i := start(t, server, never)
	result := i.paying(t.Context())
	forced, err := lock(t, server).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, forced)
	a := <-result
	require.Equal(t, http.StatusInternalServerError, a.code)
	require.Contains(t, a.text, "the lock was lost while the request worked")
	i.Says("lock lost: its holder is gone from Redis")
}

// TestTheClientLeaves frees the lock at once.
func TestTheClientLeaves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	i := start(t, server, never)
	ctx, leave := context.WithCancel(t.Context())
	result := i.paying(ctx)
	leave()
	require.Zero(t, (<-result).code)
	i.Says("status=499")
	require.True(t, free(t, lock(t, server)))
}

// TestTerminated finishes the request under way, and frees its lock before the process ends.
func TestTerminated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	i := start(t, server, later)
	result := i.paying(t.Context())
	require.False(t, free(t, lock(t, server)))
	i.Signal(syscall.SIGTERM)
	a := <-result
	require.Equal(t, http.StatusOK, a.code, a.text)
	require.Zero(t, i.Code())
	require.True(t, free(t, lock(t, server)))
	again := start(t, server, never).pay(t.Context())
	require.Equal(t, a.text, again.text)
}

// TestRedisStops answers 503, and not 409, while Redis gives no answer: a request takes no longer than its wait, and a bit.
func TestRedisStops(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	i := start(t, server, atOnce)
	server.Pause()
	passed := redistest.Stopwatch(t)
	a := i.pay(t.Context())
	took := passed()
	require.Equal(t, http.StatusServiceUnavailable, a.code, a.text)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Less(t, took, wait+2*time.Second)
	ready := i.ask(t.Context(), http.MethodGet, "/readyz")
	require.Equal(t, http.StatusOK, ready.code, ready.text)
	server.Resume()
	redistest.Eventually(t, "it pays again", func() bool { return i.pay(t.Context()).code == http.StatusOK })
}
