package doctor

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// TestASingleServerThatMissesReplicas has a server without replicas that refuses each write for lack of them.
func TestASingleServerThatMissesReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	needsRedis7(t, admin)
	require.NoError(t, admin.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	require.ErrorContains(t, admin.Set(t.Context(), "x", "", 0).Err(), "NOREPLICAS")
	for _, rdb := range []*redis.Client{admin, limited(t, server, "~*", "&*", "+@all", "-config")} {
		r, of := examine(t, rdb, Options{}, "demotion")
		requireOnly(t, of, Problem, "The master has 0 good replicas")
		require.Equal(t, 19, r.ExitCode())
	}

	require.NoError(t, admin.ConfigSet(t.Context(), "min-replicas-max-lag", "0").Err())
	require.NoError(t, admin.Set(t.Context(), "x", "", 0).Err())
	r, err := Examine(t.Context(), admin, Options{Strict: true})
	require.NoError(t, err)
	require.Zero(t, r.ExitCode(), "this switches the refusals off")
	for _, f := range r.Findings {
		require.NotEqual(t, "demotion", f.Check)
	}
}

// TestTheClientIsOfAnotherSort asks one node of a cluster, and a Sentinel, as if it were a server by itself.
func TestTheClientIsOfAnotherSort(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	master := cluster.MasterOf(t, "x")
	for _, node := range []*redistest.Server{master, cluster.ReplicaOf(t, master)} {
		r, of := examine(t, node.Client(t), Options{}, "role")
		requireOnly(t, of, Problem, "--cluster")
		require.Equal(t, 11, r.ExitCode())
	}
	r, of := examine(t, cluster.Client(t), Options{}, "role")
	requireOnly(t, of, OK, "")
	require.Zero(t, r.ExitCode())

	sentinel := redistest.StartSentinel(t).Sentinels[0]
	r, of = examine(t, sentinel.Client(t), Options{}, "role")
	requireOnly(t, of, Problem, "--sentinel-master")
	require.Equal(t, 11, r.ExitCode())
}

// TestAnImpatientClient has replicas acknowledge for longer than its client reads.
func TestAnImpatientClient(t *testing.T) {
	t.Parallel()
	rdb := redistest.Open(t, &redis.Options{Addr: redistest.Start(t).Addr, ReadTimeout: ackTime / 2})
	_, of := examine(t, rdb, Options{Acks: rlock.AllReplicas}, "acks")
	requireOnly(t, of, Note, "No replica is connected")
	r, of := examine(t, rdb, Options{Acks: 1}, "acks")
	requireOnly(t, of, Problem, "0 replicas acknowledged")
	require.Equal(t, 18, r.ExitCode())
}

// TestAReplicaIsBehind has leases for which the seconds of INFO are coarse.
func TestAReplicaIsBehind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease time.Duration
		lag   string
		level Level
	}{
		{time.Second, "0", ""},
		{time.Second, "1", ""}, // as usual just before the next acknowledgement
		{time.Second, "2", ""}, // as seldom
		{time.Second, "3", Warning},
		{10 * time.Second, "6", ""},
		{10 * time.Second, "7", Warning},
	} {
		info := map[string]string{
			"role": "master", "connected_slaves": "1", "slave0": "ip=10.0.0.2,port=6379,state=online,offset=1,lag=" + c.lag,
		}
		all := replicas(t.Context(), &deployment{opts: Options{Lease: c.lease}, nodes: []*node{{addr: "a:1", master: true, info: info}}})
		if c.level == "" {
			require.Empty(t, all, "%v", c)
		} else {
			requireOnly(t, all, c.level, "10.0.0.2:6379 is behind")
		}
	}
}

// TestTheKindOfALock checks that the doctor calls it what the rest of rlock calls it, and knows the name of its row, too.
func TestTheKindOfALock(t *testing.T) {
	t.Parallel()
	require.Equal(t, "lock", Kinds()[0])
	require.NotContains(t, Kinds(), "plain")
	server := redistest.Start(t)
	needsRedis7(t, server.Client(t))
	rdb := limited(t, server, "+ping", "+info")
	var texts []string
	for _, kinds := range [][]string{nil, {"lock"}, {"plain"}} {
		_, of := examine(t, rdb, Options{Kinds: kinds}, "rights")
		require.Equal(t, Problem, of[0].Level)
		require.Contains(t, of[0].Text, "these fail: lock.")
		for _, f := range of {
			texts = append(texts, f.Text)
		}
	}
	require.Equal(t, texts[:len(texts)/3], texts[2*len(texts)/3:])
}

// TestAServerThatCannotSave has a server that refuses writes, and with them PING.
func TestAServerThatCannotSave(t *testing.T) {
	t.Parallel()
	gone := t.TempDir()
	admin := redistest.Start(t, "--dir", gone).Client(t)
	_, of := examine(t, admin, Options{}, "writes")
	requireOnly(t, of, OK, "")
	require.NoError(t, admin.ConfigSet(t.Context(), "save", "3600 1000000").Err())
	require.NoError(t, os.RemoveAll(gone))
	require.NoError(t, admin.BgSave(t.Context()).Err())
	redistest.Eventually(t, "the save failed", func() bool { return redis.HasErrorPrefix(admin.Ping(t.Context()).Err(), "MISCONF") })
	r, of := examine(t, admin, Options{}, "writes")
	requireOnly(t, of, Problem, "MISCONF")
	require.Equal(t, 25, r.ExitCode())
	require.Equal(t, []string{"writes"}, levels(r, Problem), "%v", r.Findings)

	require.NoError(t, admin.ConfigSet(t.Context(), "stop-writes-on-bgsave-error", "no").Err())
	_, of = examine(t, admin, Options{}, "writes")
	requireOnly(t, of, OK, "")
}

func TestWrites(t *testing.T) {
	t.Parallel()
	refused := redisError("MISCONF Errors writing to the AOF file")
	all := writes(t.Context(), &deployment{nodes: []*node{
		{addr: "a:1", master: true, pingErr: refused},
		{addr: "b:1", pingErr: refused},
		{addr: "c:1", master: true, pingErr: redisError("NOPERM no ping")},
		{addr: "d:1", master: true},
	}})
	require.Len(t, all, 3)
	require.Equal(t, "a:1", requireOnly(t, all[:1], Problem, "MISCONF").Node)
	require.Equal(t, "b:1", requireOnly(t, all[1:2], Warning, "after a failover").Node)
	require.Equal(t, "c:1", requireOnly(t, all[2:], Unknown, "NOPERM").Node)
}

// redisError is a reply of Redis.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}
