package table

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// repliedLate notes, for the attempts that queue now, a reply whose caller had left. Otherwise waiters whose calls are short
// would take their abandoned questions for silence.
func (t *Table) repliedLate(g *Grant, r wire.Reply, now clock.Instant) {
	if l := t.lines.Of(g.handle.Key); l != nil && (r.Err == nil || r.Err.Replied()) {
		l.Shared.known.Late(now)
	}
}

// Late takes the reply of an acquire whose caller had left. It delivers its notices itself.
func (g *Grant) Late(r wire.Reply, now clock.Instant) {
	t := g.table
	var n notice.List
	defer func() { n.Deliver(t.told) }() // after the unlock
	defer t.lock().Unlock()
	t.repliedLate(g, r, now)
	switch {
	case r.Acquired():
		g.needsCleanup, g.inDoubt = true, g.inDoubt || r.Repeated
	case r.Err.InDoubt(), r.Repeated:
		g.inDoubt = true
	default:
		return
	}
	if g.stage == retired {
		t.cleanUp(g, now, &n)
	}
}
