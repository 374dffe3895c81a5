package table

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

func (s *server) release(c *wire.Call) int64 {
	mode := s.mode
	freed := s.remove(text(c.Args.Holder), "released")
	s.bury(c)
	if !freed {
		return 0
	}
	if mode == "write" {
		if left := s.longest(); s.left(left) > 0 {
			s.mode, s.expiry = "read", left
		} else {
			s.clear("expired")
		}
		s.tell(c, "")
	}
	return 1 + s.tell(c, "")
}

// park gives the lock to a holder that nobody is.
func (s *server) park(c *wire.Call) int64 {
	park := text(c.Args.Holder)
	last := text(c.Args.Channel)
	if !s.remove(last, "released") {
		if s.find(park) != nil {
			return 1
		}
		return 0
	}
	s.join(park, birth{epoch: s.epoch, lastly: s.world()})
	s.kept[last] = s.world().Add(millis(c.Args.Millis))
	s.expiry, s.quiet = s.until(c.Args.Millis), true // nobody is told when it ends
	return 1
}

// longest returns when the longest read hold ends.
func (s *server) longest() (end clock.Instant) {
	for _, h := range s.holders {
		end = max(end, h.expiry)
	}
	return end
}

func (s *server) releaseRead(c *wire.Call) int64 {
	return s.leaveRead(c, func(bool) { s.tell(c, "") })
}

// leaveRead ends a read hold. It calls a function if the lock is free now, or if its lease is shorter.
func (s *server) leaveRead(c *wire.Call, then func(free bool)) int64 {
	const slack = 100 * time.Millisecond
	field := text(c.Args.Holder)
	own := clock.Instant(0)
	if h := s.find(field); h != nil {
		own = h.expiry
	}
	mode := s.mode
	freed := s.remove(field, "released")
	s.bury(c)
	if !freed {
		return 0
	}
	s.longer = s.longer || mode == "write" // its lease may have been the longest
	if mode != "write" && (own.Add(slack) >= s.expiry || len(s.holders) == 0) {
		left := s.longest()
		switch {
		case s.left(left) <= 0:
			s.clear("expired")
			then(true)
		case left.Add(slack) < s.expiry:
			s.expiry = left
			then(false)
		default:
			s.expiry = left
		}
	}
	return 1
}

func (s *server) force(c *wire.Call) int64 {
	if len(s.holders) == 0 || c.Script == wire.Read.Force && s.mode != "read" || c.Script == wire.Write.Force && s.mode != "write" {
		return 0
	}
	s.clear("forced")
	s.raiseEpoch()
	s.tell(c, "")
	return 1
}

// lose makes Redis forget the lock, its queue and its tombstones.
func (s *server) lose() {
	s.clear("lost")
	s.queue, s.line = s.queue[:0], redisLine{}
	clear(s.tombs)
	s.epoch++
	s.lost++
	s.public = ""
	s.quiet = true
}

// backup is an older state of a server, as a failover may bring back.
type backup struct {
	holders []holder
	mode    string
	expiry  clock.Instant
	queue   []seated
	line    redisLine
}

func (s *server) save() backup {
	return backup{slices.Clone(s.holders), s.mode, s.expiry, slices.Clone(s.queue), s.line.clone()}
}

func (s *server) restore(b backup) {
	s.lose()
	s.queue, s.line = slices.Clone(b.queue), b.line.clone()
	if b.expiry > s.now {
		s.holders, s.mode, s.expiry = slices.Clone(b.holders), b.mode, b.expiry
	}
}

// sound reports whether a field became a holder since Redis last lost something.
func (s *server) sound(field string) bool {
	b, ok := s.born[field]
	return ok && b.epoch == s.epoch
}

// wouldGrant reports whether an acquire of a waiter would succeed now.
func (s *server) wouldGrant(k *wire.Kind, field, other string) bool {
	switch {
	case k.Queues:
		return len(s.holders) == 0 && s.next(field)
	case len(s.holders) == 0:
		return true
	}
	return k == wire.Read && (s.mode == "read" || other != "" && s.find(other) != nil)
}

// checkTurn checks that a waiter is granted the lock in its turn. What serve does is the script's affair; this is what it must
// come to.
func (s *server) checkTurn(m inLine) {
	for _, before := range s.line.waiters {
		if before.field == m.field {
			return
		}
		if before.missed == 0 {
			panic(failure("Turns: " + m.field + " is granted before " + before.field))
		}
	}
}

// granted notes that a field was granted by a message.
func (s *server) granted(m inLine) {
	b := s.born[m.field]
	if m.epoch != s.epoch { // a failover brought back a line in which it may not be any more
		b.epoch, s.back = m.epoch, ""
	}
	s.born[m.field] = b
	s.givesTo(m.field)
}

// raiseEpoch notes an unlock by force, which leaves the line as it is.
func (s *server) raiseEpoch() {
	for i, m := range s.line.waiters {
		if m.epoch == s.epoch {
			s.line.waiters[i].epoch++
		}
	}
	for i, p := range s.queue {
		if p.epoch == s.epoch {
			s.queue[i].epoch++
		}
	}
	s.epoch++
}
