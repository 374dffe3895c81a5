package doctor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	admin := redistest.Start(t).Client(t)
	locks, err := rlock.New(admin, rlock.WithKeyPrefix("app:"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	for i := range 30 {
		lock := locks.NewLock(fmt.Sprintf("order:%d", i), rlock.Fenced())
		require.NoError(t, lock.Do(t.Context(), nothing))
	}
	few := usual
	few.tokens = 30
	_, of := examine(t, admin, Options{limits: few}, "tokens")
	requireOnly(t, of, Warning, "about 30 fencing tokens (30 were seen)")
	_, of = examine(t, admin, Options{limits: few, Prefix: "app:"}, "tokens")
	requireOnly(t, of, Warning, "")
	_, of = examine(t, admin, Options{limits: few, Prefix: "other:"}, "tokens")
	requireOnly(t, of, OK, "")
	_, of = examine(t, admin, Options{}, "tokens")
	requireOnly(t, of, OK, "")

	require.NoError(t, admin.Do(t.Context(), "debug", "populate", 10_000, "k").Err())
	few.calls = 5
	_, of = examine(t, admin, Options{limits: few, Prefix: "app:"}, "tokens")
	require.Len(t, of, 1)
	require.Contains(t, []Level{Note, Warning}, of[0].Level, "it looked at half of the keys, and estimates the rest")
}

func TestTokensMayNotBeCounted(t *testing.T) {
	t.Parallel()
	_, of := examine(t, limited(t, redistest.Start(t), "+ping", "+info"), Options{}, "tokens")
	requireOnly(t, of, Unknown, "NOPERM")
}

// client is the id of a client.
const client = "5b0a1c9e-7c0f-4f5e-9f0c-3f9b1f0d2a77"

func TestLeases(t *testing.T) {
	t.Parallel()
	admin := redistest.Start(t).Client(t)
	locks, err := rlock.New(admin, rlock.WithKeyPrefix("app:"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	require.NoError(t, locks.NewLock("held").Lock(t.Context()))
	require.NoError(t, locks.NewRWLock("read").Reader().Lock(t.Context()))
	require.NoError(t, admin.HSet(t.Context(), "app:data", "mode", "dark", "name", "x").Err())
	_, of := examine(t, admin, Options{}, "leases")
	requireOnly(t, of, OK, "")

	require.NoError(t, admin.HSet(t.Context(), "app:lost", client+":12", 1).Err())
	require.NoError(t, admin.HSet(t.Context(), "app:written", client+":12:write", 1, "mode", "write").Err())
	_, of = examine(t, admin, Options{}, "leases")
	requireOnly(t, of, Warning, `2 locks have no lease, such as "app:lost"`)
	_, of = examine(t, admin, Options{Prefix: "other:"}, "leases")
	requireOnly(t, of, OK, "")
	_, of = examine(t, admin, Options{Prefix: "app:[lw]"}, "leases")
	requireOnly(t, of, OK, "")
}

func TestPersistence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	r, err := Examine(t.Context(), admin, Options{})
	require.NoError(t, err)
	for _, f := range r.Findings {
		require.NotEqual(t, "persistence", f.Check, "it matters to red locks alone")
	}
	_, of := examine(t, admin, Options{RedLock: true}, "persistence")
	requireOnly(t, of, Warning, "appendonly no")
	require.NoError(t, admin.ConfigSet(t.Context(), "appendonly", "yes").Err())
	_, of = examine(t, admin, Options{RedLock: true}, "persistence")
	requireOnly(t, of, Warning, "appendfsync everysec")
	require.NoError(t, admin.ConfigSet(t.Context(), "appendfsync", "always").Err())
	_, of = examine(t, admin, Options{RedLock: true}, "persistence")
	requireOnly(t, of, OK, "")
	_, of = examine(t, limited(t, server, "+ping", "+info"), Options{RedLock: true}, "persistence")
	requireOnly(t, of, Unknown, "")
}

// TestASearchEnds checks the bound on time.
func TestASearchEnds(t *testing.T) {
	t.Parallel()
	admin := redistest.Start(t).Client(t)
	require.NoError(t, admin.Do(t.Context(), "debug", "populate", 5000, "k").Err())
	n := &node{rdb: admin, info: fields(admin.Info(t.Context()).Val())}
	seen := 0
	w, err := n.scan(t.Context(), limits{calls: 5, count: 1000, within: time.Nanosecond}, "k*", "", func(keys []string) error {
		seen += len(keys)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, walk{looked: 1000, all: 5000, cut: true}, w)
	require.Less(t, seen, 5000)
}
