package watchdog

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// New returns a watchdog of a lock table that does nothing until the first alarm. [Watchdog.Stop] stops it.
//
// receiver gets the table's notices. release carries out a background release on a worker, and returns at once. The table
// has begun that duty in tasks, and ends it with the release. first is called before each look at the table, and returns when to look
// again; zero means when the table says.
func New(
	cfg Config, t *table.Table, conn Sender, receiver notice.Receiver, release func(*table.Exit), first func(clock.Instant) clock.Instant,
	tasks *task.Group,
) *Watchdog {
	return newWatchdog(cfg, &locks{t, receiver, release, first}, conn, tasks)
}

// locks is a lock table with the functions that carry out its decisions.
type locks struct {
	table    *table.Table
	receiver notice.Receiver
	release  func(*table.Exit)
	first    func(clock.Instant) clock.Instant
}

func (l *locks) due(now clock.Instant, bySlot bool) work {
	n := new(notice.List)
	next := l.first(now)
	renew, release := l.table.Due(now, bySlot, n)
	inquiries := l.table.Inquiries(now, bySlot, n)
	due := work{deliver: func() {
		if next != 0 {
			l.receiver.Alarm(next)
		}
		n.Deliver(l.receiver)
	}}
	for _, b := range renew {
		due.renew = append(due.renew, &renewal{l, b})
	}
	for _, i := range inquiries {
		due.inquire = append(due.inquire, &inquiry{l, i})
	}
	for _, x := range release {
		due.release = append(due.release, func() { l.release(x) })
	}
	return due
}

// renewal is a batch of a lock table.
type renewal struct {
	*locks
	table.Batch
}

func (b *renewal) again() batch {
	again := *b
	again.Late = true
	return &again
}

// wanted returns a copy, because b may be in flight on another connection at the same time.
func (b *renewal) wanted(now clock.Instant) (batch, wire.Call) {
	var n notice.List
	wanted := *b
	call := b.table.Wanted(&wanted.Batch, now, &n)
	n.Deliver(b.receiver)
	return &wanted, call
}

func (b *renewal) renewed(sent clock.Instant, r wire.Reply, now clock.Instant) {
	var n notice.List
	b.table.Renewed(&b.Batch, sent, r, now, &n)
	n.Deliver(b.receiver)
}

// inquiry is waiters about which one call inquires.
type inquiry struct {
	*locks
	table.Inquiry
}

// Shortest says that it renews nothing.
func (*inquiry) Shortest() time.Duration { return -1 }

func (i *inquiry) again() batch { return i }

// wanted returns a copy, as that of a renewal does.
func (i *inquiry) wanted(now clock.Instant) (batch, wire.Call) {
	wanted := *i
	call := i.table.Inquire(&wanted.Inquiry, now)
	return &wanted, call
}

func (i *inquiry) renewed(sent clock.Instant, r wire.Reply, now clock.Instant) {
	var n notice.List
	i.table.Inquired(&i.Inquiry, sent, r, now, &n)
	n.Deliver(i.receiver)
}
