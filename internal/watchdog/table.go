package watchdog

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// New returns a watchdog of a lock table that does nothing until the first alarm. [Watchdog.Stop] stops it.
//
// receiver gets the table's notices. release carries out a background release on a worker, and returns at once. The table
// has begun that duty in tasks, and ends it with the release.
func New(
	cfg Config, t *table.Table, conn Sender, receiver notice.Receiver, release func(*table.Exit), tasks *task.Group,
) *Watchdog {
	return Of(cfg, &locks{t, receiver, release}, conn, tasks)
}

// locks is a lock table with the functions that carry out its decisions.
type locks struct {
	table    *table.Table
	receiver notice.Receiver
	release  func(*table.Exit)
}

// Due implements [Source].
func (l *locks) Due(now clock.Instant, bySlot bool) Work {
	n := new(notice.List)
	renew, release := l.table.Due(now, bySlot, n)
	due := Work{Deliver: func() { n.Deliver(l.receiver) }}
	for _, b := range renew {
		due.Renew = append(due.Renew, &renewal{l, b})
	}
	for _, x := range release {
		due.Release = append(due.Release, func() { l.release(x) })
	}
	return due
}

// renewal is a batch of a lock table.
type renewal struct {
	*locks
	table.Batch
}

// Again implements [Batch].
func (b *renewal) Again() Batch {
	again := *b
	again.Late = true
	return &again
}

// Wanted implements [Batch]. It returns a copy, because b may be in flight on another connection at the same time.
func (b *renewal) Wanted(now clock.Instant) (Batch, wire.Call) {
	var n notice.List
	wanted := *b
	call := b.table.Wanted(&wanted.Batch, now, &n)
	n.Deliver(b.receiver)
	return &wanted, call
}

// Renewed implements [Batch].
func (b *renewal) Renewed(sent clock.Instant, r wire.Reply, now clock.Instant) {
	var n notice.List
	b.table.Renewed(&b.Batch, sent, r, now, &n)
	n.Deliver(b.receiver)
}
