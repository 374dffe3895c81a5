package differential

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// pairOfServers are a master and its replica, whose clocks stand.
type pairOfServers struct {
	t               *testing.T
	now             time.Time
	clocks          []*redistest.Clock
	master, replica *conn
}

func startPair(t *testing.T) *pairOfServers {
	t.Helper()
	first, clock := redistest.StartWithClock(t)
	second, other := redistest.StartWithClock(t)
	p := &pairOfServers{t: t, now: began, clocks: []*redistest.Clock{clock, other}, master: dial(t, first.Addr), replica: dial(t, second.Addr)}
	p.replica.doAll([][]string{{"REPLICAOF", "127.0.0.1", strconv.Itoa(first.Port)}})
	redistest.Eventually(t, "the replica is in sync", func() bool {
		p.sleep(time.Second) // a master that stands still in time begins no transfer
		info, _ := p.replica.doAll([][]string{{"INFO", "replication"}})[0].(string)
		return strings.Contains(info, "master_link_status:up")
	})
	return p
}

func (p *pairOfServers) sleep(d time.Duration) {
	p.now = p.now.Add(d)
	for _, clock := range p.clocks {
		clock.Stop(p.now)
	}
}

// TestReplicas compares what a replica has after commands of its master, when some time has passed, and what it replies.
func TestReplicas(t *testing.T) {
	p := startPair(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	for round := range uint64(max(1, *commands/5000)) {
		require.Empty(t, p.round(newGenerator(seed, round), nil), "seed %d, round %d", seed, round)
	}
	late := func(r *simredis.Replica) { r.Apply(r.Behind() - 1) }
	for round := uint64(0); p.round(newGenerator(1, round), late) == ""; round++ {
		require.Less(t, round, uint64(20), "that the last write is not there is found")
	}
}

// round returns what differs after some commands, or an empty text. If fault is set, it does something to the simulated replica.
func (p *pairOfServers) round(g *generator, fault func(r *simredis.Replica)) string {
	p.t.Helper()
	s := simredis.New(func() time.Time { return p.now })
	replica := s.AddReplica("127.0.0.1", 2, "127.0.0.1", 1)
	p.master.doAll([][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}})
	for _, script := range g.scripts {
		s.Do("SCRIPT", "LOAD", script.source)
		p.master.doAll([][]string{{"SCRIPT", "LOAD", script.source}})
	}
	for range 150 {
		p.sleep(g.pause())
		args := g.plausible()
		if g.one(2) {
			args = g.raw()
		}
		if name := strings.ToUpper(args[0]); name == "WAIT" || slices.Contains(args, "WAIT") || strings.HasPrefix(name, "SCRIPT") {
			continue
		}
		p.master.doAll([][]string{args})
		s.Do(args...)
	}
	require.Equal(p.t, []any{int64(1)}, p.master.doAll([][]string{{"WAIT", "1", "60000"}}), "the real one has all")
	p.sleep(g.pause())
	if fault == nil {
		fault = func(r *simredis.Replica) { r.Apply(r.Behind()) }
	}
	fault(replica)
	var both [2][]any
	for i, do := range []func([][]string) []any{doAll(replica.Server), p.replica.doAll} {
		both[i] = append([]any{contents(do)}, do([][]string{
			{"SET", "k", "v"},
			{"GET", "raw:a"},
			{"EVAL", "return redis.call('SET', 'k', 'v')", "0"},
			{"EVAL", "return redis.pcall('GET', 'k')", "0"},
			{"WAIT", "1", "1"},
		})...)
	}
	for i, text := range []string{"its keys", "SET", "GET", "a script that writes", "a script that reads", "WAIT"} {
		if !reflect.DeepEqual(both[0][i], both[1][i]) {
			return fmt.Sprint(text, "\nsimulated ", show(both[0][i]), "\nreal      ", show(both[1][i]))
		}
	}
	return ""
}
