// Package table is the lock table: everything that one client knows about its locks, their holders, their waiters and their
// deadlines. It decides, and the other packages carry out its decisions: it does no I/O, starts no goroutine and reads no
// clock. The verbs, the watchdog and late replies report what happened, and get the next [Step].
//
// Each exported method takes the table's mutex once. The caller's [Notices] collect the reports that it must deliver when
// the mutex is free.
package table

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/policy"
	"github.com/go-rlock/rlock/internal/pump"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/standing"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/internal/yield"
)

// Config has the options on which the decisions depend.
type Config = policy.Config

// Messages is implemented by the pub/sub hub. The table calls it while it holds its mutex.
type Messages interface {
	// Heard returns how many messages of a channel arrived, and whether this client receives them now.
	Heard(channel string) (messages uint64, subscribed bool)
	// Epoch returns the number of a channel's latest confirmation, which no other confirmation has. It returns zero if this
	// client does not receive the channel's messages now.
	Epoch(channel string) uint64
	// Unheard takes notice that the server that runs the scripts knew of no subscriber of a channel, although the channel had this
	// epoch before the command was sent.
	Unheard(channel string, epoch uint64)
	// Counts reports whether Redis can count all receivers of a message about a name.
	Counts(name string) bool
}

// The table's reports, which are made without its mutex.
type (
	// Notices collects the reports that a caller must deliver.
	Notices = notice.List
	// Line is a log line about a lock.
	Line = notice.Line
	// LineLimit drops the log lines that come too often.
	LineLimit = notice.Limit
	// Told receives the reports. An alarm asks for a call of [Table.Due], and Unlisten ends what [Step.Listen] began.
	Told = notice.Receiver
)

// Key identifies the locks that exclude each other: those of one name in Redis, one family and one client. It is also the
// key under which a context carries a hold.
type Key struct {
	Table  *Table
	Name   string
	Family wire.Family
}

// HeldKey identifies the locks of which an owner has at most one grant.
type HeldKey struct {
	Key
	side wire.Side
}

// Table is the lock table of one client. It is safe for concurrent use. The zero value is not usable: see [New].
//
// Lock order: a group's mutexes, then the table's, then that of an owner or of the pub/sub hub.
type Table struct {
	cfg      Config
	tasks    *task.Group
	messages Messages
	told     Told

	mu        sync.Mutex // guards what follows, and all grants, acquisitions, attempts, exits and the lists of handles
	sections  uint64     // how often mu was taken
	closed    bool
	stopping  bool // Stop or Close was called
	open      int  // the acquisitions that a caller has yet to unlock, or whose unlock is under way
	counts    Counts
	drained   chan struct{} // closed when open is zero; nil until Stop makes it
	isDrained bool
	owed      int   // the background releases of what has no lease
	number    int64 // of the latest grant, or the latest call that counts once
	// exclusive has the exclusive holder of each name, by family.
	exclusive [wire.Families]owner.Names[*Grant]
	grants    owner.Holdings[HeldKey, *Grant]
	lines     queue.Set[Key, *Attempt, shared] // the local queues
	public    queue.Memory[Key, yield.Release]
	heap      queue.Heap[*Grant, clock.Instant] // the grants that have a due time
	forcings  int                               // how many unlocks by force there were
	forced    queue.Memory[Key, lastForce]      // the latest of each name
	fenced    queue.Memory[Key, bool]           // the latest names acquired with tokens; true means also without, which was logged

	standing map[int64]*Attempt               // by the holder's number: those that a release may grant a lock to
	alive    standing.Alive[*Grant]           // those that stood there before, and are not over; also those of permits without leases
	origins  standing.Origins[*Handle]        // by the channels on which this client hears of grants
	audited  queue.Memory[Key, clock.Instant] // when to ask for the receipts of a semaphore again
	seats    map[Key]*seats                   // in the queues of fair locks
	watches  pump.Watches[*Handle]
	pumps    pump.Pumps[*Handle]
	// unlined has the names whose line this client does without, because it cannot work there, and until when.
	unlined queue.Memory[Key, clock.Instant]
	denial  denial // the first time that Redis refused what the line needs
	// unheardSince is since when no script has known of a subscription of this client. Zero means that the latest one did.
	unheardSince clock.Instant
	hidden       bool // whether the log says so
}

// New returns an empty table.
func New(cfg Config, tasks *task.Group, messages Messages, told Told) *Table {
	return &Table{
		cfg: cfg, tasks: tasks, messages: messages, told: told,
		standing: make(map[int64]*Attempt), seats: make(map[Key]*seats),
		public: queue.NewMemory[Key, yield.Release](8), forced: queue.NewMemory[Key, lastForce](64),
		fenced: queue.NewMemory[Key, bool](256), audited: queue.NewMemory[Key, clock.Instant](64),
		unlined: queue.NewMemory[Key, clock.Instant](64),
	}
}

// lock takes the mutex, and returns it for the unlock.
func (t *Table) lock() *sync.Mutex {
	t.mu.Lock()
	t.sections++
	return &t.mu
}

// Key returns the key of a name in Redis.
func (t *Table) Key(name string, family wire.Family) Key { return Key{t, name, family} }

// Number returns a number that no grant has. A call that counts once has it: tombstones and marks are in one hash.
func (t *Table) Number() int64 {
	defer t.lock().Unlock()
	t.number++
	return t.number
}

// Close ends every hold for its users, with [fault.ErrClosed], and all renewals. Releases under way go on, and those in
// the background are due at once. Later attempts get ErrClosed. Close returns how many acquisitions are yet to be unlocked, and of which names.
func (t *Table) Close(now clock.Instant, n *Notices) (open int, names []string) {
	defer t.lock().Unlock()
	lasting := 0
	t.closed, t.stopping = true, true
	for _, g := range slices.Clone(t.heap.All()) {
		g.endAcquisitions(fault.ErrClosed, n)
		switch g.stage {
		case held:
			t.over(g, now, fault.ErrClosed, n)
			t.heap.Remove(g)
			if g.open() > 0 {
				names = append(names, g.handle.Name)
			}
			if g.handle.Kind.Lasting {
				lasting++
			}
		case retiring:
			t.schedule(g, now, n)
		default: // an expired grant has its release before it
		}
	}
	if lasting > 0 {
		n.Log("", notice.LogPermitsHeld, fmt.Errorf("holds that are left: %d", lasting))
	}
	return t.open, names
}

// Closed logs how many releases of what has no lease were not over when the client stopped.
func (t *Table) Closed(n *Notices) {
	defer t.lock().Unlock()
	if t.owed > 0 {
		n.Log("", notice.LogPermitsOwed, fmt.Errorf("holds that are left: %d", t.owed))
	}
}

// Forced ends every grant that this client has of a name, after an unlock by force. A grant that Redis made between that
// unlock and this moment is ended with the others, and released. An acquisition whose reply is still on its way is not
// relied on, because Redis may have granted it before. micros is when Redis unlocked it, by its clock in Unix µs: what it is
// known to have granted since is not concerned. Zero means that this is not known.
func (t *Table) Forced(k Key, micros int64, now clock.Instant, n *Notices) {
	defer t.lock().Unlock()
	t.noteForced(k, micros)
	for _, g := range slices.Clone(t.heap.All()) { // it has every grant that is held
		if g.handle.Key == k && (g.stage == held || g.stage == expired) && (micros == 0 || g.micros < micros) {
			t.lose(g, errForced, now, n)
		}
	}
}

// lastForce is the unlocks by force of a name.
type lastForce struct {
	count  int   // how many there were in all when the latest one came, with it
	micros int64 // when the latest one was, in Unix µs of Redis; zero means that this is not known
}

// noteForced remembers an unlock by force.
func (t *Table) noteForced(k Key, micros int64) {
	t.forcings++
	switch last, ok := t.forced.Of(k); {
	case ok && (last.micros == 0 || micros == 0):
		micros = 0
	case ok:
		micros = max(micros, last.micros)
	}
	t.forced.Set(k, lastForce{t.forcings, micros})
}

// forcedSince reports whether a name may have been unlocked by force since there were so many unlocks by force, and later than a moment
// of Redis. Zero means any moment.
func (t *Table) forcedSince(k Key, forcings int, micros int64) bool {
	if t.forcings == forcings {
		return false
	}
	last, ok := t.forced.Of(k)
	return t.forced.Forgotten().count > forcings ||
		ok && last.count > forcings && (micros == 0 || last.micros == 0 || last.micros > micros)
}

// Holds reports whether an owner holds the lock of a handle, as far as this process knows.
func (t *Table) Holds(o *Owner, h *Handle, now clock.Instant) bool {
	defer t.lock().Unlock()
	return t.grants.Of(h.sideKey(), o).usable(now)
}

// Chosen returns the grant to which a query about a lock refers: the owner's. Without an owner, it is the grant of the
// acquisition that [Table.Unlock] would end. It returns nil if that grant is not held.
func (t *Table) Chosen(h *Handle, w Who, now clock.Instant) *Grant {
	defer t.lock().Unlock()
	o, _ := w.Now()
	g := t.grants.Of(h.sideKey(), o)
	if a, _ := h.toUnlock(w, now); g == nil && a != nil {
		g = a.grant
	}
	if g == nil || g.stage != held {
		return nil
	}
	return g
}

// Count returns how many acquisitions of a grant are open, or 0 if it is not held any more.
func (t *Table) Count(g *Grant, now clock.Instant) int {
	defer t.lock().Unlock()
	if !g.usable(now) {
		return 0
	}
	return g.open()
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
	s := Stats{Grants: t.grants.Len(), Queues: t.lines.Len(), Due: t.heap.Len(), Sections: t.sections}
	for _, byName := range t.exclusive {
		s.Exclusive += len(byName)
	}
	return s
}

// Line returns how many attempts are in the local queue of a name, whether its head sleeps until something happens, and on
// which channel it wants to listen. A head that is about to stand in the line in Redis does not sleep yet.
func (t *Table) Line(k Key) (waiters int, rests bool, channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines.Of(k)
	if l == nil {
		return 0, false, ""
	}
	head := l.Head()
	placed := head.place.Stands() || t.channel(head) != head.Handle.Names().Own()
	rests = placed && head.phase == resting && head.bell.Slept() && !head.handing && head.askAt == 0
	if l.Shared.heard.Heard != nil {
		channel = l.Shared.heard.Channel
	}
	return l.Len(), rests, channel
}
