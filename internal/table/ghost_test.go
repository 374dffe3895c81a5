package table

import (
	"strconv"

	"github.com/go-rlock/rlock/internal/wire"
)

// A failover may bring back a waiter that has left, or had its turn: a ghost. A script that frees the lock gives it to the ghost,
// and tells its process, which must give it back. It cannot if it never hears of that.

// given is how a script gave the lock to a field that waited.
type given struct {
	micros int64 // when, by Redis's clock; zero means that the field asked for the lock itself
	lost   int   // how often Redis had lost something
	known  bool  // the process of the field heard of it, and had no grant with that field any more
}

// givesTo notes that a script gives the lock to a waiter, and says so in a message, or in the reply to a release of its process.
func (s *server) givesTo(field string) {
	b := s.born[field]
	b.given = given{micros: s.micros(), lost: s.lost}
	s.born[field] = b
}

// hearsOf notes, before the table sees it, that a process is told that one of its waiters has the lock. While a release of that
// waiter is under way, the table leaves it at that.
func (w *world) hearsOf(p *process, n *name, m wire.Message) {
	s, field := n.server, n.fieldOf(p, m)
	s.mistaken(field)
	b, g := s.born[field], w.grants[field]
	if b.given.micros != m.At || g == nil || g.stage != retired {
		return
	}
	b.given.known = true
	s.born[field] = b
	w.logf("%s, which is over, has %s", field, n.text)
}

// fieldOf returns the field that has the lock by a message to a process.
func (n *name) fieldOf(p *process, m wire.Message) string {
	field := p.table.cfg.ClientID + ":" + strconv.FormatInt(m.Number, 10)
	if n.family == wire.RWFamily {
		field += ":write"
	}
	return field
}

// givesBack notes, after the table saw such a message, the grant by which the process gives the lock back.
func (w *world) givesBack(p *process, n *name, m wire.Message) {
	if g, ok := p.table.alive[m.Number]; ok && g.stage == retiring {
		w.grants[n.fieldOf(p, m)] = g
	}
}

// haunts reports whether a holder in Redis is a ghost that its process knows of, so that a release must be on its way.
func (s *server) haunts(field string) bool {
	b := s.born[field]
	return b.given.known && b.given.lost == s.lost && s.find(field) != nil
}
