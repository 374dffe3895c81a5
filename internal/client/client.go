// Package client carries out the decisions of the lock table: it has the loops of the verbs, their sleeps, and the
// implementation of a hold. A Client has all parts of one client.
package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/pubsub"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/watchdog"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// Config is the options of a client.
type Config struct {
	// Table has the options on which decisions depend. New fills in Acks and Cluster.
	Table config.Config
	// Acks is how many replicas acknowledge an acquisition. Zero means that it does not wait for any, and negative that it waits for all that
	// are online.
	Acks       int
	AckTimeout time.Duration
	// Classic says that the channels of a cluster are not sharded.
	Classic bool
	// Logger returns where log lines go. It is called for each of them.
	Logger func() *slog.Logger
	// Identity is what the client has Redis say about it. Nil means nothing. IdentityKey returns the key of a client's identity.
	Identity    *wire.Identity
	IdentityKey func(clientID string) string
	// Observers are told what the client does. Client is what they know it by.
	Observers []observe.Observer
	Client    observe.Client
}

// Client has all parts of one client: its lock table, its connections and its goroutines. It is safe for concurrent use.
type Client struct {
	cfg      Config
	driver   driver.Driver
	tasks    *task.Group
	conn     *transport.Conn
	hub      *pubsub.Hub
	table    *table.Table
	core     *core.Client
	finished finished
	turns    turns    // at plain semaphores
	holds    sync.Map // the holds that have an ID, by it
	dog      *watchdog.Watchdog

	closing  sync.Once
	left     int           // the acquisitions that were yet to be unlocked when Close was called
	leftOf   []string      // their names
	stopping chan struct{} // closed by Shutdown and by Close
	stop     sync.Once     // closes stopping
	values   sync.Map
	log      logLimit
	reports  *report.Reports
	identity *identity // nil means that it has none
}

// New returns a client that locks through a driver. It sends nothing, and starts no goroutine yet.
func New(cfg Config, d driver.Driver) *Client {
	info := d.Info()
	cfg.Table.Acks, cfg.Table.Cluster = cfg.Acks != 0, info.Cluster
	c := &Client{cfg: cfg, tasks: task.New(), stopping: make(chan struct{})}
	d = driver.Checked(d)
	c.driver = d
	c.reports = report.New(cfg.Observers, func(err error) {
		c.Log(notice.Entry{Message: notice.LogObserverPanicked, Err: err})
	})
	send := transport.Config{CommandTimeout: cfg.Table.CommandTimeout, Crowd: cfg.Table.Crowd, Slots: info.Slots}
	if cfg.Acks != 0 {
		send.Acks = &driver.Acks{Replicas: cfg.Acks, Timeout: cfg.AckTimeout}
	}
	if cfg.Identity != nil {
		c.identity = &identity{client: c}
	}
	c.hub = pubsub.New(pubsub.Config{
		ClientID: cfg.Table.ClientID, Classic: cfg.Classic,
		OnLost:     func(err error) { c.reports.Event(observe.EventSubscriptionLost, "", err) },
		OnReplaced: func() { c.reports.Event(observe.EventSubscriptionReplaced, "", nil) },
		OnMessage:  c.onMessage, OnFreed: c.onFreed, OnUnwatched: c.onUnwatched,
	}, d, c.tasks)
	send.Publish = c.hub.Publish()
	c.conn = transport.New(send, d, c.tasks)
	c.table = table.New(cfg.Table, c.tasks, c.hub, c)
	c.core = core.New(core.Config{
		ID: cfg.Table.ClientID, CommandTimeout: cfg.Table.CommandTimeout, WatchdogTimeout: cfg.Table.WatchdogTimeout, MaxHold: cfg.Table.MaxHold,
		Poll: cfg.Table.PollInterval, Acks: cfg.Acks != 0, Publish: c.hub.How(), Number: c.table.Number,
	}, core.Parts{Conn: c.conn, Hub: c.hub, Tasks: c.tasks, Receiver: c, Stopping: c.stopping})
	c.dog = watchdog.New(watchdog.Config{CommandTimeout: cfg.Table.CommandTimeout}, c.table, c.conn, c, c.cleanUp, c.tasks)
	c.dog.Also(c.core)
	c.conn.OnTopology(c.hub.Topology)
	return c
}

// Close stops the client: see the root package. Calling it again does nothing.
func (c *Client) Close() {
	c.closing.Do(func() {
		var n notice.List
		c.left, c.leftOf = c.table.Close(clock.Now(), &n)
		open, names := c.core.Close(&n, fault.ErrClosed)
		c.left, c.leftOf = c.left+open, append(c.leftOf, names...)
		c.hub.Leave()
		c.tasks.Close()
		c.wakeAll()
		n.Deliver(c)
		ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Table.CommandTimeout)
		defer cancel()
		c.tasks.Wait(ctx)
		c.dog.Stop(ctx)
		c.hub.Stop(ctx)
		c.tasks.Stop(ctx)
		c.driver.Close(ctx)
		last, end := context.WithTimeout(context.Background(), reportsWithin)
		defer end()
		c.reports.Wait(last) // a moment for what the observers have yet to be told
		c.reports.Ends(c.cfg.Client, reportsWithin)
	})
}

// reportsWithin is how long Close waits for observers: for their last reports, and once more for the one of its own end.
const reportsWithin = time.Second

// Config returns the client's options.
func (c *Client) Config() *Config { return &c.cfg }

// Table returns the lock table, for tests and for questions about it.
func (c *Client) Table() *table.Table { return c.table }

// Counts counts the holds and the waiting calls.
func (c *Client) Counts() (n table.Counts) {
	n, of := c.table.Counts(), c.core.Counts()
	n.Held, n.Waiting, n.InDoubt = n.Held+of.Held, n.Waiting+of.Waiting, n.InDoubt+of.InDoubt
	n.Acquired, n.Losses = n.Acquired+of.Acquired, n.Losses+of.Losses
	n.Renewals, n.RenewalFailures = n.Renewals+of.Renewals, n.RenewalFailures+of.RenewalFailures
	return n
}

// Core returns the locks by turns, for tests and for questions about them.
func (c *Client) Core() *core.Client { return c.core }

// Hub returns the pub/sub hub, for tests and for questions about it.
func (c *Client) Hub() *pubsub.Hub { return c.hub }

// Background runs a function on a goroutine for which Close waits. Once Close no longer waits, it runs the function in place.
func (c *Client) Background(job func()) { c.tasks.Background(job) }

// Aside runs a function on another goroutine, also after Close, which does not wait for it.
func (c *Client) Aside(job func()) { c.tasks.Run(task.Func(job)) }

// Reports returns what calls the observer, or nil if there is none.
func (c *Client) Reports() *report.Reports { return c.reports }

// Busy returns how many operations, commands and background duties are under way.
func (c *Client) Busy() int { return c.tasks.Count() }

// IsClosed reports whether Close was called.
func (c *Client) IsClosed() bool { return c.tasks.IsClosed() }

// Value returns what another floor attached to the client under a key. The first call for a key makes it.
func (c *Client) Value(key any, create func() any) any {
	if v, ok := c.values.Load(key); ok {
		return v
	}
	v, _ := c.values.LoadOrStore(key, create())
	return v
}

// Retired reports whether [Client.Background] runs functions in place.
func (c *Client) Retired() bool { return c.tasks.Retired() }

// Listen wakes a caller through a channel with room for a token, on each message of a channel in Redis and each confirmation.
func (c *Client) Listen(channel string, wake chan struct{}) { c.hub.Listen(channel, wake, 0) }

// Unlisten implements [notice.Receiver].
func (c *Client) Unlisten(channel string, wake chan struct{}) { c.hub.Unlisten(channel, wake) }

// Watch implements [notice.Receiver].
func (c *Client) Watch(channel, twin string) { c.hub.Watch(channel, twin) }

// Unwatch implements [notice.Receiver].
func (c *Client) Unwatch(channel, twin string) { c.hub.Unwatch(channel, twin) }

// Alarm implements [notice.Receiver].
func (c *Client) Alarm(at clock.Instant) { c.dog.Alarm(at) }

// cleanUp carries out a background release on a worker. The table has begun a duty for it, and ends it.
func (c *Client) cleanUp(x *table.Exit) {
	c.tasks.Run(task.Func(func() {
		var n notice.List
		step := c.table.ResumeRelease(x, clock.Now(), &n)
		_ = c.release(context.Background(), x, step, &n) // the table logs a failure
	}))
}

// question returns the question of a step, and who gets its reply if its caller leaves. need is the slot of a step that needs
// one.
func (c *Client) question(step *table.Step, need transport.Slot) (q transport.Question, late transport.Late) {
	if step.Late != nil { // a nil *Grant must not become a Late that is not nil
		late = step.Late
	}
	if !step.Slot {
		need = transport.NoSlot
	}
	q = transport.Question{Call: step.Call, Slot: need, Acked: step.Acked, Number: step.Number, Within: step.Within}
	if need == transport.WaitSlot && !step.Stays {
		q.Stop = c.stopping
	}
	return q, late
}
