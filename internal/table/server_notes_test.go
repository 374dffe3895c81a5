package table

import (
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// role is what a script is for.
type role uint8

const (
	counts role = iota
	acquires
	releases
	handsOver
	parks
	exports // or adopts
	forces
	pumps
)

// roles has what the scripts of the model's kinds are for. A renewal is about many names.
var roles = func() map[*wire.Script]role {
	all := make(map[*wire.Script]role)
	for _, kinds := range familyKinds {
		for _, k := range kinds {
			all[k.Acquire], all[k.Release], all[k.Force], all[k.Count] = acquires, releases, forces, counts
			if k.HandOver != nil {
				all[k.HandOver] = handsOver
			}
			if k.Park != nil {
				all[k.Park] = parks
			}
			if k.HandOff != nil {
				all[k.HandOff] = exports
			}
			if l := k.Line; l != nil {
				all[l.Acquire], all[l.Yield], all[l.Release], all[l.Force], all[l.Pump] = acquires, acquires, releases, forces, pumps
			}
		}
	}
	return all
}()

// ofLine reports whether a script knows of the line.
func ofLine(script *wire.Script) bool {
	for _, k := range []*wire.Kind{wire.Plain, wire.Fenced, wire.Read} {
		if l := k.Line; script == l.Acquire || script == l.Yield || script == l.Release || script == l.Force || script == l.Pump {
			return true
		}
	}
	return false
}

// notes takes down what a call has changed.
func (s *server) notes(c *wire.Call, r wire.Reply) {
	role, holder := roles[c.Script], text(c.Args.Holder)
	if role == forces && r.N == 1 {
		s.raiseEpoch()
	}
	if role == releases && c.Args.Millis > 0 {
		s.dead[holder] = s.epoch
	}
	before := s.view
	s.look()
	freed := role == releases && r.N >= 1
	for _, h := range before.holders {
		if s.find(h.field) == nil || freed && h.field == holder {
			s.gone[h.field] = s.whyGone(c, role, h.field)
		}
	}
	for _, h := range s.holders {
		if old := before.find(h.field); old == nil || freed && h.field == holder {
			s.comes(c, role, r, h.field, &before)
		}
	}
	switch role {
	case acquires:
		if before.find(holder) != nil && r.N >= 0 && c.Script != wire.Read.Acquire && c.Script != wire.Read.Line.Yield {
			s.repeats(holder)
		}
		s.stands(c, r)
	case releases:
		s.released(c, r, &before)
	case forces:
		s.forced(c, r, &before)
	case pumps:
		s.tells(r.N == 1)
	case handsOver:
		s.shortens(c, &before)
	default: // are noted when the holder comes
	}
}

func (s *server) whyGone(c *wire.Call, role role, field string) string {
	switch {
	case role == forces:
		return "forced"
	case role == handsOver, role == exports:
		return "handed over"
	case role == parks, role == releases && field == text(c.Args.Holder):
		return "released"
	}
	return "expired"
}

// repeats takes an acquire of a field that is a holder already. The table counts the hand-overs from the acquire that it relies on.
func (s *server) repeats(field string) {
	b := s.born[field]
	b.lastly = s.world()
	s.born[field] = b
}

// comes notes a new holder.
func (s *server) comes(c *wire.Call, role role, r wire.Reply, field string, before *view) {
	b := birth{epoch: s.epoch, token: s.token, lastly: s.world()}
	switch role {
	case handsOver:
		old := s.born[text(c.Args.Channel)]
		b.epoch, b.chain, b.lastly = old.epoch, old.chain+1, old.lastly
		if i := s.line.index(field); i >= 0 {
			s.line.waiters[i].late = true
		}
	case exports:
		b.epoch, s.quiet = s.born[text(c.Args.Extra)].epoch, c.Keys[0] == c.Keys[1] // then nobody in the line is told when it ends
	case parks:
		s.kept[text(c.Args.Extra)] = s.world().Add(millis(c.Args.Millis))
		s.quiet = len(c.Keys) == 1 // nobody is told when it ends
	default:
		if s.public = ""; !slices.ContainsFunc(before.holders, func(h holder) bool { return h.field != field && s.find(h.field) != nil }) {
			s.longer = false
		}
	}
	s.joins(field, b)
	if asks := role == acquires && field == text(c.Args.Holder); asks || role == handsOver || role == exports || role == parks ||
		r.Gave().What == wire.ToNext {
		return
	}
	s.granted(field, before)
}

func (s *server) joins(field string, b birth) {
	if old, ok := s.born[field]; ok && old.epoch != s.epoch {
		b.epoch = old.epoch // a late repeat of its acquire brought back what was lost or unlocked by force
	}
	s.born[field] = b
	delete(s.gone, field)
	s.returns(field)
}

// returns notes a field that comes back although it has a tombstone.
func (s *server) returns(field string) {
	if epoch, ok := s.dead[field]; ok && epoch == s.epoch {
		s.back = field
	}
}

// granted notes that a script gave the lock to a waiter, and checks that it was its turn.
func (s *server) granted(field string, before *view) {
	var epoch int
	if i := before.line.index(field); i >= 0 {
		epoch, s.told = before.line.waiters[i].epoch, true
		for _, m := range before.line.waiters[:i] {
			if at := s.line.index(m.field); at >= 0 && s.line.waiters[at].missed == 0 {
				panic(failure("Turns: " + field + " is granted before " + m.field))
			}
		}
	} else if i := slices.IndexFunc(before.queue, func(p seated) bool { return p.field == field }); i >= 0 {
		epoch = before.queue[i].epoch
	} else {
		panic(failure("Turns: " + field + ", which does not wait, is granted"))
	}
	if epoch != s.epoch { // a failover brought back a line in which it may not be any more
		b := s.born[field]
		b.epoch, s.back = epoch, ""
		s.born[field] = b
	}
	s.givesTo(field)
}

// stands notes that an acquire was refused, and its holder waits.
func (s *server) stands(c *wire.Call, r wire.Reply) {
	wait, waits := c.Args.Extra.(int64)
	if !waits || r.N >= -1 {
		return
	}
	if s.queueKeys == nil {
		s.stays(text(c.Args.Holder))
	} else if i := s.seatOf(text(c.Args.Other)); i >= 0 && wait > 0 {
		if s.queue[i].epoch = s.epoch; s.queue[i].state == asked {
			s.returns(s.queue[i].field)
		}
	}
}

// stays notes that a waiter stands in the line, and is alive.
func (s *server) stays(field string) {
	if i := s.line.index(field); i >= 0 {
		s.line.waiters[i].epoch, s.stood[field] = s.epoch, s.lost
		s.returns(field)
	}
}

// tells notes that waiters were told of a lock that is free, or that was.
func (s *server) tells(told bool) {
	if told {
		s.quiet, s.hushed = false, 0
	}
}

// announced notes that a lock was announced as free to those who know of no line.
func (s *server) announced(c *wire.Call) {
	channel := text(c.Args.Channel)
	if channel == "" {
		s.quiet = true
		return
	}
	s.quiet, s.hushed = s.lined && !s.watching(channel), 0 // nobody hears it for the line, yet
}

// released notes what a release has told to others.
func (s *server) released(c *wire.Call, r wire.Reply, before *view) {
	freed, ends := r.N >= 1, true
	if c.Script == wire.Read.Release || c.Script == wire.Read.Line.Release {
		const slack = 100 * time.Millisecond
		s.longer = s.longer || freed && before.mode == "write" // its lease may have been the longest
		ends = freed && before.mode != "write" && (len(s.holders) == 0 || s.told || s.expiry.Add(slack) < before.expiry)
	}
	switch {
	case s.queueKeys != nil:
		s.tells(len(s.got) > 0 || len(r.List) > 0)
	case !ofLine(c.Script) && freed && ends:
		s.announced(c)
	case !ofLine(c.Script):
	case len(r.List) == 0: // nobody waits
		s.tells(freed && ends)
	default:
		gave := r.Gave()
		if next := text(c.Args.Other); next != "" && freed {
			field, _, _ := strings.Cut(next, "|")
			s.stays(field)
		}
		const offer = 10 * time.Millisecond                                                     // for how long it leaves the lock to others
		again := !freed && s.offered != 0 && s.now >= s.offered && s.now.Sub(s.offered) < offer // its process may not know that it made it
		if !again {
			s.public = ""
		}
		if gave.What == wire.ToPublic && freed && c.Script != wire.Read.Line.Release {
			s.public, s.offered = text(c.Args.Holder), s.now
		}
		kept := gave.What == wire.ToPublic && c.Script == wire.Read.Line.Release
		s.tells(!again && !kept && (freed || gave.What != wire.ToNobody))
	}
}

// forced notes what an unlock by force has told to others.
func (s *server) forced(c *wire.Call, r wire.Reply, before *view) {
	given := len(s.holders) > 0 || slices.Contains(s.got, "8")
	switch {
	case s.queueKeys != nil:
		s.tells(len(s.got) > 0)
	case !ofLine(c.Script):
		if r.N == 1 {
			s.announced(c)
		}
	case len(before.holders) == 0:
		s.quiet = s.quiet && !given
	case r.N == 1:
		s.quiet, s.hushed = !given && text(c.Args.Extra) == "-", 0
	}
}

// shortens notes that a hand-over has made the lease shorter than other processes know.
func (s *server) shortens(c *wire.Call, before *view) {
	next := text(c.Args.Holder)
	if before.find(next) != nil || s.find(next) == nil || s.expiry >= before.expiry {
		return
	}
	if stray := len(s.holders) > 1 || s.longer; stray { // a read hold of the last writer, whose caller left
		s.quiet = true
	} else {
		s.cut = true
	}
}

// owes reports whether the process of a field has to give the lock on after its public release.
func (s *server) owes(field string) bool {
	return s.public == field && len(s.holders) == 0 && len(s.line.waiters) > 0
}

// sound reports whether a field became a holder since Redis last lost something.
func (s *server) sound(field string) bool {
	b, ok := s.born[field]
	return ok && b.epoch == s.epoch
}

// wouldGrant reports whether an acquire of a waiter would succeed now. A reader that yields may have to wait for a writer of the line.
func (s *server) wouldGrant(h *Handle, field, other string) bool {
	k := h.Kind
	switch {
	case h.Yields && other == "" && len(s.line.waiters) > 0:
		return false
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

// raiseEpoch notes an unlock by force, which leaves the line as it is.
func (s *server) raiseEpoch() {
	s.line.waiters, s.queue = slices.Clone(s.line.waiters), slices.Clone(s.queue)
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
