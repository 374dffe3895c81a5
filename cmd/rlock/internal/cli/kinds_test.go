package cli

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/doctor"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// kinds is an observer that notes the kind of each name. Telemetry has its labels from there.
type kinds struct {
	observe.Base

	mu sync.Mutex
	of map[string]string
}

func (k *kinds) AcquireStart(ctx context.Context, d observe.AcquireStart) context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[d.Name] = d.Kind
	return ctx
}

// TestEachKindHasOneName in what an observer is told, in its documentation, in log lines, in the lists of the command, for its
// doctor, and on its page.
func TestEachKindHasOneName(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	told := &kinds{of: make(map[string]string)}
	client, err := rlock.New(rdb, rlock.WithObserver(told))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	rw, fencedRW := client.NewRWLock, func(name string) *rlock.RWLock { return client.NewRWLock(name, rlock.Fenced()) }
	shown := map[string]handles.Any{
		"lock": client.NewLock("a lock"), "fenced": client.NewLock("a fenced", rlock.Fenced()), "fair": client.NewFairLock("a fair"),
		"fenced fair": client.NewFairLock("a fenced fair", rlock.Fenced()), "read": rw("a read").Reader(), "write": rw("a write").Writer(),
		"fenced write": fencedRW("a fenced write").Writer(), "semaphore": client.NewSemaphore("a semaphore", rlock.Total(1)),
	}
	names := slices.Collect(maps.Keys(shown))
	for kind, of := range shown {
		hold(t, of)
		if strings.Contains(kind, "fair") { // which nobody knows without a waiter
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = of.Do(ctx, func(context.Context) error { return nil }) // another owner
			}()
			t.Cleanup(func() { cancel(); <-done })
		}
	}
	var rows map[string]rowOut
	redistest.Eventually(t, "all are there", func() bool {
		rows = list(t, rdb)
		return len(rows) == len(shown) && rows["a fair"].Waiters == 1 && rows["a fenced fair"].Waiters == 1
	})
	for kind := range shown {
		name := "a " + kind
		require.Equal(t, kind, told.of[name], "an observer")
		require.Equal(t, kind, rows[name].Kind, "ls --json")
		code, out, errs := command(t, addr(rdb), "show", name)
		require.Zero(t, code, errs)
		require.Regexp(t, `(?m)^kind +`+kind+`$`, out)
		_, out, _ = command(t, addr(rdb), "ls", "--prefix", name)
		require.Regexp(t, `(?m)^`+name+` +`+kind+`  `, out)
	}
	latch := client.NewCountDownLatch("a latch")
	require.NoError(t, latch.Await(t.Context(), rlock.Wait(time.Second)))
	require.Contains(t, latch.String(), told.of["a latch"])
	for name, of := range map[string]handles.Any{"multi": rlock.NewMultiLock(client.NewLock("m")), "red": rlock.NewRedLock(client.NewLock("r"))} {
		hold(t, of)
		require.Contains(t, slices.Collect(maps.Values(told.of)), name)
		names = append(names, name)
	}
	plain := client.NewPlainSemaphore("a plain semaphore", rlock.Total(1)) // which looks like any counter
	require.NoError(t, plain.Acquire(t.Context()))
	names = append(names, "spin", told.of["a latch"], told.of["a plain semaphore"])
	for kind := range wire.Kinds {
		require.Contains(t, names, kind)
	}
	whole := []string{"multi", "red"} // which consist of locks
	require.ElementsMatch(t, names, append(slices.DeleteFunc(doctor.Kinds(), func(kind string) bool { return kind == "inspect" }), whole...))

	source, err := os.ReadFile("../../../../observe/observe.go")
	require.NoError(t, err)
	comment := regexp.MustCompile(`(?s)// Kind is (.*?)\.\n\tKind string`).FindSubmatch(source)
	require.NotNil(t, comment)
	documented := regexp.MustCompile(`, | or |\s+// ?or `).Split(regexp.MustCompile(`\s+// `).ReplaceAllString(string(comment[1]), " "), -1)
	require.ElementsMatch(t, names, documented)
	for _, file := range []string{"page.js", "page.css"} {
		text, err := os.ReadFile("../page/web/" + file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`data-kind="?([a-z -]+)"?\]|kind === "([^"]+)"`).FindAllSubmatch(text, -1) {
			require.Contains(t, names, string(found[1])+string(found[2]), file)
		}
	}
}

// list returns what ls finds, by name.
func list(t *testing.T, rdb *redis.Client) map[string]rowOut {
	t.Helper()
	code, out, errs := command(t, addr(rdb), "ls", "--all", "--json")
	require.Zero(t, code, errs)
	found := map[string]rowOut{}
	for line := range strings.Lines(out) {
		var row rowOut
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		found[row.Name] = row
	}
	return found
}

// TestWaitingIsLabeled says what it counts: calls of a fair lock, and of how many processes they are, and the processes of all others.
func TestWaitingIsLabeled(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		client, one, two := newClient(t, rdb), newClient(t, rdb), newClient(t, rdb)
		hold(t, client.NewLock("plain"))
		hold(t, client.NewFairLock("fair"))
		hold(t, client.NewFairLock("alone"))
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		t.Cleanup(func() { cancel(); waiting.Wait() })
		wait := func(of handles.Any) {
			waiting.Go(func() { _ = of.Do(ctx, func(context.Context) error { return nil }) })
		}
		for range 3 {
			for _, c := range []*rlock.Client{one, two} {
				wait(c.NewLock("plain"))
				wait(c.NewFairLock("fair"))
			}
		}
		wait(one.NewFairLock("alone"))
		redistest.Eventually(t, "they wait", func() bool {
			rows := list(t, rdb)
			return rows["plain"].Waiters == 2 && rows["fair"].Waiters == 6 && rows["alone"].Waiters == 1
		})
		rows := list(t, rdb)
		require.Nil(t, rows["plain"].WaitingCalls)
		require.Equal(t, 2, *rows["plain"].WaitingProcesses)
		require.Equal(t, 6, *rows["fair"].WaitingCalls)
		require.Equal(t, 2, *rows["fair"].WaitingProcesses)
		_, out, _ := command(t, addr(rdb), "ls", "--all")
		require.Regexp(t, `(?m)^plain +lock +\S+ +2 processes  `, out)
		require.Regexp(t, `(?m)^fair +fair +\S+ +6 calls of 2 processes  `, out)
		require.Regexp(t, `(?m)^alone +fair +\S+ +1 call of 1 process  `, out)
		_, out, _ = command(t, addr(rdb), "show", "fair")
		require.Regexp(t, `(?m)^waiting +6 calls of 2 processes$`, out)
	})
}

// TestPermitsHaveOwners, by the identity of the client that a permit's id leads to. Redisson's ids lead nowhere.
func TestPermitsHaveOwners(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		ctx := t.Context()
		shop, err := rlock.New(rdb, rlock.WithIdentity(rlock.Identity{Service: "shop", Host: "a", PID: 7}))
		require.NoError(t, err)
		t.Cleanup(func() { _ = shop.Close() })
		hold(t, shop.NewSemaphore("permits", rlock.Total(4)), rlock.Permits(2))
		hold(t, newClient(t, rdb).NewSemaphore("permits"))
		require.NoError(t, rdb.ZAdd(ctx, "{permits}:timeout", redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMilli()), Member: "0123456789abcdef"}).Err())
		hold(t, shop.NewSemaphore("single", rlock.Total(1)))
		redistest.Eventually(t, "the identity is written", func() bool { return len(rdb.Keys(ctx, "rlock_client:*").Val()) == 1 })

		code, out, errs := command(t, addr(rdb), "show", "permits")
		require.Zero(t, code, errs)
		require.Len(t, regexp.MustCompile(`(?m)^ +[0-9a-f]{32}, shop@a \(pid 7\), lease `).FindAllString(out, -1), 2, out)
		require.Len(t, regexp.MustCompile(`(?m)^ +[0-9a-f]{32}, Redisson, or rlock without identity, lease `).FindAllString(out, -1), 2, out)
		code, out, errs = command(t, addr(rdb), "show", "permits", "--json")
		require.Zero(t, code, errs)
		var d detailsOut
		require.NoError(t, json.Unmarshal([]byte(out), &d))
		named := 0
		for _, h := range d.HolderList {
			if h.Identity != nil {
				require.Equal(t, "shop", h.Identity.Service)
				named++
			}
		}
		require.Equal(t, 2, named)
		_, out, _ = command(t, addr(rdb), "ls", "--prefix", "single")
		require.Regexp(t, `permit [0-9a-f]{32}, shop@a \(pid 7\)\n$`, out)
	})
}

// TestAKeptLockIsShownAsKept, by whom and until when, although the process has exited.
func TestAKeptLockIsShownAsKept(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		code, _, errs := command(t, addr(rdb), "run", "sync", "--fair", "--at-least", "1h", "--", "true")
		require.Zero(t, code, errs)
		host, err := os.Hostname()
		require.NoError(t, err)
		by := `true@` + regexp.QuoteMeta(host) + ` \(pid \d+\)`
		code, out, errs := command(t, addr(rdb), "show", "sync")
		require.Zero(t, code, errs)
		require.Regexp(t, `(?m)^kept +until \S+, for (59m|1h)\S*, by `+by+`.*: nobody holds it$`, out)
		require.Regexp(t, `(?m)^ +\S+, `+by+`.*, has unlocked it, kept for (59m|1h)`, out)
		require.NotContains(t, out, "Redisson")
		_, out, _ = command(t, addr(rdb), "ls", "--all")
		require.Regexp(t, `(?m)^sync .* 0 +kept by `+by, out)
		row := list(t, rdb)["sync"]
		require.True(t, row.Kept)
		require.Equal(t, "true", row.Identity.Service)
		require.InDelta(t, time.Hour.Milliseconds(), row.LeaseMS, float64(time.Minute.Milliseconds()))
		hold(t, newClient(t, rdb).NewLock("held"))
		require.False(t, list(t, rdb)["held"].Kept)
	})
}
