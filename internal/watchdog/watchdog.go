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

// Source is what has holds, as a lock table does. The watchdog calls neither it nor a batch while it holds its mutex.
type Source interface {
	// Due returns what is due. bySlot means that a call may have the keys of one slot only.
	Due(now clock.Instant, bySlot bool) Work
}

// Work is everything that is due.
type Work struct {
	Renew   []Batch
	Release []func() // each starts a background release and does not wait for it
	Deliver func()   // delivers the notices; it may run code of the user
}

// Batch is locks that one call of a script renews.
type Batch interface {
	// Name returns the name in Redis of one of the locks, which decides the node.
	Name() string
	// Shortest returns the lease that leaves the least time for the reply.
	Shortest() time.Duration
	// Again returns the batch as one to which there was no reply in time.
	Again() Batch
	// Wanted returns the locks that still have to be renewed, and the call for them. A call without keys means that there is
	// nothing.
	Wanted(now clock.Instant) (Batch, wire.Call)
	// Renewed takes in the reply to a call that was sent at a moment.
	Renewed(sent clock.Instant, r wire.Reply, now clock.Instant)
}

// Watchdog is one goroutine, which sleeps until the first thing is due, and does no I/O itself. The goroutine starts with
// the first alarm. A watchdog is safe for concurrent use.
type Watchdog struct {
	cfg     Config
	sources []Source
	conn    Sender
	tasks   *task.Group

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

// Of returns a watchdog of a source that does nothing until the first alarm. [Watchdog.Stop] stops it.
func Of(cfg Config, t Source, conn Sender, tasks *task.Group) *Watchdog {
	return &Watchdog{
		cfg: cfg, sources: []Source{t}, conn: conn, tasks: tasks,
		rounds: make(map[roundKey]*round), overdue: make(chan struct{}, 1), stopping: make(chan struct{}),
	}
}

// Also adds a source. It must be called before the first alarm.
func (w *Watchdog) Also(s Source) { w.sources = append(w.sources, s) }

// Alarm makes the watchdog look at its sources at a moment, or earlier. It does nothing once the watchdog is stopped.
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
		stalled[i] = b.Again()
	}
	if silent {
		w.conn.Silent() // long before the driver gives up a node that hangs
	}
	for _, s := range w.sources {
		due := s.Due(now, w.conn.BySlot())
		for _, release := range due.Release {
			release()
		}
		w.send(slices.Concat(stalled, due.Renew))
		due.Deliver()
		stalled = nil
	}
}
