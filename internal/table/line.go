package table

import (
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
)

// line is the local queue of a name. One attempt at a time contends, its head; the others cost Redis nothing. A line
// exists while somebody is in it. The holder is not: the head leaves when it is granted the lock, and the next one takes
// over, with whatever wake-up comes.
type line struct {
	queue queue.Queue[*Attempt]
	last  Outcome // of the latest head: what a waiter reports that never got to ask
	// heard gets the messages for the heads, since one of them had to sleep. Kinds that poll share queues with kinds that
	// listen, so the last attempt to leave may not know the channel.
	heard notice.Listener
}

// maxSpare is how many lines a table keeps for the names that are locked next, and how many waiters such a line had at
// most.
const maxSpare = 16

// leaveLine takes the attempt out of the local queue, and makes way for the next one. An attempt that is in none stops
// listening.
func (t *Table) leaveLine(a *Attempt, n *Notices) {
	l := a.line
	if l == nil {
		n.Unlisten(&a.heard)
		return
	}
	a.line = nil
	wasHead := l.queue.Leave(a)
	switch {
	case l.queue.Len() == 0:
		delete(t.lines, a.Handle.Key)
		n.Unlisten(&l.heard)
		if len(t.spare) < maxSpare && cap(l.queue.All()) <= maxSpare {
			*l = line{queue: l.queue}
			t.spare = append(t.spare, l)
		}
	case wasHead:
		l.queue.Head().alert()
		if l.heard.Heard != nil && a.grant.stage == pending {
			signal(l.heard.Heard) // what this one had heard, and did not follow
		}
	}
}

// alert wakes an attempt because something changed in this process.
func (a *Attempt) alert() {
	if a.wake == nil {
		a.woken = true
		return
	}
	signal(a.wake)
}

// signal puts a token into a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
