package table

import (
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// peer is another client of a plain lock that is not rlock, such as Redisson: it takes the lock when it is free, and announces
// its release. It does not know the line.
type peer struct {
	listens bool // to the channel
}

const peerField = "peer:1"

// base returns the channel on which the release of a lock with a line is announced. Empty means that the name has none.
func (w *world) base(n *name) string {
	if n.family == wire.FairFamily {
		return ""
	}
	return w.procs[0].handles[n.index][0].Names().Channel
}

// own returns the channel of the waiters of a process for a name.
func (p *process) own(n *name) string { return p.handles[n.index][0].Names().Own() }

// peers returns a name of which a peer takes part, or nil.
func (w *world) peers() *name {
	n := w.names[w.rand(2)]
	if w.crowded {
		n = w.names[0]
	}
	if !w.foreign || n.family != wire.PlainFamily {
		return nil
	}
	return n
}

func (w *world) peerListens() bool {
	n := w.peers()
	if n == nil {
		return false
	}
	n.peer.listens = !n.peer.listens
	w.logf("a peer listens to %s: %v", n.text, n.peer.listens)
	return true
}

func (w *world) peerTakes() bool {
	n := w.peers()
	if n == nil || len(n.server.holders) > 0 {
		return false
	}
	lease := oneOf(w, int64(30000), 2000)
	n.server.do("HSET", n.text, peerField, "1")
	n.server.do("PEXPIRE", n.text, strconv.FormatInt(lease, 10))
	n.server.public, n.server.longer = "", false
	n.server.joins(peerField, birth{epoch: n.server.epoch, lastly: n.server.world()})
	w.logf("Redis: a peer takes %s", n.text)
	return true
}

func (w *world) peerReleases() bool {
	n := w.peers()
	if n == nil || n.server.find(peerField) == nil {
		return false
	}
	n.server.gone[peerField] = "released"
	n.server.do("HDEL", n.text, peerField)
	w.logf("Redis: a peer releases %s", n.text)
	n.server.quiet, n.server.hushed = n.server.lined && !n.server.watching(w.base(n)), 0
	n.server.do("PUBLISH", w.base(n), "0")
	return true
}

// stepClock steps the clock of Redis, forward or back.
func (w *world) stepClock() bool {
	n := w.names[w.rand(2)]
	if n.family != wire.PlainFamily || w.rand(2) == 0 {
		return false
	}
	d := time.Duration(oneOf(w, -1, -1, 1)) * oneOf(w, 5*time.Millisecond, 50*time.Millisecond, time.Second, 5*time.Second)
	n.server.stepBy(d)
	w.logf("Redis: the clock of %s steps by %v", n.text, d)
	n.server.tick(w.now)
	return true
}

// stepBy steps the clock. A step forward shortens every lease without the knowledge of its holder, and the waiters know a later
// end of it. A step back lengthens them.
func (s *server) stepBy(d time.Duration) {
	s.skew += d
	if d < 0 {
		s.longer = true
		return
	}
	s.steps = append(s.steps, clockStep{s.world(), d})
	for _, h := range s.holders {
		b := s.born[h.field]
		b.epoch--
		s.born[h.field] = b
	}
	s.quiet = s.quiet || len(s.holders) > 0
}

// clockStep is a step forward of Redis's clock.
type clockStep struct {
	at clock.Instant // by the world's
	d  time.Duration
}

// mistaken notes that a holder is granted by a message that arrives now and takes its time for another one: Redis's clock has
// stepped forward since its process saw it, and the message is as late as that. That needs both, so the table does not guard
// against it.
func (s *server) mistaken(field string) {
	b := s.born[field]
	late := s.world().Sub(b.lastly)
	for _, step := range s.steps {
		if step.at <= b.lastly && b.lastly.Sub(step.at) < 10*time.Second && late > step.d-20*time.Millisecond-100*time.Millisecond { // of tolerance, and of drift
			b.epoch--
			s.born[field] = b
			return
		}
	}
}

// world returns the world's time.
func (s *server) world() clock.Instant { return s.now.Add(-s.skew) }

func (w *world) force() bool {
	p, n := w.someone(), w.names[w.rand(2)]
	if p.closed || len(n.server.holders) == 0 {
		return false
	}
	h := p.handles[n.index][w.rand(len(p.handles[n.index]))]
	w.bag = append(w.bag, &flight{
		call: forceCall(h, p.table.Lined(h)), proc: p, name: n, force: &forcing{p, h.Key}, until: w.now.Add(modelCommand),
	})
	return true
}

func forceCall(h *Handle, line bool) wire.Call {
	return h.Kind.ForceCall(h.Names(), line)
}

func (w *world) forceByStranger() bool {
	p, n := w.procs[0], w.names[w.rand(2)]
	if len(n.server.holders) == 0 {
		return false
	}
	c := forceCall(p.handles[n.index][0], false)
	if n.family == wire.FairFamily {
		n.server.forceByRedisson(text(c.Args.Channel))
	} else {
		n.server.run(&c)
	}
	w.logf("%s is unlocked by force", n.text)
	return true
}

// forceByRedisson is Redisson's unlock by force of a fair lock: it wakes the head, and gives the lock to nobody.
func (s *server) forceByRedisson(channel string) {
	s.clear("forced")
	s.raiseEpoch()
	s.got = s.got[:0]
	s.do("DEL", s.lock)
	if len(s.queue) > 0 {
		s.do("PUBLISH", channel+":"+s.queue[0].seat, "0")
	}
	s.tells(len(s.got) > 0)
}

// failOver makes Redis forget a name, or remember an older state of it: that of a replica, or that of an old snapshot.
func (w *world) failOver() bool {
	n := w.names[w.rand(2)]
	if w.crowded {
		n = w.names[0]
	}
	if w.rand(4) == 0 {
		n.server.lose()
		w.logf("%s is lost", n.text)
		return true
	}
	if i := w.rand(len(n.replicas) + 1); i < len(n.replicas) {
		n.server.restore(n.replicas[i])
	} else {
		n.server.restore(n.snapshot)
	}
	w.logf("%s is as before", n.text)
	return true
}

// replicate lets the replicas of each name have its state now and then, one after the other.
func (w *world) replicate() {
	const apart, long = 8, 64
	for _, n := range w.names {
		if w.step%long == apart {
			n.snapshot = n.server.save()
		}
		if w.step%apart == 0 {
			n.replicas[w.step/apart%len(n.replicas)] = n.server.save()
		}
	}
}
