package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/redistest"
)

// nemesis causes one fault, ends it, and describes it in the event.
type nemesis func(a *Arena, r *rand.Rand, e *Event)

const (
	closed           = "close connections"
	dropped          = "drop replies"
	swallowed        = "swallow replies"
	blackHoled       = "black hole"
	splitUp          = "split"
	flushed          = "script flush"
	killedClients    = "client kill"
	cutSubscriptions = "cut subscriptions"
	paused           = "client pause"
	busied           = "busy"
	stoppedServer    = "stop server"
	outOfMemory      = "out of memory"
	noRights         = "rights"
	busyPool         = "busy pool"
	noReplicas       = "min-replicas"
	tooManyClients   = "maxclients"

	stoppedProcess = "stop process"
	killedProcess  = "kill process"

	// After these, Redis may have forgotten something.
	restarted  = "restart"
	restored   = "restore"
	evicted    = "eviction"
	failedOver = "failover"
	died       = "master dies"
	hung       = "master hangs"
	lossy      = "lossy failover"
	movedSlot  = "move slot"
)

var nemeses = map[string]nemesis{
	closed:           closeAll,
	dropped:          replies((*redistest.Proxy).DropReply, 30),
	swallowed:        replies((*redistest.Proxy).SwallowReply, 8),
	blackHoled:       blackHole,
	splitUp:          split,
	flushed:          scriptFlush,
	killedClients:    func(a *Arena, r *rand.Rand, e *Event) { a.clientKill(r, e, "normal", 1) },
	cutSubscriptions: func(a *Arena, r *rand.Rand, e *Event) { a.clientKill(r, e, "pubsub", 1+r.IntN(20)) },
	paused:           clientPause,
	busied:           busy,
	stoppedServer:    stopServer,
	outOfMemory:      func(a *Arena, r *rand.Rand, e *Event) { a.memory(r, e, "noeviction") },
	noRights:         rights,
	busyPool:         starve,
	noReplicas:       minReplicas,
	tooManyClients:   maxClients,
	stoppedProcess:   stopChild,
	killedProcess:    killChild,
	restarted:        restart,
	restored:         restore,
	evicted:          func(a *Arena, r *rand.Rand, e *Event) { a.memory(r, e, "volatile-lru") },
	failedOver:       failover,
	died:             func(a *Arena, r *rand.Rand, e *Event) { a.masterGoes(r, e, true) },
	hung:             func(a *Arena, r *rand.Rand, e *Event) { a.masterGoes(r, e, false) },
	lossy:            lossyFailover,
	movedSlot:        moveSlot,
}

// longestStop is for how long a process is stopped at most: for longer than a lease.
const longestStop = watchdogTimeout * 3 / 2

// short draws how long most faults last.
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
