package scene

import (
	"math/rand/v2"
	"slices"
	"time"
)

// The nemeses. Those that stop something do so for less than the first term of a lease that the line grants.
const (
	nemesisBreak    = "break"    // a process's subscription connections are reset
	nemesisDeaf     = "deaf"     // they are cut without a word, and the server counts the subscribers for a while
	nemesisCut      = "cut"      // nothing passes between a process and the servers
	nemesisClog     = "clog"     // some connections of a process hang in one direction
	nemesisHang     = "hang"     // a server answers nothing
	nemesisFlush    = "flush"    // a server forgets all scripts
	nemesisRestart  = "restart"  // a server stops, and starts again with its data
	nemesisLoading  = "loading"  // a server loads its data: it refuses commands
	nemesisFull     = "full"     // a server has no memory left
	nemesisBusy     = "busy"     // a server runs a script of somebody else for long: it refuses commands, also those to subscribe and to unsubscribe
	nemesisKill     = "kill"     // a process ends without a word, and another one starts
	nemesisWaiter   = "waiter"   // the same for a process that holds nothing
	nemesisShutdown = "shutdown" // a process shuts its client down, and another one starts
	nemesisStop     = "stop"     // a process is stopped, and continues later
	nemesisClose    = "close"    // a process closes its client, whatever it holds, and another one starts

	// These are for servers that belong together.
	nemesisLag    = "lag"    // the replicas get nothing
	nemesisSwitch = "switch" // a master hands over to a replica in good order
	nemesisSlot   = "slot"   // a slot of a lock moves to another master

	// The others make a scene unsafe.
	nemesisAmnesia  = "amnesia"  // a server starts again without data
	nemesisFailover = "failover" // a server forgets its last writes
	nemesisRestore  = "restore"  // a server starts again with an old snapshot
	nemesisClock    = "clock"    // a server's clock steps
	nemesisFlushAll = "flushall" // somebody deletes all keys
	nemesisDelete   = "delete"   // somebody deletes the key of a lock
	nemesisForce    = "force"    // a process unlocks a lock by force
)

var (
	safeNemeses = []string{
		nemesisBreak, nemesisDeaf, nemesisCut, nemesisClog, nemesisHang, nemesisFlush, nemesisRestart, nemesisLoading, nemesisFull,
		nemesisWaiter, nemesisShutdown, nemesisKill, nemesisClose, nemesisStop,
	}
	departures    = []string{nemesisWaiter, nemesisShutdown, nemesisKill, nemesisClose} // of a process, of which the others hear nothing
	groupNemeses  = []string{nemesisLag, nemesisSwitch, nemesisSlot}
	unsafeNemeses = []string{nemesisAmnesia, nemesisFailover, nemesisRestore, nemesisClock, nemesisFlushAll, nemesisDelete, nemesisForce}
)

// forgets reports whether a nemesis of the scene deletes the counters of tokens.
func (s *Scene) forgets() bool {
	return slices.ContainsFunc(s.Nemeses, func(n string) bool {
		return slices.Contains(unsafeNemeses, n) && n != nemesisClock && n != nemesisDelete && n != nemesisForce
	})
}

// strike lets a nemesis strike now and then.
func (r *run) strike(random *rand.Rand) {
	if len(r.Nemeses) == 0 {
		return
	}
	old := r.servers[0].Snapshot()
	for {
		timer := time.NewTimer(r.Pause/2 + time.Duration(random.Int64N(int64(r.Pause))))
		select {
		case <-timer.C:
		case <-r.stop.Done():
			timer.Stop()
			return
		}
		all, servers := r.alive(), r.masters()
		what, p := r.Nemeses[random.IntN(len(r.Nemeses))], all[random.IntN(len(all))]
		r.mu.Lock()
		r.res.Nemeses++
		r.mu.Unlock()
		r.trace.Note("nemesis %s, of %v", what, p)
		switch s := (strike{r, p, random, servers[random.IntN(len(servers))]}); {
		case what == nemesisRestore:
			s.restore(old)
			old = r.servers[0].Snapshot()
		case slices.Contains(unsafeNemeses, what):
			s.forget(what)
		case slices.Contains([]string{nemesisFlush, nemesisRestart, nemesisHang, nemesisLoading, nemesisFull, nemesisBusy}, what):
			s.server(what)
		case what == nemesisStop:
			s.pauses()
		case slices.Contains(groupNemeses, what):
			s.regroup(what)
		case slices.Contains([]string{nemesisBreak, nemesisDeaf, nemesisCut, nemesisClog}, what):
			s.network(what)
		default:
			s.end(what, len(all))
		}
	}
}
