package table

import (
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
		if left := s.longest(); left > s.now {
			s.mode, s.expiry = "read", left
		} else {
			s.clear("expired")
		}
		s.tell(c, "")
	}
	return 1 + s.tell(c, "")
}

// longest returns when the longest read hold ends.
func (s *server) longest() (end clock.Instant) {
	for _, h := range s.holders {
		end = max(end, h.expiry)
	}
	return end
}

func (s *server) releaseRead(c *wire.Call) int64 {
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
	if mode != "write" && (own.Add(slack) >= s.expiry || len(s.holders) == 0) {
		left := s.longest()
		switch {
		case left <= s.now:
			s.clear("expired")
			s.tell(c, "")
		case left.Add(slack) < s.expiry:
			s.expiry = left
			s.tell(c, "")
		default:
			s.expiry = left
		}
	}
	return 1
}

// The times of waiters that a message did not reach, or that it reached but that do not come.
const (
	placeKept = 3 * time.Second       // until they are removed
	lockLeft  = 50 * time.Millisecond // until others may take the lock
)

// wakeFirst notifies the first waiter that can take the free lock, of those ahead of the asking one. It returns until when the
// lock is left to others, whether it found the asking one, and how many it passed over.
func (s *server) wakeFirst(c *wire.Call, asking string) (leave clock.Instant, found bool, passed int) {
	for passed < len(s.queue) {
		p := &s.queue[passed]
		over := p.deadline <= s.now
		switch {
		case p.field == asking:
			return leave, true, passed
		case p.state == awaited && over:
			s.drop(passed)
			continue
		case p.state == missed && !over:
			leave = max(leave, p.deadline.Add(lockLeft-placeKept))
			passed++
			continue
		}
		reached := s.tell(c, ":"+p.field) > 0
		switch {
		case !s.counts && over, s.counts && !reached && p.state == missed:
			s.drop(passed)
		case s.counts && !reached:
			p.state, p.deadline = missed, s.now.Add(placeKept)
			leave = max(leave, s.now.Add(lockLeft))
			passed++
		default:
			if s.counts && asking != "" && p.state != awaited {
				p.state, p.deadline = awaited, s.now.Add(placeKept)
			}
			return p.deadline, false, passed
		}
	}
	return leave, false, passed
}

// drop removes a waiter from the queue.
func (s *server) drop(i int) { s.queue = append(s.queue[:i], s.queue[i+1:]...) }

// evict removes dead waiters from the head of the queue while the lock is held, and returns the head that is left.
func (s *server) evict(c *wire.Call, asking string) (head string) {
	evicted := false
	for !s.counts && len(s.queue) > 0 && s.queue[0].field != asking && s.queue[0].deadline <= s.now {
		s.drop(0)
		evicted = true
	}
	if len(s.queue) == 0 {
		return ""
	}
	head = s.queue[0].field
	if evicted && head != asking {
		s.tell(c, ":"+head)
	}
	return head
}

func (s *server) position(field string) int {
	for i, p := range s.queue {
		if p.field == field {
			return i
		}
	}
	return -1
}

func (s *server) acquireFair(c *wire.Call) int64 {
	field := text(c.Args.Holder)
	extra, _ := c.Args.Extra.(int64)
	switch {
	case s.buried(c):
		return -1
	case s.find(field) != nil:
		s.extend(c.Args.Millis)
		return s.fairToken(c)
	}
	if len(s.holders) == 0 {
		leave, found, passed := s.wakeFirst(c, field)
		if leave <= s.now {
			if found {
				s.drop(passed)
			}
			if found && passed == 0 && len(s.queue) > 0 {
				s.tell(c, ":"+s.queue[0].field)
			}
			if c.Script == wire.FencedFair.Acquire {
				s.token++
			}
			s.create(field, "", c.Args.Millis)
			return s.fairToken(c)
		}
		if extra > 0 {
			s.enqueue(field, millis(extra))
		}
		return -1 - int64((leave.Sub(s.now)+time.Millisecond-1)/time.Millisecond)
	}
	head := s.evict(c, field)
	if extra > 0 {
		s.enqueue(field, millis(extra))
	}
	switch {
	case head == "" || head == field || extra < 0:
		return s.refused()
	case s.counts:
		return -1 - extra
	}
	return -1 - int64(s.queue[0].deadline.Sub(s.now)/time.Millisecond)
}

// fairToken returns what a fair acquire replies to the holder.
func (s *server) fairToken(c *wire.Call) int64 {
	if c.Script == wire.FencedFair.Acquire {
		return s.born[text(c.Args.Holder)].token
	}
	return 0
}

// enqueue puts a waiter into the queue, or renews its place.
func (s *server) enqueue(field string, wait time.Duration) {
	i := s.position(field)
	if i < 0 {
		i = len(s.queue)
		s.queue = append(s.queue, place{field: field})
		if epoch, ok := s.dead[field]; ok && epoch == s.epoch {
			s.back = field
		}
	}
	s.queue[i].deadline, s.queue[i].state = s.now.Add(wait), asked
}

func (s *server) releaseFair(c *wire.Call) int64 {
	field := text(c.Args.Holder)
	freed := s.remove(field, "released")
	at := -1
	if !freed {
		if at = s.position(field); at >= 0 {
			s.drop(at)
		}
	}
	s.bury(c)
	if len(s.holders) == 0 {
		s.wakeFirst(c, "")
	} else if head := s.evict(c, ""); at == 0 && head != "" {
		s.tell(c, ":"+head)
	}
	if freed {
		return 1
	}
	return 0
}

func (s *server) force(c *wire.Call) int64 {
	if len(s.holders) == 0 || c.Script == wire.Read.Force && s.mode != "read" || c.Script == wire.Write.Force && s.mode != "write" {
		return 0
	}
	s.clear("forced")
	s.epoch++
	if c.Script != wire.Fair.Force {
		s.tell(c, "")
	} else {
		s.wakeFirst(c, "")
	}
	return 1
}

// lose makes Redis forget the lock, its queue and its tombstones.
func (s *server) lose() {
	s.clear("lost")
	s.queue = s.queue[:0]
	clear(s.tombs)
	s.epoch++
	s.quiet = true
}

// backup is an older state of a server, as a failover may bring back.
type backup struct {
	holders []holder
	mode    string
	expiry  clock.Instant
}

func (s *server) save() backup {
	return backup{append([]holder(nil), s.holders...), s.mode, s.expiry}
}

func (s *server) restore(b backup) {
	s.lose()
	if b.expiry > s.now {
		s.holders, s.mode, s.expiry = b.holders, b.mode, b.expiry
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

// next reports whether a waiter is in the queue, and nobody ahead of it can come.
func (s *server) next(field string) bool {
	for _, p := range s.queue {
		if p.field == field {
			return true
		}
		if p.state != missed || p.deadline.Add(lockLeft-placeKept) > s.now {
			return false
		}
	}
	return false
}
