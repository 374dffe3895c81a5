// Package core is the next core of rlock: locks by which processes take turns, whose scripts hand them on. It takes the place of the lock table
// and of the scripts of the former line, one kind of lock after another. Semaphores use it, the other kinds not yet.
//
// The verbs read from top to bottom: they block, and each goroutine judges what it is told itself. All that several goroutines share is under
// one mutex, under which nobody waits. Time is Redis's where it decides: a command that can make a holder says until when it may, so nothing
// comes of a late one.
package core

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/pubsub"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// Config has the options of a client.
type Config struct {
	// ID is the client's UUID.
	ID string
	// CommandTimeout bounds how long a command may go without a reply, and how late it may be executed.
	CommandTimeout time.Duration
	// WatchdogTimeout is the lease of a lock that is renewed.
	WatchdogTimeout time.Duration
	// MaxHold ends a hold that lasts longer. Zero means no limit.
	MaxHold time.Duration
	// Poll is after how long a waiter that has heard nothing asks for the first time, if that is less than usual. Zero means as usual.
	Poll time.Duration
	// Acks says that acquisitions wait for replicas.
	Acks bool
	// Publish is how scripts publish: s on sharded channels of a cluster, n on channels of a cluster that are not, whose listeners nobody can
	// count, and nothing otherwise.
	Publish string
	// Number returns a number that no other holder of the client has.
	Number func() int64
}

// Parts are what a client uses.
type Parts struct {
	Conn     *transport.Conn
	Hub      *pubsub.Hub
	Tasks    *task.Group
	Receiver notice.Receiver
	// Stopping is closed when waits are to end, because the client shuts down.
	Stopping <-chan struct{}
}

// Client has the locks of one client. It is safe for concurrent use.
type Client struct {
	Parts
	cfg   Config
	clock serverClock

	mu       sync.Mutex
	names    map[nameKey]*name                // those in use
	backs    queue.Memory[nameKey, time.Time] // until when this process leaves names to others
	grants   queue.Heap[*grant, clock.Instant]
	fenced   queue.Memory[nameKey, bool] // those acquired with a token not long ago; true means also without, which was logged
	counts   Counts
	unlocks  int  // under way
	stopping bool // Stop or Close was called
	closed   bool
	drained  chan struct{} // closed when the client is stopping and nothing is held that somebody could unlock
}

// Counts is what happened in a client, and what is the case at one moment.
type Counts struct {
	Held, Waiting, InDoubt                                 int
	Acquired, HandOvers, Renewals, RenewalFailures, Losses uint64
}

// New returns a client. It sends nothing yet. The caller makes it a source of its watchdog.
func New(cfg Config, parts Parts) *Client {
	if cfg.Poll = min(cfg.Poll, firstPoll); cfg.Poll == 0 {
		cfg.Poll = firstPoll
	}
	return &Client{
		Parts: parts, cfg: cfg, names: make(map[nameKey]*name), backs: queue.NewMemory[nameKey, time.Time](64),
		fenced: queue.NewMemory[nameKey, bool](256), drained: make(chan struct{}),
	}
}

// Counts counts.
func (c *Client) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Line returns how many attempts of this process wait for a lock, and whether the first of them sleeps and whether it is reached by messages.
func (c *Client) Line(k *Kind, key string) (waiters int, rests, listens bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.names[nameKey{k.channel, key}]
	if n == nil {
		return 0, false, false
	}
	for _, a := range n.live {
		if a.grant == nil {
			waiters++
		}
	}
	if n.heldHere() != nil && len(n.queue) > 0 { // its unlock wakes them
		return waiters, true, true
	}
	return waiters, n.asks != nil && n.asks.rests, n.topic != nil && n.hears()
}

// Names returns how many names are in use.
func (c *Client) Names() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.names)
}

// Stop has waits end, and tells the holders, which stay holders. The channel that it returns is closed when nothing is held any more that
// somebody could unlock. It may be called again.
func (c *Client) Stop(n *notice.List, why error) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopping {
		c.stopping = true
		for _, g := range c.grants.All() {
			for _, h := range g.holds {
				h.ending.Tell(why, n)
			}
		}
		c.drain()
	}
	return c.drained
}

// drain closes the channel of Stop once nothing is held, and no unlock is under way. mu must be held.
func (c *Client) drain() {
	if c.stopping && c.counts.Held+c.unlocks == 0 && !isClosed(c.drained) {
		close(c.drained)
	}
}

// Close ends all holds for their users, and all renewals. It returns how many were yet to be unlocked, or are just being, and of which names. What is
// held stays held in Redis until its lease ends.
func (c *Client) Close(n *notice.List, why error) (open int, names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping, c.closed = true, true
	for all := c.grants.All(); len(all) > 0; all = c.grants.All() {
		for range all[0].holds {
			names = append(names, all[0].attempt.t.Name)
		}
		all[0].witness(clock.Now(), why, n)
		c.end(all[0], why, n)
	}
	return len(names) + c.unlocks, names
}

type nameKey struct {
	channel string // of the kind
	key     string
}

// name is a lock, as long as somebody of this process waits for it, holds it, or releases it in the background. Its client's mutex guards it.
type name struct {
	client    *Client
	kind      *Kind
	key       nameKey
	keys      []any       // the lock, its line, and one more
	clock     serverClock // of the server that has it
	base, own string
	channels  []string                  // the public one, its twin, and the client's own
	asks      *attempt                  // who asks Redis for all of this process, or has got the lock by that
	held      *grant                    // what this process has of a lock that nobody shares
	queue     []*attempt                // who waits for that
	live      map[int64]*attempt        // who may be granted the lock, or has it
	leaving   map[int64]bool            // who releases it just now, and whether a grant has come meanwhile
	owners    map[*owner.Owner]*attempt // the one of each owner, whose other calls wait for that
	forced    int64                     // when it was last unlocked by force, in us of Redis
	uses      int                       // attempts and releases, the name is forgotten after
	topic     *topic                    // nil while nobody listens
}

// use returns the name of a key, which the caller has to leave.
func (c *Client) use(k *Kind, key string) *name {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := nameKey{k.channel, key}
	n := c.names[id]
	if n == nil {
		keys, base := k.Keys(key)
		n = &name{client: c, kind: k, key: id, keys: keys, base: base, live: make(map[int64]*attempt), leaving: make(map[int64]bool)}
		n.own = fmt.Sprint(keys[1], ":", c.cfg.ID)
		n.channels = []string{base, base + ":rlock", n.own}
		c.names[id] = n
	}
	n.uses++
	return n
}

// unuse ends a use. The client's mutex must be held.
func (n *name) unuse() {
	if n.uses--; n.uses == 0 {
		delete(n.client.names, n.key)
	}
}

// Terms are what an acquisition wants.
type Terms struct {
	Kind    *Kind
	Name    string        // as the user calls it
	Key     string        // in Redis
	Flags   string        // t for a token; of permits, how many
	Lease   time.Duration // how long the lock is held unless it is renewed
	Renewed bool          // until it is unlocked
	AtLeast time.Duration // how long the lock stays taken, even if it is unlocked before
	Ticket  string        // the field that the lock is taken over from; empty means that it is acquired
	Single  bool          // it asks once, and waits for nobody
	SetsUp  bool          // its caller sets the semaphore up if nobody has
	Spin    Spin          // how it asks if it is told nothing; zero means that it listens
	Who     owner.Who     // for whom
	Once    bool          // the owner must not have it already
	Opened  *Opened       // those of its handle, which unlocks it; nil means that only the hold does
	// Context returns the context that bounds what comes next: that of the wait once something is known, and before that the caller's, so that a short
	// wait does not cut the first question off, which lasts until Bound.
	Context func(known bool) context.Context
	Bound   clock.Instant // zero means that the context and the command timeout decide
	Witness notice.Witness
	// Denied adds to an error of Redis what its reader needs.
	Denied func(error) error
}

// Spin is how a waiter asks that nobody tells anything: after the first delay, and then after twice as long each time, up to the longest one.
type Spin struct{ First, Longest time.Duration }

// Outcome is why an acquisition has no hold, and what happened to it.
type Outcome struct {
	Err     error          // why it could not be, or nil
	Last    outcome.Result // what is known of the lock otherwise
	HeldFor time.Duration  // how long this process holds it; zero means that it does not
	Seen    notice.Seen

	ended bool // the owner has the lock, and could not re-enter it
}

// attempt is one acquisition of a lock, with a number that no other one of its client has.
type attempt struct {
	*name
	t      *Terms
	number int64
	field  string // of its holder
	member string // of the line
	flags  string
	millis int64          // of its lease
	inbox  chan message   // what it is told while it waits
	turn   chan turn      // when it has waited for others of this process
	grant  *grant         // what it has got; its client's mutex guards it
	known  outcome.Record // what its questions have shown; its client's mutex guards it
	rests  bool           // it sleeps until it is told something; its client's mutex guards it

	// Its goroutine's.
	out    Outcome
	told   bool  // Redis has replied, or a question has failed
	stood  bool  // it may stand in the line, or have the lock
	first  bool  // it is the first there
	said   said  // when it was last refused
	open   int64 // until when, in us of Redis, a command that got no reply may make it a holder
	sleeps bool  // it counts as waiting
	gone   bool  // its caller has gone, and another goroutine ends it

	owner *owner.Owner  // under which it is in owners
	done  chan struct{} // closed when it is over, for other calls of its owner; its client's mutex guards it
}

// turn is how an attempt comes to be the one that asks.
type turn struct {
	hold  *Hold // a release gave it the lock; nil means that it has to ask
	stood bool  // a release has put it into the line
	open  int64 // until when a release may still give it the lock
	unset bool  // it need not ask: nobody has set the semaphore up
}

// newAttempt returns an attempt, or the one for which it has to wait, because that is of the same owner.
func (c *Client) newAttempt(t *Terms) (a, first *attempt) {
	a = &attempt{name: c.use(t.Kind, t.Key), t: t, number: c.cfg.Number(), flags: t.Flags, millis: wire.Millis(t.Lease)}
	if first = a.of(t.Who.Now()); first != nil {
		return nil, first
	}
	a.field = c.cfg.ID + ":" + strconv.FormatInt(a.number, 10)
	a.member = strings.Join([]string{a.field, strconv.FormatInt(a.millis, 10), a.flags}, "|")
	return a, nil
}

// mostLate is how late a command may be executed at most. Scripts take a later notAfter for that of another clock.
const mostLate = 30 * time.Second

// now returns the time of the server that has the name, or of another one as long as that is not known.
func (n *name) now() int64 {
	if n.clock.known() {
		return n.clock.now()
	}
	return n.client.clock.now()
}

// until returns the notAfter of a command that is sent now.
func (n *name) until() int64 {
	return n.now() + min(n.client.cfg.CommandTimeout, mostLate).Microseconds()
}

// send sends a call, and learns Redis's time from its reply.
func (a *attempt) send(ctx context.Context, q transport.Question, late transport.Late) (r wire.Reply, sent time.Time) {
	c := a.client
	sent = time.Now()
	r = c.Conn.Ask(ctx, q, late)
	if r.Err == nil {
		now, at := time.Now(), a.takenAt(&r)
		a.clock.learn(sent, now, at)
		c.clock.learn(sent, now, at)
	}
	return r, sent
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
