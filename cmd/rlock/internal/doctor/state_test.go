package doctor

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// limited opens a client of a user with limited rights.
func limited(t *testing.T, server *redistest.Server, rules ...any) *redis.Client {
	t.Helper()
	args := append([]any{"acl", "setuser", "limited", "reset", "on", ">secret", "-@all"}, rules...)
	require.NoError(t, server.Client(t).Do(t.Context(), args...).Err())
	return redistest.Open(t, &redis.Options{Addr: server.Addr, Username: "limited", Password: "secret"})
}

func TestEviction(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	admin := server.Client(t)
	r, of := examine(t, admin, Options{}, "eviction")
	requireOnly(t, of, Problem, "allkeys-lru")
	require.Equal(t, 14, r.ExitCode())

	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl").Err())
	_, of = examine(t, admin, Options{}, "eviction")
	requireOnly(t, of, Problem, "volatile-ttl")

	_, of = examine(t, limited(t, server, "+ping", "+info"), Options{}, "eviction")
	requireOnly(t, of, Problem, "volatile-ttl")

	r, of = examine(t, limited(t, server, "+ping"), Options{}, "eviction")
	requireOnly(t, of, Unknown, "NOPERM")
	require.Equal(t, 13, r.ExitCode(), "the rights to lock are missing")

	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
	_, of = examine(t, admin, Options{}, "eviction")
	requireOnly(t, of, Note, "nothing is evicted yet")
}

func TestMemory(t *testing.T) {
	t.Parallel()
	admin := redistest.Start(t).Client(t)
	require.NoError(t, admin.Do(t.Context(), "debug", "populate", 100_000, "k").Err())
	info := fields(admin.Info(t.Context(), "memory").Val())
	for percent, level := range map[int64]Level{50: Problem, 105: Warning, 200: OK} {
		limit := parse(info["used_memory"]) / 100 * percent
		require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", strconv.FormatInt(limit, 10)).Err())
		_, of := examine(t, admin, Options{}, "memory")
		requireOnly(t, of, level, "")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info  map[string]string
		level Level
		text  string
	}{
		{map[string]string{"redis_version": "7.0.15"}, "", ""},
		{map[string]string{"redis_version": "8.10.1"}, "", ""},
		{map[string]string{"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "", ""},
		{map[string]string{"redis_version": "6.2.14"}, Note, "no sharded pub/sub"},
		{map[string]string{"redis_version": "6.0.16"}, Problem, "older than 6.2"},
		{map[string]string{"redis_version": "5.0.3"}, Problem, "older than 6.2"},
		{map[string]string{"redis_version": "7.4.0", "dragonfly_version": "df-1"}, Warning, "Dragonfly"},
		{nil, Unknown, "does not say"},
	} {
		all := version(t.Context(), &deployment{nodes: []*node{{addr: "a:1", info: c.info}}})
		if c.level == "" {
			require.Empty(t, all)
		} else {
			requireOnly(t, all, c.level, c.text)
		}
	}
}

// refresh waits until the server has read its clock again, which it does a few times a second.
func refresh(t *testing.T, rdb *redis.Client) {
	t.Helper()
	time.Sleep(250 * time.Millisecond)
	require.NoError(t, rdb.Time(t.Context()).Err())
}

func TestReach(t *testing.T) {
	t.Parallel()
	down := &deployment{silent: []*node{
		{addr: "a:1", master: true, err: errors.New("connection refused")}, {addr: "b:1", err: errors.New("connection refused")},
	}}
	all := reach(t.Context(), down)
	require.Len(t, all, 2)
	require.Equal(t, "a:1", requireOnly(t, all[:1], Problem, "(connection refused)").Node)
	require.Equal(t, "b:1", requireOnly(t, all[1:], Warning, "(connection refused)").Node)
}

func TestClock(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	admin := server.Client(t)
	for _, c := range []struct {
		ahead time.Duration
		level Level
		text  string
	}{{5 * time.Second, Note, "5s ahead of"}, {time.Minute, Warning, "1m0s ahead of"}, {-12 * time.Second, Warning, "12s behind"}} {
		clock.Set(c.ahead)
		refresh(t, admin)
		_, of := examine(t, admin, Options{}, "clock")
		requireOnly(t, of, c.level, c.text)
	}
	_, of := examine(t, admin, Options{Lease: time.Minute}, "clock")
	requireOnly(t, of, Note, "12s behind")
}

func TestClocksOfServers(t *testing.T) {
	t.Parallel()
	server, clock := redistest.StartWithClock(t)
	other := redistest.Start(t)
	d := &deployment{opts: Options{Lease: defaultLease}, nodes: []*node{
		{addr: other.Addr, rdb: other.Client(t)}, {addr: server.Addr, rdb: server.Client(t)},
	}}
	require.Empty(t, clocks(t.Context(), d))
	clock.Set(4 * time.Second)
	refresh(t, server.Client(t))
	all := clocks(t.Context(), d)
	require.Len(t, all, 2, "its own, and that of both")
	requireOnly(t, all[1:], Warning, "The clock of "+server.Addr+" is 4s ahead")
	clock.Set(-20 * time.Second)
	refresh(t, server.Client(t))
	all = clocks(t.Context(), d)
	requireOnly(t, all[1:], Problem, "The clock of "+other.Addr+" is 20s ahead")
}

// TestASlowClockIsNoWrongClock has a network that makes the reading uncertain.
func TestASlowClockIsNoWrongClock(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	n := &node{addr: proxy.Addr, rdb: redistest.Open(t, &redis.Options{Addr: proxy.Addr})}
	require.NoError(t, n.rdb.Ping(t.Context()).Err())
	proxy.Delay(300 * time.Millisecond)
	o, err := n.read(t.Context())
	require.NoError(t, err)
	require.Greater(t, o.doubt, 140*time.Millisecond)
	require.Less(t, o.ahead.Abs(), o.doubt+10*time.Millisecond)
}
