// Package replicas decides for how many replicas an acquisition waits, if it waits for all that are connected.
package replicas

import (
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

const (
	// asksEvery is how often a master that has replicas is asked for their number, while there are acquisitions. A replica that connects
	// meanwhile is up to date, or nearly so. One that leaves is missed at once: see [Set.Judge].
	asksEvery = time.Second
	// failover is for how long a replica that has left may have become the master.
	failover = 10 * time.Second
)

// Set knows the masters of one client. The zero value knows none. It is safe for concurrent use.
type Set struct {
	mu      sync.Mutex // a leaf
	masters map[string]*master
	falls   int // how often a replica was found to have left
}

// Plan is for how many replicas a call to a master waits, and whether the master is to say how many there are, too.
type Plan struct {
	Wait int
	Asks bool

	falls int // before
}

// master is a server that has served an acquisition.
type master struct {
	Info

	connected int           // how many replicas it has
	answering int           // how many of them acknowledge in time: others hang
	asked     clock.Instant // when it has said so
	asking    clock.Instant // when it was asked last
	doubtful  bool          // there was trouble: it may have failed over
}

// Plan returns the plan for a call to a master. A master that had no replicas says so each time: no acknowledgement would ever be missed.
func (s *Set) Plan(addr string, now clock.Instant) Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.masters[addr]
	switch {
	case m == nil, m.doubtful, m.answering == 0:
		return Plan{0, true, s.falls}
	case now.Sub(m.asking) >= asksEvery:
		m.asking = now // the next call need not ask, too
		return Plan{m.answering, true, s.falls}
	}
	return Plan{m.answering, false, s.falls}
}

// Doubt notes that a master did not answer, or was not one.
func (s *Set) Doubt(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.masters[addr]; m != nil {
		m.doubtful = true
	}
}

// Hear takes in what a master said behind a call that it has refused: that it has more replicas. Whether some have left is for a call to say
// that waits for them.
func (s *Set) Hear(addr string, said *Info, now clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.masters[addr]; m != nil && m.ID == said.ID && len(said.Acked) >= m.connected && !m.saidMore(said, now) {
		m.learn(said, now)
	}
}

// Verdict is what comes of a call that a master has executed.
type Verdict uint8

// The verdicts.
const (
	Enough  Verdict = iota // all that have to acknowledge it did
	Again                  // it is to be sent again: there are more replicas than it has waited for
	Unknown                // the master is to say how many replicas there are
	TooFew                 // nobody may rely on it
)

// News is what has changed about the replicas of a master that hang.
type News uint8

// The news.
const (
	Nothing News = iota
	Hang         // some do not acknowledge any more, and nobody waits for them now
	Back         // they do again
)

// Judge returns what comes of a call, given how many replicas have acknowledged it. said is what the master said
// behind it; nil means that it was not asked. apart means that it was asked on a connection of its own, so that another server may have said it.
func (s *Set) Judge(addr string, p Plan, acked int, said *Info, apart bool, now clock.Instant) (v Verdict, n News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.masters[addr]
	switch {
	case said == nil && p.Wait > 0 && acked >= p.Wait:
		return Enough, Nothing
	case said == nil:
		return Unknown, Nothing
	case !said.Master || apart && (m == nil || m.ID != said.ID):
		delete(s.masters, addr)
		return TooFew, Nothing
	case m == nil || m.ID != said.ID: // it is the first call, or the first one after a failover
		if s.masters == nil {
			s.masters = make(map[string]*master)
		}
		m = &master{connected: len(said.Acked), answering: len(said.Acked)}
		s.masters[addr] = m
	}
	late := m.saidMore(said, now)
	left := !late && len(said.Acked) < m.connected && now.Sub(m.asked) < failover
	since := late && acked < len(said.Acked) && m.connected < len(said.Acked) // one has left that has not acknowledged it
	if left {
		s.falls++
	}
	if !late {
		n = m.learn(said, now)
	}
	switch {
	// If a replica that has left is the master now, what it had not acknowledged may be lost. Another call may have found that it has left.
	case left && p.Wait == 0, since, s.falls != p.falls && acked < p.Wait:
		return TooFew, n
	case acked >= m.answering:
		return Enough, n
	case p.Wait < m.answering:
		return Again, n
	case acked == 0, late: // whether a replica had left by then is not known any more
		return TooFew, n
	}
	m.answering = acked
	return Enough, Hang
}

// saidMore reports whether a master has said something later already: replies to calls of several connections come in any order.
func (m *master) saidMore(said *Info, now clock.Instant) bool {
	return said.Offset < m.Offset && now.Sub(m.asked) < failover
}

// learn takes in what a master says.
func (m *master) learn(said *Info, now clock.Instant) (n News) {
	hanging := m.connected - m.answering
	if hanging > 0 {
		hanging = min(hanging, len(said.Acked)-said.Have(m.Offset)) // of the last time, a second ago or more
		if hanging == 0 {
			n = Back
		}
	}
	least := min(len(said.Acked), 1) // while one is online, nobody relies on what none has acknowledged
	m.Info, m.connected, m.answering = *said, len(said.Acked), max(len(said.Acked)-hanging, least)
	m.asked, m.asking, m.doubtful = now, now, false
	return n
}
