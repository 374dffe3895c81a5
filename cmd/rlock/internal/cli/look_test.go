package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/program"
)

// TestList shows what is held, for people and for programs.
func TestList(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		client := newClient(t, rdb)
		hold(t, client.NewLock("orders:2"), rlock.Lease(time.Minute))
		hold(t, client.NewRWLock("orders:1").ReadLock(), rlock.Lease(time.Minute))
		hold(t, client.NewLock("orders:\x1b[31m<b>\xff"))
		hold(t, client.NewSemaphore("permits", rlock.Total(2)))
		code, out, errs := command(t, addr(rdb), "ls", "--prefix", "orders:")
		require.Zero(t, code, errs)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		require.Len(t, lines, 4)
		require.Regexp(t, `^NAME +KIND +LEASE +WAITING +HOLDERS +HOLDER$`, lines[0])
		require.Contains(t, lines[1], `"orders:\x1b[31m<b>\xff"`, "as text")
		require.Regexp(t, `^orders:1 +read +\S+ +0 +1 +`+client.ID()+`$`, lines[2])
		require.Regexp(t, `^orders:2 +lock +\S+ +0 +1 +`+client.ID()+`$`, lines[3])

		code, out, errs = command(t, addr(rdb), "ls", "--all", "--json")
		require.Zero(t, code, errs)
		found := map[string]rowOut{}
		for line := range strings.Lines(out) {
			var row rowOut
			require.NoError(t, json.Unmarshal([]byte(line), &row))
			found[row.Name] = row
		}
		require.Len(t, found, 4)
		require.Equal(t, 1, *found["permits"].Free)
		require.InDelta(t, time.Minute.Milliseconds(), found["orders:2"].LeaseMS, 30_000)
		require.Equal(t, client.ID(), found["orders:2"].Client)

		code, out, _ = command(t, addr(rdb), "ls", "--prefix", "none")
		require.Zero(t, code)
		require.Empty(t, out)
	})
}

// TestLookBadly has each subcommand refuse wrong arguments, and a Redis that is away, with a code and one line.
func TestLookBadly(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"ls": exitUsage, "ls --all --prefix x": exitUsage, "ls --all more": exitUsage, "show": exitUsage, "free a b": exitUsage,
		"ui --listen nowhere": exitUsage, "script a b": exitUsage, "doctor --kinds none": exitUsage, "doctor --lease 0": exitUsage, "doctor --lease 10ms": exitUsage,
		"ls --all --addr=": exitUsage, "ls --all --url=": exitUsage, "ls --all --password-file=": exitUsage, "ls --prefix= --match= --key-prefix=": exitUnavailable,
		"ui --listen=": exitUsage, "doctor --services-user=": exitUsage, "doctor --kinds=": exitUsage, "free a --yes --if-holder=": exitUsage,
		"free a --yes --if-holder a:1 --if-holder=": exitUsage, "free a --yes --if-holder= --if-holder a:1": exitUsage,
		"ls --all": exitUnavailable, "show a": exitUnavailable, "free a": exitUnavailable, "doctor": exitUnavailable,
	} {
		code, out, errs := command(t, "127.0.0.1:1", append(strings.Fields(args), "--timeout", "500ms")...)
		require.Equal(t, want, code, args+": "+errs)
		require.Empty(t, out, args)
		require.Equal(t, 1, strings.Count(errs, "\n"), args+": "+errs)
	}
	for _, args := range []string{"--help", "run --help", "ls --help", "show --help", "free --help", "doctor --help", "ui --help", "script --help", "completion bash", "--version"} {
		code, out, errs := command(t, "127.0.0.1:1", strings.Fields(args)...)
		require.Zero(t, code, errs)
		require.NotEmpty(t, out)
	}
}

// TestPasswordsAreNotShown in any error.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Client(t).ConfigSet(t.Context(), "requirepass", "right").Err())
	for url, want := range map[string]int{"redis://:wr0ng@" + server.Addr: exitFailed, "redis://:wr0/ng@" + server.Addr: exitUsage} {
		for _, args := range []string{"ls --all", "run job -- true", "doctor"} {
			_, out, errs := command(t, server.Addr, append([]string{"--url", url}, strings.Fields(args)...)...)
			require.NotContains(t, out+errs, "wr0")
			require.NotEmpty(t, errs, want)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		client := newClient(t, rdb)
		lock := client.NewFairLock("fair")
		hold(t, lock, rlock.Lease(time.Minute))
		info, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		rival := newClient(t, rdb)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- rival.NewFairLock("fair").Lock(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		redistest.Eventually(t, "it waits", func() bool { i, err := lock.Inspect(t.Context()); return err == nil && i.WaiterCount == 1 })

		code, out, errs := command(t, addr(rdb), "show", "fair")
		require.Zero(t, code, errs)
		require.Contains(t, out, info.Holders[0].Holder)
		require.Contains(t, out, "1. "+rival.ID())
		code, out, errs = command(t, addr(rdb), "show", "fair", "--json")
		require.Zero(t, code, errs)
		var d detailsOut
		require.NoError(t, json.Unmarshal([]byte(out), &d))
		require.Equal(t, info.Holders[0].Holder, d.HolderList[0].Holder)
		require.Equal(t, rival.ID(), d.WaiterList[0].Client)

		hold(t, client.NewSemaphore("permits", rlock.Total(2)))
		code, out, errs = command(t, addr(rdb), "show", "permits")
		require.Zero(t, code, errs)
		require.Contains(t, out, "1 free, 1 out")

		code, out, errs = command(t, addr(rdb), "show", "none")
		require.Equal(t, exitNo, code)
		require.Empty(t, out)
		require.Equal(t, "rlock: lock \"none\" is not held\n", errs)
	})
}

// TestFree asks, shows whose lock it is, and frees nothing from anybody else.
func TestFree(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		client := newClient(t, rdb)
		lock := client.NewLock("job")
		h, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		info, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		holder := info.Holders[0].Holder
		answer := func(text string, args ...string) (int, string) {
			p := program.StartWith(t, addr(rdb), func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(text) }, append([]string{"free"}, args...)...)
			return p.Code(), p.Out.String() + p.Errs.String()
		}
		for _, text := range []string{"", "n\n", "\n", "what\n"} {
			code, out := answer(text, "job")
			require.Equal(t, exitNo, code)
			require.Contains(t, out, holder)
		}
		code, out := answer("y\n", "job", "--if-holder", "another:1")
		require.Equal(t, exitNo, code)
		require.Contains(t, out, holder)
		code, _ = answer("", "none", "--yes")
		require.Equal(t, exitNo, code)
		require.NoError(t, h.Extend(t.Context(), time.Minute), "it is held all the while")

		code, out = answer("y\n", "job", "--if-holder", holder)
		require.Zero(t, code)
		require.Contains(t, out, "freed job\n")
		require.ErrorIs(t, h.Unlock(t.Context()), rlock.ErrLost)

		hold(t, client.NewSemaphore("permits", rlock.Total(2)), rlock.Permits(2))
		code, out = answer("", "permits", "--yes")
		require.Equal(t, exitNo, code, out)
		permit := regexp.MustCompile(`[0-9a-f]{32}`)
		_, out, _ = command(t, addr(rdb), "show", "permits")
		code, out = answer("", "permits", "--yes", "--if-holder", permit.FindString(out))
		require.Zero(t, code, out)
		n, err := client.NewSemaphore("permits").AvailablePermits(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// TestFreeLateComer frees nothing from a holder that came while the user was thinking.
func TestFreeLateComer(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	lock := newClient(t, rdb).NewLock("job")
	first, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	in, says, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(); _ = says.Close() })
	p := program.StartWith(t, addr(rdb), func(cmd *exec.Cmd) { cmd.Stdin = in }, "free", "job")
	p.Says("Free it?")
	require.NoError(t, first.Unlock(t.Context()))
	second, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	_, err = says.WriteString("y\n")
	require.NoError(t, err)
	require.Equal(t, exitNo, p.Code())
	require.Contains(t, p.Errs.String(), "another holder")
	require.NoError(t, second.Unlock(t.Context()))
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	code, out, errs := command(t, server.Addr, "doctor")
	require.Zero(t, code, out+errs)
	require.Contains(t, out, "eviction")
	require.NoError(t, server.Client(t).ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	require.NoError(t, server.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	code, out, errs = command(t, server.Addr, "doctor", "--json")
	require.Equal(t, 14, code, out+errs)
	var report struct {
		Findings []struct{ Check, Level string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Contains(t, report.Findings, struct{ Check, Level string }{"eviction", "problem"})
}

// TestUI serves the page until it is interrupted.
func TestUI(t *testing.T) {
	t.Parallel()
	p := program.Start(t, redistest.Start(t).Addr, "ui", "--listen", "127.0.0.1:0", "--allow-free")
	p.Says("#token=")
	require.NotContains(t, p.Errs.String(), "whoever")
	address, _, _ := strings.Cut(p.Out.String(), "#")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	p.Signal(syscall.SIGTERM)
	require.Zero(t, p.Code())
}
