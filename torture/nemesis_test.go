package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestNemesesStrike runs each nemesis of a single server, and checks that users of Redis see the errors that it should
// cause.
func TestNemesesStrike(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	a := newArena(t, Scene{Topology: topologySingle})
	site, err := a.site(formPlain, 0).start(func(message) {})
	require.NoError(t, err)
	t.Cleanup(func() { _ = site.close() })
	a.own = site
	crowd(t, a.nodes[0].Proxy.Addr)
	for _, c := range []struct {
		name string
		sign string // a text that an error of a user must contain
	}{
		{closed, "EOF"},
		{dropped, "EOF"},
		{swallowed, "i/o timeout"},
		{blackHoled, "i/o timeout"},
		{flushed, "NOSCRIPT"},
		{killedClients, "EOF"},
		{busied, "BUSY"},
		{outOfMemory, "OOM"},
		{noRights, "NOPERM"},
		{busyPool, "deadline exceeded"},
		{noReplicas, "NOREPLICAS"},
	} {
		met := func(seed uint64) bool {
			user := redistest.Open(t, &redis.Options{
				Addr: a.nodes[0].Proxy.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 30 * time.Millisecond,
			})
			sha := user.ScriptLoad(t.Context(), "return 1").Val()
			done := make(chan struct{})
			go func() {
				defer close(done)
				nemeses[c.name](a, rand.New(rand.NewPCG(seed, 0)), &Event{From: now()})
			}()
			found := false
			for working := true; working; {
				found = found || strings.Contains(everything(t.Context(), user, site.rdb, sha), c.sign)
				select {
				case <-done:
					working = false
				case <-time.After(time.Millisecond):
				}
			}
			return found
		}
		// With some seeds, a nemesis may be too short to be seen.
		require.True(t, met(1) || met(2) || met(3) || met(4), "%s: no error contained %q", c.name, c.sign)
	}
	maxClients(a, rand.New(rand.NewPCG(1, 0)), &Event{From: now()})
	require.NotContains(t, a.admins[a.nodes[0]].Info(t.Context(), "stats").Val(), "rejected_connections:0\r")
}

// crowd keeps many connections in use.
func crowd(t *testing.T, addr string) {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	for range 20 {
		rdb := redistest.Open(t, &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
		wg.Go(func() {
			for t.Context().Err() == nil {
				_ = rdb.Ping(t.Context()).Err()
				pause(t.Context(), 20*time.Millisecond)
			}
		})
	}
}

// everything runs typical commands on the user's connections and on those of a site. It returns all errors in one text.
func everything(ctx context.Context, user *redis.Client, site redis.UniversalClient, sha string) string {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	var all strings.Builder
	for _, err := range []error{
		user.EvalSha(ctx, sha, nil).Err(), user.Set(ctx, "some", "thing", 0).Err(), user.Publish(ctx, "some", "thing").Err(),
		site.Set(ctx, "some", "thing", 0).Err(),
	} {
		if err != nil {
			all.WriteString(err.Error())
		}
	}
	return all.String()
}

// TestRestoreForgetsWrites checks that a restore forgets what was written since the nemesis began, and nothing else.
func TestRestoreForgetsWrites(t *testing.T) {
	a := newArena(t, Scene{Topology: topologySingle})
	random := rand.New(rand.NewPCG(1, 1))
	_, admin := a.master(random)
	require.NoError(t, admin.Set(t.Context(), "before", "kept", 0).Err())
	over := make(chan struct{})
	go func() {
		defer close(over)
		nemeses[restored](a, random, &Event{From: now()})
	}()
	for written, going := int64(0), true; going; {
		if admin.Incr(t.Context(), "count").Err() == nil {
			written++
		}
		select {
		case <-over:
			going = false
			require.EqualValues(t, 1, admin.Exists(t.Context(), "before").Val())
			count, err := admin.Get(t.Context(), "count").Int64()
			require.True(t, err == nil || errors.Is(err, redis.Nil))
			require.Less(t, count, written)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestLossyFailoverLosesWrites checks that a lossy failover loses the writes that the replicas have not received.
func TestLossyFailoverLosesWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	a := newArena(t, Scene{Topology: topologySentinel})
	old, admin := a.master(rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, admin.Set(t.Context(), "before", "kept", 0).Err())
	require.EqualValues(t, 2, admin.Wait(t.Context(), 2, 5*time.Second).Val())
	wrote := make(chan error, 1)
	go func() {
		pause(t.Context(), 1300*time.Millisecond) // by then the nemesis has cut the replicas off
		wrote <- admin.Set(t.Context(), "after", "lost", 0).Err()
	}()
	nemeses[lossy](a, rand.New(rand.NewPCG(1, 1)), &Event{From: now()})
	require.NoError(t, <-wrote)
	master, admin := a.master(rand.New(rand.NewPCG(1, 1)))
	require.NotEqual(t, old, master)
	require.EqualValues(t, 1, admin.Exists(t.Context(), "before").Val())
	require.Zero(t, admin.Exists(t.Context(), "after").Val())
}
