// Package watchdog carries out everything in a lock table that is due at a time: renewals, deadlines, and releases for which
// no caller waits.
package watchdog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// Config configures a watchdog.
type Config struct {
	CommandTimeout time.Duration // positive
}

// Sender is the part of the transport that a watchdog needs.
type Sender interface {
	// Pipe sends calls in one pipeline, and writes a reply for each to out. The node is the one that had their keys when the
	// round began; nil means that there is one server, or that the node is not known.
	Pipe(ctx context.Context, at driver.Node, calls []wire.Call, out []wire.Reply)
	// Node returns the node that has a key. It may have to ask one.
	Node(ctx context.Context, key string) (driver.Node, *fault.Error)
	// BySlot reports whether a script may touch the keys of one slot only. It is always true on a cluster.
	BySlot() bool
	// Silent notes that a command has had no reply for long.
	Silent()
}

// lockTable is a lock table as the watchdog sees it. The watchdog calls neither it nor a batch while it holds its mutex.
type lockTable interface {
	due(now clock.Instant, bySlot bool) work
}

// work is everything that is due.
type work struct {
	renew   []batch
	inquire []batch
	release []func() // each starts a background release and does not wait for it
	deliver func()   // delivers the notices; it may run code of the user
}

// batch is locks that one call of a script renews, or about which it inquires.
type batch interface {
	// Name returns the name in Redis of one of the locks, which decides the node.
	Name() string
	// Shortest returns the lease that leaves the least time for the reply. Negative means that it renews nothing.
	Shortest() time.Duration
	// again returns the batch as one to which there was no reply in time.
	again() batch
	// wanted returns the locks that still have to be renewed, and the call for them. A call without keys means that there is
	// nothing.
	wanted(now clock.Instant) (batch, wire.Call)
	// renewed takes in the reply to a call that was sent at a moment.
	renewed(sent clock.Instant, r wire.Reply, now clock.Instant)
}

// Watchdog is one goroutine, which sleeps until the first thing is due, and does no I/O itself. The goroutine starts with
// the first alarm. A watchdog is safe for concurrent use.
type Watchdog struct {
	cfg   Config
	table lockTable
	conn  Sender
	tasks *task.Group

	// mu is a leaf: the watchdog calls nothing of the table or of a user while it holds it.
	mu      sync.Mutex
	rounds  map[roundKey]*round // the renewals under way; guarded by mu
	timer   *time.Timer         // nil until started
	armed   clock.Instant       // when the timer fires; zero means that it is not set
	stopped bool

	overdue  chan struct{} // has a token for what was due before its alarm
	stopping chan struct{}
	running  sync.WaitGroup
}

// newWatchdog returns a watchdog on anything that decides like a lock table.
func newWatchdog(cfg Config, t lockTable, conn Sender, tasks *task.Group) *Watchdog {
	return &Watchdog{
		cfg: cfg, table: t, conn: conn, tasks: tasks,
		rounds: make(map[roundKey]*round), overdue: make(chan struct{}, 1), stopping: make(chan struct{}),
	}
}

// Alarm makes the watchdog look at the table at a moment, or earlier. It does nothing once the watchdog is stopped.
func (w *Watchdog) Alarm(at clock.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arm(at)
}

// arm sets the timer if it would fire too late. A timer that fires for nothing is cheaper than a timer that is always exact:
// a lock that is acquired and released all day does not move it. mu must be held.
func (w *Watchdog) arm(at clock.Instant) {
	if w.stopped || w.armed != 0 && at >= w.armed {
		return
	}
	w.armed = at
	pause := at.Sub(clock.Now())
	if w.timer == nil {
		w.timer = time.NewTimer(pause)
		w.running.Go(w.run)
		return
	}
	if pause > 0 {
		w.timer.Reset(pause)
		return
	}
	select { // in a bubble of testing/synctest, Go 1.25 never returns from a Reset to the past
	case w.overdue <- struct{}{}:
	default:
	}
}

// Stop ends the watchdog, and waits for its goroutine until ctx ends. It must be called once.
func (w *Watchdog) Stop(ctx context.Context) {
	w.mu.Lock()
	w.stopped = true
	close(w.stopping)
	w.mu.Unlock()
	task.Await(ctx, &w.running)
}

func (w *Watchdog) run() {
	for {
		select {
		case <-w.timer.C:
			w.look()
		case <-w.overdue:
			w.look()
		case <-w.stopping:
			w.timer.Stop()
			return
		}
	}
}

// look does everything that is due.
func (w *Watchdog) look() {
	now := clock.Now()
	stalled, silent := w.stalled(now)
	for i, b := range stalled {
		stalled[i] = b.again()
	}
	if silent {
		w.conn.Silent() // long before the driver gives up a node that hangs
	}
	due := w.table.due(now, w.conn.BySlot())
	for _, release := range due.release {
		release()
	}
	w.send(slices.Concat(stalled, due.renew, due.inquire))
	due.deliver()
}
