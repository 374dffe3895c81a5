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
		hold(t, client.NewRWLock("orders:1").Reader(), rlock.Lease(time.Minute))
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

// TestHelpBeginsWithWhatWasAskedFor, and refers to the flags that all subcommands have.
func TestHelpBeginsWithWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	_, out, _ := command(t, "127.0.0.1:1", "show", "--help")
	require.True(t, strings.HasPrefix(out, "Show who holds a lock and who waits for it.\n\nUsage:\n  rlock show NAME [flags]\n\nFlags:\n"), out)
	require.NotContains(t, out, "--tls-ca")
	require.Contains(t, out, "such as --url, --addr, --cluster: see rlock --help\n")
	_, out, _ = command(t, "127.0.0.1:1", "--help")
	require.Contains(t, out, "--tls-ca")
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

		latch := client.NewCountDownLatch("latch")
		_, err = latch.TrySetCount(t.Context(), 2)
		require.NoError(t, err)
		waited := make(chan error, 1)
		go func() { waited <- latch.Await(ctx) }()
		t.Cleanup(func() { cancel(); <-waited })
		redistest.Eventually(t, "it waits", func() bool { return client.Stats().Waiting == 1 })
		code, out, errs = command(t, addr(rdb), "show", "latch")
		require.Zero(t, code, errs)
		require.Contains(t, out, "a counter with the value 2: a latch, or a plain semaphore; Redis does not know who has its permits\n")
		require.NotContains(t, out, "holders")
		redistest.Eventually(t, "it listens", func() bool {
			_, out, _ = command(t, addr(rdb), "show", "latch")
			return strings.HasSuffix(out, "waiting   1 process\n")
		})
		_, out, _ = command(t, addr(rdb), "show", "latch", "--json")
		var counter rowOut
		require.NoError(t, json.Unmarshal([]byte(out), &counter))
		require.Equal(t, "counter", counter.Kind)
		require.Equal(t, 2, *counter.Value)
		require.Equal(t, 1, *counter.WaitingProcesses)
		code, _, errs = command(t, addr(rdb), "free", "latch", "--yes")
		require.Equal(t, exitNo, code)
		require.Contains(t, errs, `"latch" is a counter with the value 2`)

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
			require.Contains(t, out, "works on until its next renewal, up to 10 s, and both may run until then.\nFree it? [y/N] ")
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
	require.NotContains(t, out, "ACL SETUSER")
	code, out, errs = command(t, server.Addr, "doctor", "--kinds", "fair,count-down latch", "--key-prefix", "app:")
	require.Zero(t, code, out+errs)
	require.Regexp(t, `(?m)^ok +rights .* has all rights that fair, count-down latch needs: ACL SETUSER default ~app:\* .*redisson_lock_queue:.*redisson_countdownlatch`, out)
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

// TestDemo has a ticket office at work and its page, without a Redis, and leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := program.Start(t, "127.0.0.1:1", "demo", "--no-browser")
	p.Says("#token=")
	at := regexp.MustCompile(`--addr ([0-9.:]+\d)`).FindStringSubmatch(p.Errs.String())
	require.NotNil(t, at, p.Errs.String())
	page, _, _ := strings.Cut(p.Out.String(), "#")
	response, err := http.Get(page)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	http.DefaultClient.CloseIdleConnections()
	redistest.EventuallyWithin(t, time.Minute, "they work", func() bool {
		_, out, _ := command(t, at[1], "ls", "--all")
		return regexp.MustCompile(`(?m)^tickets:evening +fair .* counter@office-\d`).MatchString(out) && strings.Contains(out, "settlement") &&
			strings.Contains(out, "printers")
	})
	p.Signal(syscall.SIGTERM)
	require.Zero(t, p.Code(), p.Errs.String())
}

// TestReplicas are told of, and one that has lost its master shows nothing: it may be of any time before.
func TestReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	hold(t, newClient(t, master.Client(t)).NewLock("job"))
	host, port, _ := strings.Cut(master.Addr, ":")
	rdb := replica.Client(t)
	require.NoError(t, rdb.Do(t.Context(), "replicaof", host, port).Err())
	redistest.EventuallyWithin(t, time.Minute, "it has the lock", func() bool { return rdb.Exists(t.Context(), "job").Val() == 1 })
	note := "rlock: warning: " + replica.Addr + " is a replica: what is shown may be behind its master"
	for _, args := range []string{"ls --all", "show job", "show job --json"} {
		code, out, errs := command(t, replica.Addr, strings.Fields(args)...)
		require.Zero(t, code, errs)
		require.Contains(t, out, "job")
		require.Equal(t, note+"\n", errs)
	}
	p := program.Start(t, replica.Addr, "ui", "--listen", "127.0.0.1:0")
	p.Says("http://")
	require.Contains(t, p.Errs.String(), note)
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+@connection").Err())
	code, _, errs := command(t, replica.Addr, "ls", "--all", "--url", "redis://reader:secret@"+replica.Addr)
	require.Zero(t, code, errs)
	require.Equal(t, note+", and whether it has lost it this user may not ask (+role)\n", errs)
	master.Kill()
	redistest.EventuallyWithin(t, time.Minute, "it has lost its master", func() bool {
		code, out, errs := command(t, replica.Addr, "show", "job")
		if code == 0 {
			return false
		}
		require.Equal(t, exitUsage, code)
		require.Empty(t, out)
		require.Equal(t, "rlock: "+replica.Addr+" is a replica that has lost its master, so it does not know who holds what: ask the master\n", errs)
		return true
	})
	for _, args := range []string{"ls --all", "free job --yes", "ui --listen 127.0.0.1:0"} {
		code, out, errs := command(t, replica.Addr, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Empty(t, out)
		require.Contains(t, errs, "has lost its master")
	}
}

// TestFiltersAndWatch lists what is asked for, again and again.
func TestFiltersAndWatch(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	shop, err := rlock.New(rdb, rlock.WithIdentity(rlock.Identity{Service: "shop", Host: "a", PID: 7}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = shop.Close() })
	hold(t, shop.NewLock("one"))
	hold(t, newClient(t, rdb).NewRWLock("two").Reader())
	rival := newClient(t, rdb)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rival.NewLock("one").Lock(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for args, want := range map[string]string{"--contended": "one", "--kind read": "two", "--holder SHOP@a": "one", "--holder nobody": ""} {
		redistest.Eventually(t, args, func() bool {
			code, out, errs := command(t, addr(rdb), append([]string{"ls", "--all"}, strings.Fields(args)...)...)
			require.Zero(t, code, errs)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			return want == "" && out == "" || len(lines) == 2 && strings.HasPrefix(lines[1], want+" ")
		})
	}
	redistest.Eventually(t, "a duration", func() bool {
		_, out, _ := command(t, addr(rdb), "show", "one")
		return regexp.MustCompile(`(?m)^ +1\. ` + rival.ID() + `, for [\dm.]+s$`).MatchString(out)
	})
	code, _, errs := command(t, addr(rdb), "ls", "--all", "--kind", "spin")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "--kind is \"spin\", none of lock, fenced, ")
	p := program.Start(t, addr(rdb), "ls", "--all", "--watch")
	redistest.EventuallyWithin(t, time.Minute, "it lists twice", func() bool { return strings.Count(p.Out.String(), "\x1b[2J") >= 2 })
	p.Signal(syscall.SIGTERM)
	require.Equal(t, exitSignal+int(syscall.SIGTERM), p.Code())

	_, out, _ := command(t, addr(rdb), "__complete", "ls", "--kind", "")
	require.Contains(t, out, "fenced fair\n")
	_, out, _ = command(t, addr(rdb), "__complete", "show", "o")
	require.Equal(t, "one\n", strings.SplitAfter(out, "\n")[0])
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
