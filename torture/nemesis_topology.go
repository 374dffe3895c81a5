package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/redistest"
)

func restart(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	d := short(r)
	node.Kill()
	wait(d)
	node.Run()
	e.What = fmt.Sprintf("empty, after %v", d)
}

// restore takes a snapshot, and starts a master again with it a little later.
func restore(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	snapshot := node.Snapshot()
	wait(short(r))
	node.Restore(snapshot)
	e.What = fmt.Sprintf("of what it had %v before", now().Sub(e.From))
}

// failover performs a planned failover: the old master hands over.
func failover(a *Arena, r *rand.Rand, e *Event) {
	ctx := context.Background()
	defer a.healthy()
	if a.sentinel != nil {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: a.place.Addrs[0]})
		defer func() { _ = rdb.Close() }()
		before, _ := a.master(r)
		next := now() // when to ask: a Sentinel refuses for a while after another failover, and gives one up that gets stuck
		a.eventually("another master", func() bool {
			masters := a.masters()
			if len(masters) == 1 && masters[0] != before {
				return true
			}
			if now() > next && len(masters) == 1 { // not while the old master waits to be told
				next = now().Add(20 * time.Second)
				if err := rdb.Failover(ctx, a.place.Master).Err(); err != nil {
					next = now().Add(time.Second)
				}
			}
			return false
		})
		return
	}
	name := someName(r)
	if r.IntN(2) == 0 {
		e.What = "cluster failover"
		a.cluster.Failover(a.tb, name)
		return
	}
	e.What = "cluster failover takeover"
	replica := a.cluster.ReplicaOf(a.tb, a.cluster.MasterOf(a.tb, name))
	_ = a.admins[replica].Do(ctx, "cluster", "failover", "takeover").Err()
	a.eventually("another master", func() bool {
		return strings.Contains(a.admins[replica].Info(ctx, "replication").Val(), "role:master")
	})
}

// masterGoes kills or stops a master until another node has replaced it.
func (a *Arena) masterGoes(r *rand.Rand, e *Event, dies bool) {
	node, _ := a.master(r)
	if dies {
		node.Kill()
	} else {
		node.Pause()
	}
	a.replaced(node)
	e.What = fmt.Sprintf("replaced after %v", now().Sub(e.From))
	if dies {
		node.Run()
	} else {
		node.Resume()
	}
	a.healthy()
}

// replaced waits until the topology has all its masters without the given node.
func (a *Arena) replaced(node *redistest.Server) {
	a.tb.Helper()
	want := 1
	if a.cluster != nil {
		want = 3
	}
	a.eventually("another master", func() bool {
		masters := a.masters()
		return len(masters) == want && !slices.Contains(masters, node)
	})
}

// lossyFailover kills a master that no longer reaches its replicas, so that the new master lacks its latest writes.
func lossyFailover(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	f := node.Proxy.SwallowReply(-1, redistest.Named("replconf")) // each replica sends one a second
	wait(1500 * time.Millisecond)
	node.Kill()
	e.What = fmt.Sprintf("of the last %v", now().Sub(e.From))
	f.Release()
	a.replaced(node)
	node.Run()
	a.healthy()
}

func moveSlot(a *Arena, r *rand.Rand, e *Event) {
	name := someName(r)
	a.cluster.MoveSlot(a.tb, name)
	e.What = "of " + name
}

// someName returns the name of a lock.
func someName(r *rand.Rand) string {
	_, names := draw(r)
	return names[0]
}
