// Package table is the lock table: everything that one client of this process knows about its locks, their holders, their
// waiters and their deadlines. It decides, and others carry out its decisions: it does no I/O, starts no goroutine and
// reads no clock. The verbs, the watchdog and late replies report what happened, and get the next [Step].
//
// Each exported method takes the table's mutex once. What has to be told to others when the mutex is free again is in the
// caller's [Notices].
package table

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/internal/yield"
)

// Config is what the decisions depend on. All durations are positive unless said otherwise.
type Config struct {
	ClientID        string
	WatchdogTimeout time.Duration // the lease of a hold that is renewed
	CommandTimeout  time.Duration
	PollInterval    time.Duration // the longest sleep of a waiter
	MaxHold         time.Duration // zero means no limit
	FairWait        time.Duration // for how long a silent waiter keeps its place in a queue in Redis
	BatchSize       int           // how many locks one renewal names
	HandOvers       int           // how many local hand-overs may follow each other; zero means none
	HandOverTime    time.Duration // for how long they may; zero means not at all
	Lazy            bool          // local hand-overs may skip Redis
	StandBack       time.Duration // for how long a public release is left to other processes
	Acks            bool          // acquisitions wait for replicas
	Cluster         bool          // the receivers of a message at other nodes are not known

	// Random returns a duration from 0 up to and without d. Nil means the default source.
	Random func(d time.Duration) time.Duration
}

// Messages is implemented by the pub/sub hub. The table calls it while it holds its mutex.
type Messages interface {
	// Heard returns how many messages of a channel arrived, and whether this client receives them now.
	Heard(channel string) (messages uint64, subscribed bool)
}

// Told receives notices. It is called without the table's mutex.
type Told interface {
	// Alarm asks for a call of [Table.Due] at that moment at the latest.
	Alarm(at clock.Instant)
	// Unlisten ends what [Step.Listen] began.
	Unlisten(channel string, heard chan struct{})
	// Warn logs. It must not block.
	Warn(w Warning)
}

// Key identifies what excludes each other: one name in Redis, as one family of locks, at one client. It is also the key
// under which a context carries a hold.
type Key struct {
	Table  *Table
	Name   string
	Family wire.Family
}

// sideKey identifies what one owner holds at most once.
type sideKey struct {
	Key
	side wire.Side
}

type grantKey struct {
	sideKey
	owner *Owner
}

// Table is the lock table of one client. It is safe for concurrent use. The zero value is not usable: see [New].
//
// Lock order: a group's mutexes, then the table's, then those of an owner, the pub/sub hub and the alarm.
type Table struct {
	cfg      Config
	tasks    *task.Group
	messages Messages
	told     Told

	mu       sync.Mutex // guards what follows, and all grants, acquisitions, attempts, exits and the lists of handles
	sections uint64     // how often mu was taken
	closed   bool
	number   int64 // of the latest grant
	// exclusive has the exclusive holder of each name, by family.
	exclusive [wire.Families]map[string]*Grant
	grants    map[grantKey]*Grant // of owners that may have more than one
	lines     map[Key]*line       // the local queues
	spare     []*line             // ready for reuse
	public    yield.Releases[Key]
	heap      queue.Heap[*Grant, clock.Instant] // the grants that have a due time
	armed     clock.Instant                     // the alarm that was asked for; zero means none
	forced    []Key                             // the latest names unlocked by force
	forcings  int                               // how many there were in all
}

// New returns an empty table.
func New(cfg Config, tasks *task.Group, messages Messages, told Told) *Table {
	if cfg.Random == nil {
		cfg.Random = func(d time.Duration) time.Duration { return rand.N(d) }
	}
	t := &Table{
		cfg: cfg, tasks: tasks, messages: messages, told: told,
		grants: make(map[grantKey]*Grant), lines: make(map[Key]*line),
	}
	for i := range t.exclusive {
		t.exclusive[i] = make(map[string]*Grant)
	}
	return t
}

// lock takes the mutex.
func (t *Table) lock() {
	t.mu.Lock()
	t.sections++
}

// Key returns the key of a name in Redis.
func (t *Table) Key(name string, family wire.Family) Key { return Key{t, name, family} }

// Close ends every hold for its users, with [fault.ErrClosed], and all renewals. Releases under way go on, and those in
// the background are due at once. Later attempts get ErrClosed.
func (t *Table) Close(now clock.Instant, n *Notices) {
	t.lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, g := range slices.Clone(t.heap.All()) {
		g.endAcquisitions(n, fault.ErrClosed, "")
		switch g.stage {
		case held:
			t.heap.Remove(g)
		case retiring:
			g.due = now
			t.plan(g, n)
		default: // an expired grant has its release before it
		}
	}
}

// maxForced is how many unlocks by force a table remembers.
const maxForced = 64

// Forced ends what this client holds of a name, after an unlock by force. A grant that Redis made between that unlock and
// this moment is ended with the others, and released. An acquisition whose reply is still on its way is not relied on,
// because Redis may have granted it before.
func (t *Table) Forced(k Key, now clock.Instant, n *Notices) {
	t.lock()
	defer t.mu.Unlock()
	if len(t.forced) == maxForced {
		t.forced = slices.Delete(t.forced, 0, 1)
	}
	t.forced = append(t.forced, k)
	t.forcings++
	for _, g := range slices.Clone(t.heap.All()) { // it has every grant that is held
		if g.handle.Key == k && (g.stage == held || g.stage == expired) {
			t.lose(g, lostByForce, true, now, n)
		}
	}
}

// forcedSince reports whether a name may have been unlocked by force since so many unlocks had been.
func (t *Table) forcedSince(k Key, count int) bool {
	since := t.forcings - count
	return since > len(t.forced) || slices.Contains(t.forced[len(t.forced)-since:], k)
}

// Holds reports whether an owner holds the lock of a handle, as far as this process knows.
func (t *Table) Holds(o *Owner, h *Handle, now clock.Instant) bool {
	t.lock()
	defer t.mu.Unlock()
	return t.grantOf(h.sideKey(), o).usable(now)
}

// SuspectSelf reports whether somebody who waits for a handle may wait for an acquisition of its own.
func (t *Table) SuspectSelf(h *Handle) bool {
	t.lock()
	defer t.mu.Unlock()
	return len(h.open) > 0
}

// Chosen returns the grant that a question about a lock means: the owner's, or without an owner that of the acquisition
// that [Table.Unlock] would choose. It returns nil if that grant is not held.
func (t *Table) Chosen(h *Handle, o *Owner) *Grant {
	t.lock()
	defer t.mu.Unlock()
	var g *Grant
	if o != nil {
		g = t.grantOf(h.sideKey(), o)
	} else if a := h.soonest(); a != nil {
		g = a.grant
	}
	if g == nil || g.stage != held {
		return nil
	}
	return g
}

// Count returns how many acquisitions of a grant are open, or 0 if it is not held any more.
func (t *Table) Count(g *Grant, now clock.Instant) int {
	t.lock()
	defer t.mu.Unlock()
	if !g.usable(now) {
		return 0
	}
	return len(g.acquisitions)
}

// Stats is what a table has in memory at one moment.
type Stats struct {
	Grants    int    // of shared owners
	Exclusive int    // names that an owner of this client holds exclusively
	Queues    int    // names with a local queue
	Due       int    // grants with a due time: every held one, and every one that is being released in the background
	Sections  uint64 // how often the table's mutex was taken, since New
}

// Stats returns what the table has in memory.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Grants: len(t.grants), Queues: len(t.lines), Due: t.heap.Len(), Sections: t.sections}
	for _, byName := range t.exclusive {
		s.Exclusive += len(byName)
	}
	return s
}

// LineStats is a local queue at one moment.
type LineStats struct {
	Waiters  int
	Rests    bool // the head sleeps until something happens
	Listener bool // a listener was asked for
}

// Line returns the state of the local queue of a name.
func (t *Table) Line(k Key) LineStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[k]
	if l == nil {
		return LineStats{}
	}
	head := l.queue.Head()
	return LineStats{
		Waiters: l.queue.Len(), Listener: l.heard != nil,
		Rests: head.phase == resting && head.wake != nil && !head.handing && head.askAt == 0,
	}
}

// backoff returns the pause before a retry.
func (t *Table) backoff(retries int, most time.Duration) time.Duration {
	return clock.Backoff(retries, most, t.cfg.Random)
}

// margin returns by how much a lease is trusted less here than in Redis: for the drift between two clocks and the
// granularity of Redis's clock.
func margin(lease time.Duration) time.Duration {
	return min(lease/100+2*time.Millisecond, lease/4)
}

// without removes an element from a slice, and leaves nothing of it behind.
func without[T comparable](s []T, gone T) []T {
	if i := slices.Index(s, gone); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}

// ending is what ends one acquisition for its users.
type ending struct {
	why    error
	over   chan struct{}
	cancel context.CancelCauseFunc
}

// Warning is what a log line says about a lock.
type Warning struct {
	Lock    string // the user's name of it
	Message string
	Err     error // nil means none
}

// Notices collects, while the table's mutex is held, what is to be told when it is free: canceling a context and logging
// run code of the user's. The zero value is empty. It is not safe for concurrent use.
type Notices struct {
	endings  []ending
	warnings []Warning
	unlisten []unlistening
	alarm    clock.Instant
}

type unlistening struct {
	channel string
	heard   chan struct{}
}

// Deliver tells everything and empties the notices: first the alarm, then contexts, channels, listeners and log lines. It
// must be called without any mutex, before every pause, command and return.
//
// The end of a context may run code of the user's, for a context of a type of its own. If that code hangs or panics, the
// alarm must have been set, because the table asks for no later one: all renewals of the client depend on it.
func (n *Notices) Deliver(to Told) {
	if n.alarm != 0 {
		to.Alarm(n.alarm)
	}
	for _, end := range n.endings {
		if end.cancel != nil {
			end.cancel(end.why)
		}
		if end.over != nil {
			close(end.over) // a holder that this wakes finds the context ended
		}
	}
	for _, u := range n.unlisten {
		to.Unlisten(u.channel, u.heard)
	}
	for _, w := range n.warnings {
		to.Warn(w)
	}
	if n.endings != nil || n.unlisten != nil || n.alarm != 0 || n.warnings != nil {
		*n = Notices{}
	}
}
