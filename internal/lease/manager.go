// Package lease carries out the decisions of the lock table: it has the loops of the verbs, their sleeps, and the
// implementation of a hold. A Manager has all parts of one client.
package lease

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/latch"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/signal"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/watchdog"
	"github.com/go-rlock/rlock/internal/wire"
)

// Config is the options of a client.
type Config struct {
	// Table has the options on which decisions depend. New fills in Acks and Cluster.
	Table table.Config
	// Acks is how many replicas acknowledge an acquisition. Zero means that it does not wait for any.
	Acks       int
	AckTimeout time.Duration
	Sharded    signal.Mode
	// Crowd is how many calls go out to a node by themselves at a time: see [transport.Config].
	Crowd int
	// Logger returns where log lines go. It is called for each of them.
	Logger func() *slog.Logger
	// Identity is what the client has Redis say about it. Nil means nothing. IdentityKey returns the key of a client's identity.
	Identity    *wire.Identity
	IdentityKey func(clientID string) string
	// Observers are told what the client does. Client is what they know it by.
	Observers []observe.Observer
	Client    any
}

// Manager has all parts of one client: its lock table, its connections and its goroutines. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	driver  driver.Driver
	tasks   *task.Group
	conn    *transport.Conn
	hub     *signal.Hub
	table   *table.Table
	latches *latch.Set
	settled settled
	dropped dropped
	dog     *watchdog.Watchdog

	closing  sync.Once
	left     int           // the acquisitions that were yet to be unlocked when Close was called
	leftOf   []string      // their names
	stopping chan struct{} // closed by Shutdown and by Close
	stop     sync.Once     // closes stopping
	values   sync.Map
	log      lineLimit
	panics   atomic.Bool // whether it was logged that code of the user panicked
	mute     atomic.Bool // whether the log handler has panicked
	reports  *observe.Reports
	identity *identity // nil means that it has none
}

// New returns a manager that locks through a driver. It sends nothing, and starts no goroutine yet.
func New(cfg Config, d driver.Driver) *Manager {
	info := d.Info()
	cfg.Table.Acks, cfg.Table.Cluster = cfg.Acks > 0, info.Cluster
	m := &Manager{cfg: cfg, tasks: task.New(), stopping: make(chan struct{})}
	m.tasks.OnPanic(m.panicked)
	d = driver.Checked(d, m.panicked)
	m.driver = d
	m.reports = observe.New(cfg.Observers, func(err error) {
		m.Log(table.Line{Message: notice.LogObserverPanicked, Err: err})
	})
	send := transport.Config{CommandTimeout: cfg.Table.CommandTimeout, Crowd: cfg.Crowd, Slots: info.Slots}
	if cfg.Acks > 0 {
		send.Acks = &driver.Acks{Replicas: cfg.Acks, Timeout: cfg.AckTimeout}
	}
	if cfg.Identity != nil {
		m.identity = &identity{m: m}
	}
	m.conn = transport.New(send, d, m.tasks)
	m.hub = signal.New(signal.Config{
		ClientID: cfg.Table.ClientID, Sharded: cfg.Sharded,
		Denied:   func(err error) { m.Log(table.Line{Message: notice.LogUnsubscribed, Err: err}) },
		Classic:  func() { m.Log(table.Line{Message: notice.LogClassic}) },
		Lost:     func(err error) { m.reports.Event(notice.SubscriptionLost, "", err) },
		Replaced: func() { m.reports.Event(notice.SubscriptionReplaced, "", nil) },
		Hear:     m.hear, Freed: m.freed, Unwatched: m.unwatched, Refused: m.refused,
	}, d, m.tasks)
	m.table = table.New(cfg.Table, m.tasks, m.hub, m)
	m.latches = latch.New(&m.cfg.Table)
	m.dog = watchdog.New(watchdog.Config{CommandTimeout: cfg.Table.CommandTimeout}, m.table, m.conn, m, m.cleanUp, m.collectDrops, m.tasks)
	m.conn.Publisher(m.hub.Publish)
	m.conn.OnTopology(m.hub.Topology)
	return m
}

// Close stops the client: see the root package. Calling it again does nothing.
func (m *Manager) Close() {
	m.closing.Do(func() {
		m.endDrops()
		var n table.Notices
		m.left, m.leftOf = m.table.Close(clock.Now(), &n)
		m.hub.Leave()
		m.tasks.Close()
		m.wakeAll()
		n.Deliver(m)
		ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Table.CommandTimeout)
		defer cancel()
		m.tasks.Wait(ctx)
		m.dog.Stop(ctx)
		m.hub.Stop(ctx)
		m.identity.forget(ctx)
		m.tasks.Stop(ctx)
		m.driver.Close(ctx)
		m.tellOwed()
		m.lastReports()
		m.reports.Client(m.cfg.Client, false)
	})
}

// lastReports gives the observers a moment for what they have yet to be told.
func (m *Manager) lastReports() {
	ctx, cancel := context.WithTimeout(context.Background(), reportsWithin)
	defer cancel()
	m.reports.Wait(ctx)
}

// reportsWithin is how long Close waits for observers.
const reportsWithin = time.Second

// tellOwed logs what Close has left undone.
func (m *Manager) tellOwed() {
	var n table.Notices
	m.table.Closed(&n)
	n.Deliver(m)
}

// Config returns the client's options.
func (m *Manager) Config() *Config { return &m.cfg }

// Table returns the lock table, for tests and for questions about it.
func (m *Manager) Table() *table.Table { return m.table }

// Hub returns the pub/sub hub, for tests and for questions about it.
func (m *Manager) Hub() *signal.Hub { return m.hub }

// Background runs a function on a goroutine for which Close waits. Once Close no longer waits, it runs the function in place.
func (m *Manager) Background(job func()) { m.tasks.Background(job) }

// Aside runs a function on another goroutine, also after Close, which does not wait for it.
func (m *Manager) Aside(job func()) { m.tasks.Run(task.Func(job)) }

// Reports returns what calls the observer, or nil if there is none.
func (m *Manager) Reports() *observe.Reports { return m.reports }

// Busy returns how many operations, commands and background duties are under way.
func (m *Manager) Busy() int { return m.tasks.Count() }

// IsClosed reports whether Close was called.
func (m *Manager) IsClosed() bool { return m.tasks.IsClosed() }

// Value returns what another floor attached to the client under a key. The first call for a key makes it.
func (m *Manager) Value(key any, create func() any) any {
	if v, ok := m.values.Load(key); ok {
		return v
	}
	v, _ := m.values.LoadOrStore(key, create())
	return v
}

// Retired reports whether [Manager.Background] runs functions in place.
func (m *Manager) Retired() bool { return m.tasks.Retired() }

// Listen wakes a caller through a channel with room for a token, on each message of a channel in Redis and each confirmation.
func (m *Manager) Listen(channel string, wake chan struct{}) { m.hub.Listen(channel, wake, 0) }

// Unlisten implements [table.Told].
func (m *Manager) Unlisten(channel string, wake chan struct{}) { m.hub.Unlisten(channel, wake) }

// Watch implements [table.Told].
func (m *Manager) Watch(channel, twin string) { m.hub.Watch(channel, twin) }

// Unwatch implements [table.Told].
func (m *Manager) Unwatch(channel, twin string) { m.hub.Unwatch(channel, twin) }

// Alarm implements [table.Told].
func (m *Manager) Alarm(at clock.Instant) { m.dog.Alarm(at) }

// cleanUp carries out a background release on a worker. The table has begun a duty for it, and ends it.
func (m *Manager) cleanUp(x *table.Exit) {
	m.tasks.Run(task.Func(func() {
		var n table.Notices
		step := m.table.ResumeRelease(x, clock.Now(), &n)
		_ = m.release(context.Background(), x, step, &n) // the table logs a failure
	}))
}

// ask sends a step's call. need is the slot of a step that needs one. connects means that the call may have to connect first.
func (m *Manager) ask(ctx context.Context, step *table.Step, need transport.Slot, connects bool) wire.Reply {
	var late transport.Late
	if step.Late != nil { // a nil *Grant must not become a Late that is not nil
		late = step.Late
	}
	if !step.Slot {
		need = transport.NoSlot
	}
	q := transport.Question{Call: step.Call, Slot: need, Acked: step.Acked, Within: step.Within, Connects: connects}
	if need == transport.WaitSlot && !step.Stays {
		q.Stop = m.stopping
	}
	return m.conn.Ask(ctx, q, late)
}
