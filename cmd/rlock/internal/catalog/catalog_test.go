package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// everywhere runs a test on an embedded Redis, a real one and a cluster.
func everywhere(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	for where, start := range map[string]func(t *testing.T) redis.UniversalClient{
		"embedded": func(t *testing.T) redis.UniversalClient { t.Helper(); return redistest.Embedded(t) },
		"single":   func(t *testing.T) redis.UniversalClient { t.Helper(); return redistest.Start(t).Client(t) },
		"cluster":  func(t *testing.T) redis.UniversalClient { t.Helper(); return redistest.StartCluster(t).Client(t) },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

func newClient(t *testing.T, rdb redis.UniversalClient, opts ...rlock.Option) *rlock.Client {
	t.Helper()
	c, err := rlock.New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newCatalog(t *testing.T, rdb redis.UniversalClient) *Catalog {
	t.Helper()
	return New(rdb, newClient(t, rdb), "")
}

// rows returns what a catalog finds, by name.
func rows(t *testing.T, c *Catalog, prefix string) map[string]Row {
	t.Helper()
	found := map[string]Row{}
	for row, err := range c.Find(t.Context(), Filter{Prefix: prefix}) {
		require.NoError(t, err)
		require.NotContains(t, found, row.Name, "it came before")
		found[row.Name] = row
	}
	return found
}

func acquire(t *testing.T, of handles.Any, opts ...rlock.AcquireOption) *rlock.Hold {
	t.Helper()
	hold, err := of.Acquire(t.Context(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = hold.Unlock(context.Background()) })
	return hold
}

// wait has somebody wait for a lock until the test ends.
func wait(t *testing.T, client *rlock.Client, of handles.Any) {
	t.Helper()
	before := client.Stats().Waiting
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = of.Do(ctx, func(context.Context) error { return nil })
	}()
	t.Cleanup(func() { cancel(); <-done })
	redistest.Eventually(t, "it waits", func() bool { return client.Stats().Waiting > before })
}

const minute = time.Minute

// TestRowsOfEveryKind shows each once, with its holder, waiters and lease, and nothing else that is in Redis.
func TestRowsOfEveryKind(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		id := rlock.Identity{Service: "shop", Host: "a", PID: 7, Started: time.UnixMilli(1_700_000_000_000)}
		client, rival := newClient(t, rdb, rlock.WithIdentity(id)), newClient(t, rdb)
		for i := range 200 {
			require.NoError(t, rdb.HSet(ctx, fmt.Sprint("user:", i), "name", "x", "mode", "read").Err())
		}
		require.NoError(t, rdb.Set(ctx, "counter", 5, 0).Err())
		require.NoError(t, rdb.Set(ctx, "text", strings.Repeat("x", 1000), 0).Err())
		require.NoError(t, rdb.ZAdd(ctx, "{text}:timeout", redis.Z{Score: 1e15, Member: "x"}).Err())
		require.NoError(t, rdb.HSet(ctx, "hash:timeout", "name", "x").Err())
		acquire(t, client.NewLock("plain"), rlock.Lease(minute))
		fenced := acquire(t, client.NewLock("fenced", rlock.Fenced()), rlock.Lease(minute))
		acquire(t, client.NewFairLock("fair"), rlock.Lease(minute))
		wait(t, rival, rival.NewFairLock("fair"))
		acquire(t, client.NewRWLock("rw").Reader(), rlock.Lease(minute))
		acquire(t, client.NewRWLock("rw").Reader(), rlock.Lease(minute))
		acquire(t, client.NewRWLock("{tag}written").Writer(), rlock.Lease(minute))
		wait(t, rival, rival.NewRWLock("{tag}written").Writer())
		permits := acquire(t, client.NewSemaphore("permits", rlock.Total(3)), rlock.Permits(2), rlock.Lease(minute))
		acquire(t, client.NewSemaphore("{tag}permits", rlock.Total(1)), rlock.Lease(minute))
		wait(t, rival, rival.NewSemaphore("{tag}permits"))
		acquire(t, client.NewLock("permits:timeout"), rlock.Lease(minute)) // not a key of the semaphore
		acquire(t, client.NewSemaphore("{braced}", rlock.Total(2)), rlock.Lease(minute))
		require.NoError(t, client.NewPlainSemaphore("signals", rlock.Total(1)).Acquire(ctx)) // which looks like any counter
		require.NoError(t, rdb.HSet(ctx, "java", "71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:87", 2).Err())

		var found map[string]Row
		redistest.Eventually(t, "all is in Redis", func() bool {
			found = rows(t, newCatalog(t, rdb), "")
			return len(found) == 10 && found["plain"].Identity != nil && found["fair"].Waiters == 1 && found["{tag}written"].Waiters == 1 &&
				found["{tag}permits"].Waiters == 1
		})
		for name, row := range found {
			require.Equal(t, name, row.Name)
			if name != "java" {
				require.InDelta(t, minute, row.Lease, float64(30*time.Second), name)
			}
			if row.Kind != Semaphore {
				require.True(t, strings.HasPrefix(row.Holder, row.Client+":"), name)
				require.Equal(t, name != "java", row.Client == client.ID(), name)
				require.Equal(t, name != "java", row.Identity != nil && *row.Identity == id, name)
			}
			row.Lease, row.Holder, row.Client, row.Identity = 0, "", "", nil
			found[name] = row
		}
		for _, want := range []Row{
			{Name: "plain", Kind: Lock, Holders: 1},
			{Name: "fenced", Kind: Fenced, Holders: 1, Token: fenced.Token()},
			{Name: "fair", Kind: Fair, Holders: 1, Waiters: 1, Processes: 1},
			{Name: "rw", Kind: Read, Mode: "read", Holders: 2},
			{Name: "{tag}written", Kind: Write, Mode: "write", Holders: 1, Waiters: 1, Processes: 1},
			{Name: "permits", Kind: Semaphore, Holders: 2, Free: 1},
			{Name: "{tag}permits", Kind: Semaphore, Holders: 1, Waiters: 1, Processes: 1},
			{Name: "permits:timeout", Kind: Lock, Holders: 1},
			{Name: "{braced}", Kind: Semaphore, Holders: 1, Free: 1},
			{Name: "java", Kind: Lock, Holders: 1},
		} {
			require.Equal(t, want, found[want.Name])
		}
		d, err := newCatalog(t, rdb).Show(ctx, "permits")
		require.NoError(t, err)
		require.ElementsMatch(t, permits.PermitIDs(), []string{d.HolderList[0].Holder, d.HolderList[1].Holder})
		require.InDelta(t, minute, d.HolderList[0].Lease, float64(30*time.Second))
		d, err = newCatalog(t, rdb).Show(ctx, "{tag}permits")
		require.NoError(t, err)
		require.Len(t, d.WaiterList, 1)
		require.Equal(t, rival.ID(), d.WaiterList[0].Client)
		require.WithinDuration(t, time.Now(), d.WaiterList[0].Since, time.Minute)
	})
}

// TestRowsOfAPrefix takes the prefix as it is, and the key prefix of a service from the names.
func TestRowsOfAPrefix(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		all := newClient(t, rdb)
		for _, name := range []string{"a*b:1", "a*b:2", "aXb:1", `[x]?\:1`, "x:1", "other"} {
			acquire(t, all.NewLock(name))
		}
		acquire(t, all.NewSemaphore("a*b:permits", rlock.Total(1)))
		found := func(c *Catalog, prefix string) (names []string) {
			for name := range rows(t, c, prefix) {
				names = append(names, name)
			}
			slices.Sort(names)
			return names
		}
		c := newCatalog(t, rdb)
		require.Equal(t, []string{"a*b:1", "a*b:2", "a*b:permits"}, found(c, "a*b:"))
		require.Equal(t, []string{`[x]?\:1`}, found(c, `[x]?\`))
		require.Empty(t, found(c, "none"))
		const prefix = "a*b:"
		mapped := New(rdb, newClient(t, rdb, rlock.WithKeyPrefix(prefix)), prefix)
		require.Equal(t, []string{"1", "2", "permits"}, found(mapped, ""))
		require.Equal(t, []string{"permits"}, found(mapped, "p"))
		d, err := mapped.Show(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, "1", d.Name)
		require.Equal(t, all.ID(), d.Client)
	})
}

// TestManyRows come all, also if the caller stops early, and a canceled context ends them with its error.
func TestManyRows(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	fill(t, rdb, 3000)
	c := newCatalog(t, rdb)
	require.Len(t, rows(t, c, "many:"), 3000)
	n := 0
	for range c.Find(t.Context(), Filter{}) {
		if n++; n == 10 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Find(ctx, Filter{Prefix: ""}) {
		cancel()
		last = err
	}
	require.ErrorIs(t, last, context.Canceled)
}

// fill writes that many locks, as Redisson would.
func fill(t *testing.T, rdb redis.UniversalClient, n int) {
	t.Helper()
	for first := 0; first < n; first += 1000 {
		pipe := rdb.Pipeline()
		for i := first; i < min(first+1000, n); i++ {
			key := fmt.Sprint("many:", i)
			pipe.HSet(t.Context(), key, fmt.Sprintf("71b96ce8-2746-4f0e-9d0e-0c1f0e2a3b4c:%d", i), 1)
			pipe.PExpire(t.Context(), key, time.Hour)
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
}

func TestShowNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	c := newCatalog(t, rdb)
	for _, name := range []string{"none", "text"} {
		require.NoError(t, rdb.Set(t.Context(), "text", "x", 0).Err())
		d, err := c.Show(t.Context(), name)
		require.NoError(t, err)
		require.Nil(t, d)
		freed, err := c.Free(t.Context(), name, "a:1")
		require.NoError(t, err)
		require.False(t, freed)
	}
	_, err := c.Show(t.Context(), "")
	require.ErrorIs(t, err, rlock.ErrInvalidName)
}

// TestFree frees what was shown, of each kind, and nothing else.
func TestFree(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, c := newClient(t, rdb), newCatalog(t, rdb)
		for kind, of := range map[string]handles.Any{
			"lock": client.NewLock("lock"), "fair": client.NewFairLock("fair"), "read": client.NewRWLock("read").Reader(),
			"write": client.NewRWLock("write").Writer(), "semaphore": client.NewSemaphore("semaphore", rlock.Total(1)),
		} {
			gone := acquire(t, of)
			shown, err := c.Show(t.Context(), kind)
			require.NoError(t, err)
			require.Equal(t, 1, shown.Holders, kind)
			require.NoError(t, gone.Unlock(t.Context()))
			stays := acquire(t, of)
			freed, err := c.Free(t.Context(), kind, shown.Holder)
			require.NoError(t, err, kind)
			require.False(t, freed, kind)
			require.NoError(t, stays.Extend(t.Context(), minute), kind)
			if kind == "fair" {
				wait(t, client, of)
			}
			shown, err = c.Show(t.Context(), kind)
			require.NoError(t, err)
			freed, err = c.Free(t.Context(), kind, shown.Holder)
			require.NoError(t, err, kind)
			require.True(t, freed, kind)
			require.ErrorIs(t, stays.Extend(t.Context(), minute), rlock.ErrLost, kind)
		}
	})
}

// TestCounters checks that a latch and a plain semaphore are shown as counters, with those that wait, and never as locks that nobody holds.
func TestCounters(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client, c := newClient(t, rdb), newCatalog(t, rdb)
		latch := client.NewCountDownLatch("latch")
		_, err := latch.TrySetCount(t.Context(), 2)
		require.NoError(t, err)
		require.NoError(t, client.NewPlainSemaphore("signals", rlock.Total(3)).Acquire(t.Context()))
		d, err := c.Show(t.Context(), "latch")
		require.NoError(t, err)
		require.Equal(t, Row{Name: "latch", Kind: Counter, Free: 2}, d.Row)
		d, err = c.Show(t.Context(), "signals")
		require.NoError(t, err)
		require.Equal(t, Row{Name: "signals", Kind: Counter, Free: 2}, d.Row)
		waited := make(chan error, 1)
		go func() { waited <- latch.Await(t.Context()) }()
		redistest.Eventually(t, "somebody waits", func() bool {
			d, err := c.Show(t.Context(), "latch")
			return err == nil && d.Waiters == 1 && d.Processes == 1
		})
		for range 2 {
			_, err = latch.CountDown(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, <-waited)
		d, err = c.Show(t.Context(), "latch")
		require.NoError(t, err)
		require.Nil(t, d, "it is open")
	})
}

// TestFilters checks the filters by kind, by holder and by the number of waiters.
func TestFilters(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	client, rival := newClient(t, rdb, rlock.WithIdentity(rlock.Identity{Service: "Shop", Host: "a", PID: 7})), newClient(t, rdb)
	acquire(t, client.NewLock("one"))
	acquire(t, client.NewFairLock("two"))
	wait(t, rival, rival.NewFairLock("two"))
	acquire(t, rival.NewLock("three"))
	for want, f := range map[string]Filter{
		"one three": {Kind: Lock}, "two": {Waiting: 1}, "one two": {Holder: "shop@a (PID 7)"}, "three": {Holder: rival.ID()}, "": {Text: "one", Kind: Fair},
	} {
		var names []string
		redistest.Eventually(t, want, func() bool {
			names = nil
			for row, err := range newCatalog(t, rdb).Find(t.Context(), f) {
				require.NoError(t, err)
				names = append(names, row.Name)
			}
			slices.Sort(names)
			order := map[string]int{"one": 0, "two": 1, "three": 2}
			slices.SortFunc(names, func(a, b string) int { return order[a] - order[b] })
			return strings.Join(names, " ") == want
		})
	}
}
