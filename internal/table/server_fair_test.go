package table

import (
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// seated is a waiter in the queue of a fair lock.
type seated struct {
	seat     string
	field    string
	number   int64
	term     int64 // ms; zero means that it is woken
	token    bool  // it needs one
	deadline clock.Instant
	state    state
	epoch    int           // in which it arrived
	at       clock.Instant // of the world, when it was last looked at
}

// state is what is known of a waiter since it last asked.
type state uint8

const (
	asked   state = iota
	missed        // a message did not reach it
	awaited       // a message reached it, but it did not come
)

// The times of waiters that a message did not reach, or that it reached but that do not come.
const (
	placeKept = 3 * time.Second       // until they are removed
	lockLeft  = 50 * time.Millisecond // until others may take the lock
)

// fairCall is the call of a script of a fair lock.
type fairCall struct {
	*wire.Call
	holder, seat string
	token        bool // it has the token key
}

// runFair runs a script of a fair lock. It reports false for another one.
func (s *server) runFair(c *wire.Call) (r wire.Reply, ok bool) {
	f := &fairCall{Call: c, holder: text(c.Args.Holder), token: len(c.Keys) == 6}
	var list []int64
	switch plain, fenced := wire.Fair, wire.FencedFair; c.Script {
	case plain.Acquire, fenced.Acquire:
		f.seat = text(c.Args.Other)
		list = s.acquireFair(f)
	case plain.Release, fenced.Release:
		f.seat = text(c.Args.Extra)
		list = s.releaseFair(f)
	case plain.Force, fenced.Force:
		list = s.forceFair(f)
	default:
		return r, false
	}
	if r.N = list[0]; len(list) > 1 {
		r.List = list
	}
	return r, true
}

func clientOf(field string) string { return field[:strings.LastIndexByte(field, ':')] }

func (s *server) seatOf(seat string) int {
	return slices.IndexFunc(s.queue, func(p seated) bool { return p.seat == seat })
}

// drop removes a waiter from the queue.
func (s *server) drop(i int) { s.queue = slices.Delete(s.queue, i, i+1) }

// wake has a waiter ask. It returns how many listeners it reached.
func (s *server) wake(c *fairCall, seat string) int64 { return s.tell(c.Call, ":"+seat) }

// grantable reports whether a script may give the lock to a waiter.
func (s *server) grantable(c *fairCall, p *seated) bool {
	return p.term > 0 && (!p.token || c.token) && s.counts
}

// alert tells the new head how long the lease of another process is.
func (s *server) alert(c *fairCall, client string, lease int64) {
	switch head := &s.queue[0]; {
	case !s.grantable(c, head):
		s.wake(c, head.seat)
	case lease < 3000 || clientOf(head.field) != client:
		s.announce(text(c.Args.Channel)+":"+head.seat, "9 "+numbers([]int64{head.number, lease}))
	}
}

// departs takes a waiter out of the queue that has the lock.
func (s *server) departs(c *fairCall, i int, client string, lease int64) {
	s.drop(i)
	if i == 0 && len(s.queue) > 0 {
		s.alert(c, client, lease)
	}
}

// giveFair gives the free lock to a waiter, if it is reached. It returns what a release replies.
func (s *server) giveFair(c *fairCall, i int, here string) []int64 {
	p, token := s.queue[i], int64(0)
	if p.token {
		token = s.token + 1
	}
	message := []int64{6, p.number, s.micros(), p.term, token}
	if clientOf(p.field) != here && s.announce(text(c.Args.Channel)+":"+p.seat, numbers(message)) == 0 {
		return nil
	}
	if p.token {
		s.token++
	}
	s.create(p.field, "", p.term)
	s.granted(inLine{field: p.field, epoch: p.epoch})
	s.quiet, s.hushed = false, 0
	s.departs(c, i, clientOf(p.field), p.term)
	return message[1:]
}

// serveFair gives the free lock to the first waiter that can have it, of those ahead of the asking one, or wakes that. It returns
// who has it, until when the lock is left to others, whether it found the asking one, and how many it passed over.
func (s *server) serveFair(c *fairCall, asking, here string) (given []int64, leave clock.Instant, found bool, passed int) {
	for passed < len(s.queue) {
		p := &s.queue[passed]
		if p.seat == asking {
			return nil, leave, true, passed
		}
		over := p.deadline < s.whole() // in Redis it has a fraction of a ms more
		grantable, reached := s.grantable(c, p), false
		if grantable {
			if given = s.giveFair(c, passed, here); given != nil {
				return given, 0, false, passed
			}
		}
		switch {
		case p.state == missed && !over:
			leave = max(leave, p.deadline.Add(lockLeft-placeKept))
			passed++
			continue
		case grantable:
		case p.state == awaited && over:
			s.drop(passed)
			continue
		default:
			reached = s.wake(c, p.seat) > 0
		}
		switch {
		case !s.counts && over, s.counts && !reached && p.state == missed:
			s.drop(passed)
		case s.counts && !reached:
			p.state, p.deadline = missed, s.whole().Add(placeKept)
			leave = max(leave, s.whole().Add(lockLeft))
			passed++
		default:
			due := p.deadline.Add(time.Millisecond)
			if s.counts && asking != noSeat && p.state != awaited {
				due = s.whole().Add(placeKept)
				p.state, p.deadline = awaited, due
			}
			return nil, due, false, passed
		}
	}
	return nil, leave, false, passed
}

// noSeat is the asking one of a script that does not ask.
const noSeat = "-"

// evict removes dead waiters from the head of the queue while the lock is held, and returns the head that is left.
func (s *server) evict(c *fairCall, asking string) (head string) {
	evicted := false
	for !s.counts && len(s.queue) > 0 && s.queue[0].seat != asking && s.queue[0].deadline < s.whole() {
		s.drop(0)
		evicted = true
	}
	if len(s.queue) == 0 {
		return ""
	}
	head = s.queue[0].seat
	if evicted && head != asking {
		s.wake(c, head)
	}
	return head
}

func (s *server) acquireFair(c *fairCall) []int64 {
	wait, _ := c.Args.Extra.(int64)
	take := func() []int64 {
		if c.token {
			s.token++
		}
		s.create(c.holder, "", c.Args.Millis)
		return []int64{s.fairToken(c)}
	}
	switch {
	case s.buried(c.Call):
		return []int64{-1}
	case len(s.holders) == 0 && len(s.queue) == 0:
		return take()
	case s.find(c.holder) != nil:
		s.repeat(c.holder, c.Args.Millis)
		return []int64{s.fairToken(c)}
	}
	simple := s.simple(c)
	if i := s.seatOf(c.seat); i >= 0 && s.queue[i].number > c.Args.Number {
		return []int64{-1}
	} else if i >= 0 && s.queue[i].number < c.Args.Number {
		s.drop(i)
	}
	head, hint := "", int64(0)
	if len(s.holders) == 0 {
		given, leave, found, passed := s.serveFair(c, c.seat, noSeat)
		if given == nil && leave <= s.whole() {
			reply := take()
			if found {
				s.departs(c, passed, "", c.Args.Millis)
			}
			return reply
		}
		if given == nil {
			hint = -1 - int64(leave.Sub(s.whole())/time.Millisecond)
		} else if len(s.queue) > 0 {
			head = s.queue[0].seat
		}
	} else {
		head = s.evict(c, c.seat)
	}
	place, bits := int64(-1), int64(0)
	if wait > 0 {
		place = 0
		if !s.enqueue(c, millis(wait)) && c.Args.NextNumber == 1 {
			bits = 16
		}
		if s.counts && !simple {
			bits += s.heard(text(c.Args.Channel) + ":" + c.seat)
		}
	}
	switch {
	case hint != 0:
	case simple && head != "":
		hint = -1 - wait
	case head == "" || head == c.seat || wait < 0 || s.counts && s.deserted(c):
		hint = s.refused()
	case s.counts:
		hint = -1 - wait
	default:
		hint = -1 - int64(s.queue[0].deadline.Sub(s.whole())/time.Millisecond)
	}
	return []int64{hint, s.micros(), bits, place}
}

// simple reports whether the script leaves it at adding the waiter, and does not look who can be reached.
func (s *server) simple(c *fairCall) bool {
	return s.counts && len(s.holders) > 0 && c.seat != "" && s.seatOf(c.seat) < 0 && c.Args.NextNumber == 0 && c.Args.Number%64 != 0
}

// deserted reports whether nobody reaches the waiters before the asking one.
func (s *server) deserted(c *fairCall) bool {
	for _, p := range s.queue {
		if p.seat == c.seat {
			break
		}
		if s.listeners(text(c.Args.Channel)+":"+p.seat) > 0 {
			return false
		}
	}
	return true
}

// fairToken returns what a fair acquire replies to the holder.
func (s *server) fairToken(c *fairCall) int64 {
	if c.token {
		return s.born[c.holder].token
	}
	return 0
}

// enqueue puts a waiter into the queue, or renews its place.
func (s *server) enqueue(c *fairCall, wait time.Duration) (queued bool) {
	i := s.seatOf(c.seat)
	if queued = i >= 0; !queued {
		i = len(s.queue)
		s.queue = append(s.queue, seated{seat: c.seat})
		if epoch, ok := s.dead[c.holder]; ok && epoch == s.epoch {
			s.back = c.holder
		}
	}
	p := &s.queue[i]
	p.field, p.number, p.term, p.token = c.holder, c.Args.Number, c.Args.NextMillis, c.token
	p.deadline, p.state, p.epoch = s.whole().Add(wait), asked, s.epoch
	return queued
}

func (s *server) releaseFair(c *fairCall) []int64 {
	freed, at := int64(0), -1
	if s.remove(c.holder, "released") {
		freed = 1
	} else if at = s.seatOf(c.seat); at >= 0 && s.queue[at].number != c.Args.Number {
		at = -1
	}
	if at >= 0 {
		s.drop(at)
	}
	s.bury(c.Call)
	switch {
	case len(s.holders) == 0:
		given, _, _, _ := s.serveFair(c, noSeat, clientOf(c.holder))
		if given != nil && s.find(clientOf(c.holder)+":"+numbers(given[:1])) != nil {
			return append([]int64{freed}, given...)
		}
	case s.evict(c, noSeat) != "" && at == 0:
		s.alert(c, "", int64(s.left(s.expiry)/time.Millisecond))
	}
	return []int64{freed}
}

func (s *server) forceFair(c *fairCall) []int64 {
	if len(s.holders) == 0 {
		return []int64{0}
	}
	s.clear("forced")
	s.raiseEpoch()
	s.serveFair(c, noSeat, "")
	return []int64{1, s.micros()}
}

// forceByRedisson is Redisson's unlock by force: it wakes the head, and gives the lock to nobody.
func (s *server) forceByRedisson(c *wire.Call) {
	s.clear("forced")
	s.raiseEpoch()
	if len(s.queue) > 0 {
		s.wake(&fairCall{Call: c}, s.queue[0].seat)
	}
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

// checkSeats checks that no waiter loses its place in the queue of a fair lock unless it left, got the lock, or was judged dead,
// and that none overtakes another one.
func (w *world) checkSeats() {
	for _, n := range w.names {
		s, last := n.server, -1
		for _, p := range n.places {
			i := slices.IndexFunc(s.queue, func(q seated) bool { return q.field == p.field })
			b, granted := s.born[p.field]
			g := w.grants[p.field]
			switch {
			case p.epoch != s.epoch || p.state != asked || !s.counts:
			case i >= 0 && i < last:
				w.failf("Turns: %s was overtaken", p.field)
			case i >= 0:
				last = i
			case granted && b.lastly >= p.at:
			case g != nil && g.stage == pending && g.inRedis().Field == p.field:
				w.failf("Turns: %s loses its place", p.field)
			}
		}
		n.places = n.places[:0]
		for _, p := range s.queue {
			p.at = s.world()
			n.places = append(n.places, p)
		}
	}
}
