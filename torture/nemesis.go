package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/redistest"
)

// nemesis causes one fault, ends it, and describes it in the event. A safe nemesis lasts less than a third of the
// watchdog's lease, so it must not cost anybody a renewed lock.
type nemesis func(a *Arena, r *rand.Rand, e *Event)

// The nemeses N1 to N11, N13, N16, N20 to N22 and N24 to N26 must never let two owners in. Of these, only N13 and N26 may cause the loss of a
// lock.
const (
	n1Close       = "N1 close"
	n2Drop        = "N2 drop replies"
	n3Swallow     = "N3 swallow replies"
	n4Delay       = "N4 delay"
	n4Hold        = "N4 hold requests"
	n4HoldPassing = "N4 hold hand-overs"
	n5BlackHole   = "N5 black hole"
	n6Split       = "N6 split"
	n7Flush       = "N7 script flush"
	n8KillAll     = "N8 client kill"
	n8KillPubSub  = "N8 client kill pubsub"
	n9Pause       = "N9 client pause"
	n10Busy       = "N10 busy"
	n11Stop       = "N11 stop server"
	n12Restart    = "N12 restart"
	n12Minority   = "N12 restart two of five"
	n13StopChild  = "N13 stop process"
	n13KillChild  = "N13 kill process"
	n14Failover   = "N14 failover"
	n14Die        = "N14 master dies"
	n14Hang       = "N14 master hangs"
	n15Lossy      = "N15 lossy failover"
	n16Move       = "N16 move slot"
	n17OOM        = "N17 out of memory"
	n17Evict      = "N17 eviction"
	n18Clock      = "N18 clock"
	n19FlushAll   = "N19 flush all"
	n19Delete     = "N19 delete"
	n19Steal      = "N19 steal"
	n19Force      = "N19 unlock by force"
	n20ACL        = "N20 rights"
	n21Starve     = "N21 busy pool"
	n22Replicas   = "N22 min-replicas"
	n22MaxClients = "N22 maxclients"
	n23Deploy     = "N23 shutdown"
	n23Hurry      = "N23 hurried shutdown"
	n24Cut        = "N24 cut subscriptions"
	n25KillWaiter = "N25 kill waiter"
	n26StopWaiter = "N26 stop waiter"
	n27Restore    = "N27 restore"
)

var nemeses = map[string]nemesis{
	n1Close:       closeAll,
	n2Drop:        replies((*redistest.Proxy).DropReply, 30),
	n3Swallow:     replies((*redistest.Proxy).SwallowReply, 8),
	n4Delay:       delay,
	n4Hold:        holdRequests,
	n4HoldPassing: holdPassing,
	n5BlackHole:   blackHole,
	n6Split:       split,
	n7Flush:       scriptFlush,
	n8KillAll:     func(a *Arena, r *rand.Rand, e *Event) { a.clientKill(r, e, "normal", 1) },
	n8KillPubSub:  func(a *Arena, r *rand.Rand, e *Event) { a.clientKill(r, e, "pubsub", 40) },
	n9Pause:       clientPause,
	n10Busy:       busy,
	n11Stop:       stopServer,
	n12Restart:    func(a *Arena, r *rand.Rand, e *Event) { a.restart(r, e, 1) },
	n12Minority:   func(a *Arena, r *rand.Rand, e *Event) { a.restart(r, e, 2) },
	n13StopChild:  stopChild,
	n13KillChild:  killChild,
	n14Failover:   failover,
	n14Die:        func(a *Arena, r *rand.Rand, e *Event) { a.masterGoes(r, e, true) },
	n14Hang:       func(a *Arena, r *rand.Rand, e *Event) { a.masterGoes(r, e, false) },
	n15Lossy:      lossy,
	n16Move:       moveSlot,
	n17OOM:        func(a *Arena, r *rand.Rand, e *Event) { a.memory(r, e, "noeviction") },
	n17Evict:      func(a *Arena, r *rand.Rand, e *Event) { a.memory(r, e, "volatile-lru") },
	n18Clock:      setClock,
	n19FlushAll:   flushAll,
	n19Delete:     func(a *Arena, r *rand.Rand, e *Event) { a.takeAway(r, e, false) },
	n19Steal:      func(a *Arena, r *rand.Rand, e *Event) { a.takeAway(r, e, true) },
	n19Force:      force,
	n20ACL:        rights,
	n21Starve:     starve,
	n22Replicas:   minReplicas,
	n22MaxClients: maxClients,
	n23Deploy:     func(a *Arena, r *rand.Rand, e *Event) { a.shutdown(r, e, time.Minute) },
	n23Hurry:      func(a *Arena, r *rand.Rand, e *Event) { a.shutdown(r, e, short(r)/2) },
	n24Cut:        cut,
	n25KillWaiter: killWaiter,
	n26StopWaiter: stopWaiter,
	n27Restore:    restore,
}

// short draws the duration of a safe nemesis.
func short(r *rand.Rand) time.Duration {
	return 50*time.Millisecond + time.Duration(r.Int64N(int64(600*time.Millisecond)))
}

func wait(d time.Duration) { pause(context.Background(), d) }

// master picks one of the nodes that take writes.
func (a *Arena) master(r *rand.Rand) (*redistest.Server, *redis.Client) {
	a.tb.Helper()
	var masters []*redistest.Server
	a.eventually("there is a master", func() bool {
		masters = a.masters()
		return len(masters) > 0
	})
	node := masters[r.IntN(len(masters))]
	return node, a.admins[node]
}

func (a *Arena) eventually(what string, condition func() bool) {
	a.tb.Helper()
	redistest.EventuallyWithin(a.tb, 60*time.Second, what, condition)
}
