package figures

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestFigureReplicaAcks compares pairs of Lock and Unlock with and without WithReplicaAcks: their commands, and how many there are in a second.
func TestFigureReplicaAcks(t *testing.T) {
	figure(t)
	alone, master := redistest.Start(t), redistest.Start(t)
	redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
	cluster := redistest.StartCluster(t)
	testkit.Eventually(t, "the replica has caught up", func() bool { return testkit.Replicated(t, master.Client(t), "any", 1) })
	for _, c := range []struct {
		what  string
		rdb   redis.UniversalClient
		nodes []*redistest.Server
	}{
		{"no replica", alone.Client(t), []*redistest.Server{alone}},
		{"a replica", master.Client(t), []*redistest.Server{master}},
		{"a cluster", cluster.Client(t), cluster.Nodes},
	} {
		modes := []rlock.Replicas{0, 1, rlock.AllReplicas}
		if c.what == "no replica" {
			modes = []rlock.Replicas{0, rlock.AllReplicas}
		}
		for _, callers := range []int{1, 8} {
			ratios, commands := make(map[rlock.Replicas][]float64), make(map[rlock.Replicas]string)
			for range 6 {
				var plain float64
				for _, n := range modes { // side by side, because other processes disturb both
					client := testkit.NewClient(t, c.rdb, rlock.WithReplicaAcks(n, time.Second))
					before := sum(t, c.nodes)
					pairs := perSecond(t, callers, func(int) func() error {
						lock := client.NewLock(testkit.NewName())
						return func() error {
							if err := lock.Lock(t.Context()); err != nil {
								return err
							}
							return lock.Unlock(t.Context())
						}
					})
					after := sum(t, c.nodes)
					acquired := float64(after["evalsha"]-before["evalsha"]) / 2
					commands[n] = fmt.Sprintf("2 EVALSHA, %.2f WAIT, %.3f INFO", float64(after["wait"]-before["wait"])/acquired, float64(after["info"]-before["info"])/acquired)
					if n == 0 {
						plain = pairs
					}
					ratios[n] = append(ratios[n], plain/pairs)
					require.NoError(t, client.Close())
				}
			}
			for _, n := range modes[1:] {
				slices.Sort(ratios[n])
				t.Logf("%s, %d callers, acks %d: %.2f times the time of none (%.2f to %.2f); %s", c.what, callers, n,
					(ratios[n][2]+ratios[n][3])/2, ratios[n][0], ratios[n][5], commands[n])
			}
		}
	}
}

// sum returns how often each command ran on all nodes.
func sum(t *testing.T, nodes []*redistest.Server) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, node := range nodes {
		for command, n := range testkit.Stats(t, node.Client(t)) {
			all[command] += n
		}
	}
	return all
}
