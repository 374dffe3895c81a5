package table

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// micros returns what Redis shows as its time.
func (s *server) micros() int64 { return int64(s.now) / 1000 }

// runLine runs a script of the line. It reports false for another one.
func (s *server) runLine(c *wire.Call) (r wire.Reply, ok bool) {
	var list []int64
	switch plain, fenced := wire.Plain.Line, wire.Fenced.Line; c.Script {
	case plain.Acquire, fenced.Acquire:
		list = s.lineAcquire(lineCallOf(c))
	case plain.Release, fenced.Release:
		list = s.lineRelease(lineCallOf(c))
	case plain.Pump, fenced.Pump:
		list = []int64{s.linePump(lineCallOf(c))}
	case plain.Force, fenced.Force:
		list = s.lineForce(lineCallOf(c))
	case wire.Read.Line.Release:
		list = s.lineReleaseRead(lineCallOf(c))
	default:
		return r, false
	}
	if r.N = list[0]; len(list) > 1 {
		r.List = list
	}
	return r, true
}

// hasTomb reports whether a number has a tombstone.
func (s *server) hasTomb(key string, number int64) bool { return s.tombs[tomb{key, number}] > s.now }

func (s *server) others(base string) int64 {
	return max(s.listeners(base)-s.listeners(s.twin(base)), 0)
}

// draw raises the token, if the call has its key, and returns it.
func (s *server) draw(c *lineCall) int64 {
	if !c.token {
		return 0
	}
	s.token++
	return s.token
}

// serve gives the free lock to the first waiter that is reached, and returns its field. It stops at the waiter that asks, and
// returns that without giving the lock. It returns told if that waiter was told to ask again. Empty means that nobody is reached.
func (s *server) serve(c *lineCall, asking string) string {
	for _, m := range slices.Clone(s.line.waiters) {
		if m.field == asking && m.term == c.term {
			return asking
		}
		asks := false
		switch {
		case m.term == 0, m.token && !c.token:
			own := c.waits && asking != "" && s.ownChannel(c.base, m.field) == s.ownChannel(c.base, asking)
			asks = !own && s.announce(s.ownChannel(c.base, m.field), "8") > 0
		default:
			token := int64(0)
			if m.token {
				token = s.token + 1
			}
			message := []int64{6, numberOf(m.field), s.micros(), m.term, token}
			if s.announce(s.ownChannel(c.base, m.field), numbers(message)) > 0 {
				if m.token {
					s.draw(c)
				}
				s.checkTurn(m)
				s.line.remove(m.field)
				if s.others(c.base) > 0 && len(s.line.waiters) > 0 {
					s.line.turns++
				}
				s.create(m.field, modeOf(m.field), m.term)
				s.granted(m)
				s.told = true
				return m.field
			}
		}
		i := s.line.index(m.field)
		switch missed := &s.line.waiters[i].missed; {
		case *missed == 0:
			*missed = s.whole()
		case s.whole().Sub(*missed) >= passedOver:
			s.line.remove(m.field)
			asks = false
		}
		if asks {
			return told
		}
	}
	return ""
}

// told is what serve returns for a waiter that was told to ask.
const told = "told"

// lineAcquire returns one number if the lock is granted, and four if not.
func (s *server) lineAcquire(c *lineCall) []int64 {
	take := func() []int64 {
		token := s.draw(c)
		s.create(c.holder, modeOf(c.holder), c.Args.Millis)
		return []int64{token}
	}
	switch {
	case s.hasTomb(c.tombs, c.Args.Number):
		return []int64{-1}
	case s.find(c.holder) != nil:
		s.repeat(c.holder, c.Args.Millis)
		if c.token {
			return []int64{s.born[c.holder].token}
		}
		return []int64{0}
	case len(s.holders) == 0 && len(s.line.waiters) == 0:
		return take()
	case len(s.holders) == 0 && s.offering(offer) && !c.waits:
		return take()
	case len(s.holders) == 0 && s.offering(offer):
		return s.refuseLine(c, -11)
	case len(s.holders) == 0:
		if first := s.serve(c, c.holder); first == c.holder || first == "" {
			s.line.remove(c.holder)
			if first != "" && s.others(c.base) > 0 && len(s.line.waiters) > 0 {
				s.line.turns++
			}
			return take()
		}
	}
	if len(s.holders) == 0 { // a waiter was told to ask
		return s.refuseLine(c, -21)
	}
	return s.refuseLine(c, s.refused())
}

// offering reports whether the lock is left to others, after a public release.
func (s *server) offering(lasts time.Duration) bool {
	return s.line.offered != 0 && s.now >= s.line.offered && s.now.Sub(s.line.offered) < lasts
}

// refuseLine notes a waiter, and returns what its acquire gets.
func (s *server) refuseLine(c *lineCall, refused int64) []int64 {
	place, watch := -1, int64(0)
	if c.waits {
		stood := s.line.index(c.holder) >= 0
		s.stand(inLine{field: c.holder, term: c.term, token: c.token})
		place = s.line.index(c.holder)
		if stood && place > 3 {
			place = s.ahead(c.base, place)
		}
		if watch = s.askToWatch(c.base, false); watch != 0 {
			s.summon(c.base, s.ownChannel(c.base, c.holder))
		}
		watch += s.heard(s.ownChannel(c.base, c.holder))
	}
	return []int64{refused, s.micros(), watch, int64(place)}
}

// ahead returns how many stand before a place, without the dead ones at the front.
func (s *server) ahead(base string, place int) int {
	for dead, m := range s.line.waiters[:place] {
		if s.listeners(s.ownChannel(base, m.field)) > 0 {
			return place - dead
		}
	}
	return 0
}

// stand puts a waiter into the line, or shows that it is alive.
func (s *server) stand(m inLine) {
	if epoch, ok := s.dead[m.field]; ok && epoch == s.epoch {
		s.back = m.field
	}
	m.at, m.epoch = s.now, s.epoch
	s.stood[m.field] = s.lost
	if i := s.line.index(m.field); i >= 0 {
		s.line.waiters[i].missed, s.line.waiters[i].epoch = 0, s.epoch
		return
	}
	s.line.waiters = append(s.line.waiters, m)
	slices.SortStableFunc(s.line.waiters, func(a, b inLine) int { return cmp.Compare(a.at, b.at) })
}

// askToWatch reports whether somebody is to be asked to watch.
func (s *server) askToWatch(base string, urgent bool) int64 {
	watchers := s.listeners(s.twin(base))
	if watchers >= 2 || s.line.watched != 0 && s.whole().Sub(s.line.watched) < claim && s.whole() >= s.line.watched && (!urgent || watchers > 0) {
		return 0
	}
	s.line.watched = s.whole()
	return 1
}

// summon asks the last waiter that is reached to watch, but not on that channel.
func (s *server) summon(base, but string) {
	for _, w := range slices.Backward(s.line.waiters) {
		if own := s.ownChannel(base, w.field); own != but && s.announce(own, "7") > 0 {
			return
		}
	}
}

// The outcomes of a release.
const (
	toNobody = iota
	toAnother
	toNext
	toAll
)

// lineRelease returns one number, or six.
func (s *server) lineRelease(c *lineCall) []int64 {
	freed := int64(0)
	if s.remove(c.holder, "released") {
		freed = 1
		if left := s.longest(); writes(c.holder) && s.left(left) > 0 {
			s.mode, s.expiry = "read", left
			s.bury(c.Call)
			s.shout(c)
			return []int64{1}
		} else if writes(c.holder) {
			s.clear("expired")
		}
	}
	none := len(s.line.waiters) == 0
	if i := s.line.index(c.holder); c.waits && i >= 0 && s.line.waiters[i].term == c.term {
		s.line.remove(c.holder)
	}
	s.bury(c.Call)
	next := c.next
	if next != nil && (freed == 0 || s.hasTomb(c.tombs, c.Args.NextNumber)) {
		next = nil
	}
	switch {
	case len(s.holders) > 0:
		return []int64{freed}
	case none && next == nil && freed == 0:
		return []int64{0}
	case none && next == nil:
		s.shout(c)
		return []int64{1}
	}
	others := s.others(c.base)
	if freed == 0 && s.offering(offer) {
		return []int64{0, s.micros(), toAll, 0, 0, others} // its process may not know that it made the public release
	}
	waiting := len(s.line.waiters)
	if next != nil {
		waiting++
	}
	s.public = ""
	reply := func(what int, token int64) []int64 {
		watch := int64(0)
		if others > 0 && len(s.line.waiters) > 0 {
			if watch = s.askToWatch(c.base, what == toAll); watch > 0 && next == nil {
				s.summon(c.base, "")
				watch = 0
			}
		}
		return []int64{freed, s.micros(), int64(what), token, watch, others}
	}
	if freed > 0 && others > 0 && int64(s.line.turns+1)*others >= int64(waiting) {
		if next != nil {
			s.stand(*next)
		}
		s.line.offered, s.line.turns, s.public = s.now, 0, c.holder
		s.quiet, s.hushed = false, 0
		for _, message := range messagesOf(c) {
			if s.listeners(s.twin(c.base)) > 0 {
				s.announce(s.twin(c.base), "5")
			}
			s.announce(c.base, message)
		}
		return reply(toAll, 0)
	}
	turns := s.line.turns + 1
	switch got := s.serve(c, ""); {
	case got != "":
		if next != nil && next.field != got {
			s.stand(*next)
		}
		if got != told && others > 0 && next != nil && len(s.line.waiters) > 0 {
			s.line.turns = turns // the line may have been gone in between
		}
		s.quiet, s.hushed = false, 0
		return reply(toAnother, 0)
	case next != nil:
		token := int64(0)
		if next.token {
			token = s.draw(c)
		}
		s.line.remove(next.field) // a late release: it has asked by itself
		s.create(next.field, modeOf(next.field), c.Args.NextMillis)
		s.quiet, s.hushed = false, 0
		return reply(toNext, token)
	}
	if freed > 0 {
		s.shout(c)
	}
	return reply(toNobody, 0)
}

// owes reports whether the process of a field has to give the lock on after its public release.
func (s *server) owes(field string) bool {
	return s.public == field && len(s.holders) == 0 && len(s.line.waiters) > 0
}

// shout announces that the lock is free.
func (s *server) shout(c *lineCall) {
	s.quiet, s.hushed = false, 0
	for _, message := range messagesOf(c) {
		s.announce(c.base, message)
	}
}

// lineReleaseRead returns one number, or six.
func (s *server) lineReleaseRead(c *lineCall) []int64 {
	var reply []int64
	freed := s.leaveRead(c.Call, func(free bool) {
		if free && len(s.line.waiters) > 0 && s.offering(pumpOffer) {
			reply = []int64{1, s.micros(), toAll, 0, 0, s.others(c.base)}
			return
		}
		if !free || len(s.line.waiters) == 0 {
			s.shout(c)
			return
		}
		what := int64(toAnother)
		if s.serve(c, "") == "" {
			s.shout(c)
			what = toNobody
		}
		s.quiet, s.hushed = false, 0
		others := s.others(c.base)
		if others > 0 && len(s.line.waiters) > 0 && s.askToWatch(c.base, false) > 0 {
			s.summon(c.base, "")
		}
		reply = []int64{1, s.micros(), what, 0, 0, others}
	})
	if reply == nil {
		return []int64{freed}
	}
	return reply
}

func (s *server) linePump(c *lineCall) int64 {
	switch {
	case len(s.line.waiters) == 0:
		return 0
	case len(s.holders) > 0:
		if s.listeners(s.twin(c.base)) == 0 {
			s.summon(c.base, s.ownChannel(c.base, c.holder+":"))
		}
		return 0
	case s.offering(pumpOffer):
		return -2
	case s.serve(c, "") != "":
		s.quiet, s.hushed = false, 0
		return 1
	}
	return 0
}

func (s *server) lineForce(c *lineCall) []int64 {
	side, held := text(c.Args.Extra), len(s.holders) > 0
	if held {
		if (side == "read" || side == "write") && s.mode != side {
			return []int64{0}
		}
		s.clear("forced")
		s.raiseEpoch()
	}
	given := (held || !s.offering(offer)) && len(s.line.waiters) > 0 && s.serve(c, "") != ""
	if !held {
		s.quiet = s.quiet && !given
		return []int64{0}
	}
	if s.quiet = !given && side == "-"; !given && !s.quiet {
		s.shout(c)
	}
	s.hushed = 0
	return []int64{1, s.micros()}
}

const (
	passedOver = 3 * time.Second       // for how long a waiter that is not reached keeps its place
	offer      = 10 * time.Millisecond // for how long a public release leaves the lock to others
	pumpOffer  = time.Millisecond      // until its process, or a watcher, gives the lock on
	claim      = time.Second           // how often somebody is asked to watch
)
