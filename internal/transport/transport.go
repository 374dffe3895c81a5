// Package transport sends the calls of rlock. It gives them connection slots, lets their callers leave before the reply,
// waits for the acknowledgements of replicas, and gathers the calls of many goroutines into pipelines.
package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
)

// Config has the settings of a [Conn].
type Config struct {
	// CommandTimeout bounds how long a command may go without a reply.
	CommandTimeout time.Duration
	// Acks says which replicas acknowledge a call that asks for it. Nil means none.
	Acks *driver.Acks
	// Crowd is how many calls may be under way to a node outside pipelines; New limits it to Slots. Further calls are gathered
	// into pipelines, if the driver has connections for them. Negative means that none is gathered.
	Crowd int
	// Publish is how a release is announced.
	Publish wire.Publish
	// Slots limits how many connections per node the calls outside pipelines may use, see [driver.Info]. Renewals do not count.
	// Zero means no limit.
	Slots int
}

// Conn sends calls through a driver. It is safe for concurrent use.
type Conn struct {
	Config
	driver  driver.Driver
	tasks   *task.Group
	cluster bool
	bounded bool // the driver itself ends every command within the command timeout
	batches int  // how many batches may be under way to a node; zero means that nothing is gathered
	spare   int  // how many more may be while others are stuck
	bySlot  atomic.Bool

	masters sync.Map    // the master's address -> online
	errands sync.Pool   // of *errand
	pool    sync.Pool   // of *batch
	lane    *lane       // outside clusters
	lanes   sync.Map    // of a cluster: the node's address -> *lane
	routed  atomic.Bool // a node of the cluster was found, so that finding another one waits for nothing

	stale func(*fault.Error)
}

// New returns a connection that sends through a driver, and counts in tasks what Close has to wait for.
func New(cfg Config, d driver.Driver, tasks *task.Group) *Conn {
	info := d.Info()
	c := &Conn{Config: cfg, driver: d, tasks: tasks, cluster: info.Cluster, bounded: info.Bounded, spare: info.Spare}
	c.bySlot.Store(info.Cluster)
	if cfg.Crowd >= 0 {
		c.batches = info.Batches
	}
	if cfg.Slots > 0 {
		c.Crowd = min(cfg.Crowd, cfg.Slots) // a call waits in the queue for a batch rather than for a slot
	}
	c.lane = c.newLane()
	return c
}

// OnTopology sets the function that is called with every error that a stale topology could explain, after the driver
// was asked to refresh its topology. It must be called before the first call is sent.
func (c *Conn) OnTopology(stale func(*fault.Error)) { c.stale = stale }

// Late gets the reply of a call whose caller left, and the number of the question.
type Late interface {
	Late(number uint64, r wire.Reply, now clock.Instant)
}

// Slot says whether a call needs a connection slot. A call that is gathered takes none: for it, Slot says whether it goes past
// the batches if they take no calls for long.
type Slot uint8

// The needs for a slot.
const (
	// NoSlot is for unlocks and renewals, which must never wait until acquisitions have ended.
	NoSlot Slot = iota
	// WaitSlot is for acquisitions. If the wait for the slot ends without one, the call is not sent.
	WaitSlot
	// QuerySlot is for queries. It is like WaitSlot, but the wait also ends after the command timeout.
	QuerySlot
	// DutySlot is for background releases, and for the marks of calls that count once. Once the client is closed, they go without a
	// slot. The wait also ends after the command timeout.
	DutySlot
)

// Question is a call, and how it is to be sent. It is passed by value, because a pointer would cost an allocation for each call.
type Question struct {
	Call   wire.Call
	Slot   Slot
	Acked  bool   // replicas must acknowledge the call where Config.Acks says so
	Number uint64 // for late
	// Within is when the caller leaves at the latest, counted from the call of Ask. It covers the waits for a slot and for a
	// batch. Zero, or more than the command timeout, means the command timeout. For a call that is gathered, that timeout covers the
	// wait for a batch, [Conn.relieve] ends it up to patience later, and for any other call it counts from when there is a slot.
	Within time.Duration
	// Stop ends the wait for a slot when it is closed, with [fault.ErrClosed]. Nil means that only Close does.
	Stop <-chan struct{}

	node driver.Node // of a cluster, for a call that is gathered
}

// Ask sends a call and waits for the reply.
//
// Ask leaves when ctx ends, after Question.Within, or after the command timeout. Then the fate is [fault.Left], the command
// goes on, and late gets its reply; a nil late means that the reply is dropped. Nothing is sent if ctx has ended before, or if
// the call has no slot by then: then the fate is [fault.NotSent], and late gets nothing. With a bounded driver, a call that is
// not gathered runs in place if its ctx cannot end and it has no Within, because its caller never leaves. Once the tasks are
// retired, every call runs in place: no worker is left to run an unlock.
func (c *Conn) Ask(ctx context.Context, q Question, late Late) wire.Reply {
	c.prepare(&q)
	inPlace, ended := c.bounded && ctx.Done() == nil && q.Within == 0, ctx.Err()
	way, alone := c.enter(ctx, &q)
	if alone && inPlace || !c.tasks.Keep() {
		r, _ := c.send(ctx, &q, way, nil)
		if alone {
			way.exit()
		}
		return r
	}
	if ended != nil {
		c.tasks.End()
		if alone {
			way.exit()
		}
		return wire.Reply{N: -1, Err: notSent(ended)}
	}
	if !alone {
		return c.askGathered(ctx, &q, way, late)
	}
	return c.askAside(ctx, &q, way, late)
}

// prepare fills in what a question leaves to the connection.
func (c *Conn) prepare(q *Question) {
	if q.Within > c.CommandTimeout {
		q.Within = 0
	}
	if q.Call.Script.Announces != wire.Untold {
		q.Call.Args.Publish = c.publish(&q.Call)
	}
}

// publish returns how a script announces.
func (c *Conn) publish(call *wire.Call) wire.Publish {
	if c.cluster && call.Script.Announces == wire.Judging && c.Publish == wire.PublishPlain {
		return wire.PublishNode
	}
	return c.Publish
}

// send sends a call in place, and waits for a slot before if it needs one. A nil lane means that it is not known yet. A nil
// errand means that the caller stays. Nothing is sent if its caller has left by then, or if there was no slot: then sent is
// false.
func (c *Conn) send(ctx context.Context, q *Question, way *lane, e *errand) (r wire.Reply, sent bool) {
	if q.Slot != NoSlot && c.Slots > 0 {
		taken, err := c.take(ctx, q, way, e)
		if err != nil {
			return wire.Reply{N: -1, Err: err}, false
		}
		defer taken.free()
	}
	if e != nil && !e.proceed(running) {
		return wire.Reply{}, false
	}
	if q.Acked && c.Acks != nil {
		r = c.sendAcked(ctx, q.Call)
	} else {
		r = c.driver.Run(ctx, nil, q.Call)
		if r.Err != nil {
			c.note(r.Err)
		}
	}
	return r, true
}

// Pipe sends renewals in one pipeline: they need no slot and no acks. The node is ignored: the driver finds the nodes by the
// keys and follows redirections, because slots may have moved since the round of renewals began. Pipe ends within the command
// timeout if the driver heeds its context.
func (c *Conn) Pipe(ctx context.Context, _ driver.Node, calls []wire.Call, out []wire.Reply) {
	ctx, cancel := context.WithTimeout(ctx, c.CommandTimeout)
	defer cancel()
	for i := range calls {
		if calls[i].Script.Announces != wire.Untold {
			calls[i].Argv[0] = string(c.publish(&calls[i]))
		}
	}
	c.driver.Pipe(ctx, nil, calls, nil, out)
	for i := range calls {
		c.note(out[i].Err)
	}
}

// Node returns the master that has a key. It returns nil outside clusters.
func (c *Conn) Node(ctx context.Context, key string) (driver.Node, *fault.Error) {
	return c.driver.Node(ctx, key)
}

// BySlot reports whether a script may touch the keys of one slot only. This is so on a cluster, also if a proxy makes it
// look like a single server.
func (c *Conn) BySlot() bool { return c.bySlot.Load() }

// Silent notes that a command has had no reply for long, which a stale topology could explain. It is called long before the
// driver gives up a node that hangs.
func (c *Conn) Silent() { c.note(noAnswer()) }

// note refreshes the cluster topology after an error that a stale topology could explain.
func (c *Conn) note(err *fault.Error) {
	if err != nil && err.Code == "CROSSSLOT" {
		c.bySlot.Store(true)
	}
	if err == nil || !err.Stale {
		return
	}
	c.driver.Refresh()
	if c.stale != nil {
		c.stale(err)
	}
}

func noAnswer() *fault.Error {
	return &fault.Error{Fate: fault.Left, Transient: true, Stale: true, Err: fault.ErrNoAnswer}
}

// left returns the reply to a caller whose context ended, or that waited for as long as it may.
func (c *Conn) left(ctx context.Context) wire.Reply {
	err := &fault.Error{Fate: fault.Left, Transient: true, Err: ctx.Err()}
	if err.Err == nil {
		err = noAnswer()
		c.note(err)
	}
	return wire.Reply{N: -1, Err: err}
}

// noConnection returns the error of a call whose wait for a slot ended, because its context did or the time was over.
func noConnection(wait context.Context) *fault.Error {
	if err := wait.Err(); err != nil {
		return notSent(fmt.Errorf("%w: %w", fault.ErrNoConnection, err))
	}
	return notSent(fault.ErrNoConnection)
}

// unlocated returns the error of a call whose caller left before it was known which node has the key.
func (c *Conn) unlocated(ctx context.Context) *fault.Error {
	if err := ctx.Err(); err != nil {
		return notSent(err)
	}
	err := unsent(noAnswer())
	c.note(err)
	return err
}

func notSent(err error) *fault.Error {
	return &fault.Error{
		Fate: fault.NotSent, Transient: !errors.Is(err, fault.ErrClosed), Err: fmt.Errorf("%w: %w", fault.ErrNotSent, err),
	}
}
