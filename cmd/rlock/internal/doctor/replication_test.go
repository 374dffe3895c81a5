package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

func nothing(context.Context) error { return nil }

func TestReplicationUnderSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	rdb, master := sentinel.Client(t), sentinel.Master.Client(t)
	redistest.EventuallyWithin(t, 20*time.Second, "the replicas are online", func() bool {
		return fields(master.Info(t.Context(), "replication").Val())["connected_slaves"] == "2" &&
			(&deployment{nodes: []*node{{master: true, info: fields(master.Info(t.Context(), "replication").Val())}}}).most() == 2
	})
	set := func(name, value string) {
		require.NoError(t, master.ConfigSet(t.Context(), name, value).Err())
	}

	r, of := examine(t, rdb, Options{Acks: 2, Strict: true}, "acks")
	require.Equal(t, []string{"master"}, r.Nodes)
	requireOnly(t, of, OK, "")
	require.Equal(t, 19, r.ExitCode(), "demotion is a warning")
	_, of = examine(t, rdb, Options{}, "acks")
	requireOnly(t, of, Note, "WithReplicaAcks(AllReplicas) waits for those that are connected")
	_, of = examine(t, rdb, Options{Acks: rlock.AllReplicas}, "acks")
	requireOnly(t, of, OK, "")
	r, of = examine(t, rdb, Options{Acks: 3}, "acks")
	requireOnly(t, of, Problem, "2 replicas acknowledged")
	require.Equal(t, 18, r.ExitCode())
	_, of = examine(t, rdb, Options{}, "replicas")
	requireOnly(t, of, OK, "")

	_, of = examine(t, rdb, Options{}, "demotion")
	requireOnly(t, of, Warning, "min-replicas-to-write is not set")
	set("min-replicas-to-write", "1")
	_, of = examine(t, rdb, Options{}, "demotion")
	requireOnly(t, of, OK, "")
	_, of = examine(t, rdb, Options{Lease: 5 * time.Second}, "demotion")
	requireOnly(t, of, Warning, "min-replicas-max-lag is 10s")
	set("min-replicas-to-write", "3")
	r, of = examine(t, rdb, Options{}, "demotion")
	requireOnly(t, of, Problem, "NOREPLICAS")
	require.Equal(t, 19, r.ExitCode())
	set("min-replicas-to-write", "0")

	r, of = examine(t, sentinel.Replicas[0].Client(t), Options{}, "role")
	requireOnly(t, of, Problem, "READONLY")
	require.Equal(t, 11, r.ExitCode())

	sentinel.Replicas[0].Pause()
	t.Cleanup(sentinel.Replicas[0].Resume)
	redistest.EventuallyWithin(t, 20*time.Second, "the master notices", func() bool {
		for _, r := range (&node{info: fields(master.Info(t.Context(), "replication").Val())}).replicas() {
			if r.silent >= 3*time.Second {
				return true
			}
		}
		return false
	})
	_, of = examine(t, rdb, Options{Lease: 2 * time.Second}, "replicas")
	requireOnly(t, of, Warning, "is behind")
	_, of = examine(t, rdb, Options{Acks: rlock.AllReplicas}, "acks")
	requireOnly(t, of, Warning, "1 of the 2 replicas that are connected acknowledged")
}

func TestNobodyMayAskForReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	needsRedis7(t, server.Client(t))
	r, of := examine(t, limited(t, server, "~*", "&*", "+@all", "-info"), Options{Acks: rlock.AllReplicas}, "acks")
	requireOnly(t, of, Problem, "grant +info")
	require.Equal(t, 13, r.ExitCode(), "rights names it too")
}

func TestNobodyMayWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	needsRedis7(t, server.Client(t))
	rdb := limited(t, server, "~*", "&*", "+@all", "-wait")
	r, of := examine(t, rdb, Options{Acks: 1}, "acks")
	requireOnly(t, of, Problem, "grant +wait")
	require.Equal(t, 13, r.ExitCode(), "rights names it too")
	_, of = examine(t, rdb, Options{}, "acks")
	requireOnly(t, of, OK, "do not wait")
	_, of = examine(t, redistest.Embedded(t), Options{Acks: 1}, "acks")
	require.Equal(t, Problem, of[0].Level)
}
