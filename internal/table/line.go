package table

import (
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/wake"
)

// line is the local queue of a name. One attempt at a time contends, its head; the others cost Redis nothing. The holder is
// not in it: the head leaves when it is granted the lock, and the next one takes over, with whatever wake-up comes.
type line = queue.Line[*Attempt, shared]

// shared is what the attempts of a local queue know together.
type shared struct {
	last Outcome // of the latest head: what a waiter reports that never got to ask
	// heard gets the messages for the heads, since one of them had to sleep. Kinds that poll share queues with kinds that
	// listen, so the last attempt to leave may not know the channel.
	heard notice.Listener
}

// leaveLine takes the attempt out of the local queue, and makes way for the next one. An attempt that is in none stops
// listening.
func (t *Table) leaveLine(a *Attempt, n *Notices) {
	l := a.line
	if l == nil {
		n.Unlisten(&a.heard)
		return
	}
	a.line = nil
	if l.Len() == 1 {
		n.Unlisten(&l.Shared.heard)
	}
	if next := t.lines.Leave(a.Handle.Key, a); next != nil {
		next.bell.Ring()
		if a.grant.stage == pending {
			wake.Signal(l.Shared.heard.Heard) // what this one had heard, and did not follow
		}
	}
}
