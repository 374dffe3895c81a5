package table

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/config"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/queue"
	"github.com/go-rlock/rlock/internal/table/internal/fairness"
	"github.com/go-rlock/rlock/internal/table/internal/place"
	"github.com/go-rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/internal/wire"
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
	cfg      config.Config
	tasks    *task.Group
	messages Messages
	receiver notice.Receiver

	mu        sync.Mutex // guards what follows, and all grants, acquisitions, attempts, exits and the lists of handles
	sections  uint64     // how often mu was taken: a question has the number of its section, as no other one of its local queue has
	closed    bool
	stopping  bool // Stop or Close was called
	open      int  // the acquisitions that a caller has yet to unlock, or whose unlock is under way
	counts    Counts
	drained   chan struct{} // closed when open is zero; nil until Stop makes it
	isDrained bool
	number    int64 // of the latest grant, or the latest call that counts once
	// exclusive has the exclusive holder of each name, by family.
	exclusive      [wire.Families]owner.Names[*Grant]
	grants         owner.Holdings[HeldKey, *Grant]
	queues         queue.Set[Key, *Attempt, shared] // the local queues
	trying         map[Key]*Attempt                 // those that join a queue only if they have to
	joined         int                              // how many of them did since trying was made
	publicReleases queue.Memory[Key, fairness.Release]
	heap           queue.Heap[*Grant, clock.Instant] // the grants that have a due time
	forcings       int                               // how many unlocks by force there were
	forced         queue.Memory[Key, lastForce]      // the latest of each name
	fenced         *queue.Memory[Key, bool]          // the latest names acquired with tokens; true means also without, which was logged; nil means none

	placed  map[int64]*Attempt     // by the holder's number: those that a release may grant a lock to
	alive   map[int64]*Grant       // those that stood there before, and are not over
	origins place.Origins[*Handle] // by the channels on which this client hears of grants
	seats   map[Key]*seats         // in the queues of fair locks
	watches map[string]*watched    // by the channel of this client's waiters for the name, as pumps are
	pumps   map[string]*pump       // those under way, at most one for a name
	// hiddenUntil is until when this client does without the line, because something hides its subscriptions. Zero means that it does not.
	hiddenUntil clock.Instant
	// unheardSince is since when no script has known of a subscription of this client. Zero means that the latest one did.
	unheardSince clock.Instant
	hidden       bool // whether the log says so
}

// Acquisition is one successful acquisition of a lock. One unlock ends it. Its methods are safe for concurrent use.
type Acquisition struct {
	grant  *Grant
	handle *Handle // through which it was made

	// The table's mutex guards what follows.

	ending    notice.Ending
	renewal   time.Duration // the lease with which the watchdog keeps the grant for it; zero means that it does not
	byHold    bool          // only its Hold unlocks it
	plain     bool          // made without an owner in the context
	accounted bool          // no caller has to unlock it any more, and its unlock is over
	closed    atomic.Bool   // unlocked, or being unlocked; others may read it without the mutex
}

// Attempt is one call of a verb that acquires. The verb makes it, sets the exported fields down to Witness, and passes it to
// [Table.Admit]; then it carries out the steps that it gets, until one says Done. It is used by one goroutine at a time.
type Attempt struct {
	Handle    *Handle
	owner.Who               // for whom it acquires
	Lease     time.Duration // at least 1 ms
	Renewed   bool          // the watchdog renews the lease
	ByHold    bool          // only the Hold unlocks it
	Single    bool          // one question to Redis, and no waiting
	AtLeast   time.Duration // how long the lock stays taken, even if it is unlocked before; zero means no longer than that
	Ticket    string        // adopts the hold of this field; empty means that it acquires

	Ends   clock.Instant // when the wait will be over; zero means never
	Wait   Ender         // an error means that the wait is over, or its caller gone
	Caller Ender         // an error means that the caller is gone
	// Bound is when the call has to return, even if its first question has no reply. Zero means never.
	Bound clock.Instant

	// Witness is told when the attempt's grant is over. Nil means that nobody wants to know.
	Witness notice.Witness
	// Seen is what happened to the attempt, for those who observe it. It is valid after Done.
	Seen notice.Seen

	// Last is what is known at the end. It is valid after Done.
	Last outcome.Result
	// HeldFor is for how long another owner of this process had held the lock when the attempt gave up. Zero means that none
	// did. It is valid after Done.
	HeldFor time.Duration

	course
}

// course is how far an attempt has come. The table's mutex guards it. As many attempts may wait at a time, small fields stand together.
type course struct {
	phase     phase
	asked     bool  // whether Redis was asked, or another attempt was on this one's behalf
	handing   bool  // the hand-over is under way
	retries   int32 // failures in a row
	polls     int32 // questions that no message caused
	grant     *Grant
	owner     *owner.Owner // for whom it acquires, since it last looked; nil means an owner of its own
	began     clock.Instant
	known     outcome.Record // unless it is in a local queue, whose record counts
	sent      clock.Instant
	question  uint64        // the number of the latest one that a local queue has
	forcings  int           // unlocks by force before the question was sent
	pollDelay time.Duration // the latest one

	ahead     *Attempt        // of the same owner: it asks on behalf of this one
	queue     *localQueue     // nil means that it is in no local queue
	bell      queue.Bell      // rings when something changed in this process
	heard     notice.Listener // gets the messages of an attempt that is in no local queue
	askAt     clock.Instant   // when to ask although an owner of this process has the lock; zero means that this is not planned
	way       way             // how it waits, since it last looked
	place     place.Place     // in the line, or in the queue of a fair lock
	firstTerm time.Duration   // with which it may stand in the line
	seat      *wire.Seat      // in that queue; nil means that it has none
	got       *Acquisition    // the acquisition that was handed to it
	failed    error           // or why none was
}

// Exit is one unlock, or one background release. The zero value is ready for [Table.Unlock], [Table.Release] (the unlock of a
// hold) and [Table.Export]. An exit that [Table.Due] returns is ready for [Table.ResumeRelease]. It is used by one goroutine at a time.
type Exit struct {
	// The table's mutex guards what follows.
	phase      exitPhase
	grant      *Grant
	acq        *Acquisition // nil for a background release
	background bool
	start      clock.Instant // of the release, which is before the deadline
	sent       clock.Instant // when the latest command was sent
	doubt      bool          // because of what was sent before, Redis may not have the holder any more
	retries    int
	snapshot   fairness.Snapshot // when it was sent

	parks  bool // the latest call keeps the lock taken, by nobody
	narrow bool // it touches as few keys as possible
	byLine bool // the latest call was that of the line

	// caller is that of an export: an error means that it is gone. Nil means that the exit does not depend on it.
	caller Ender
	ticket *Grant // to which the lock is exported, if anything; it is in no index

	next      *Attempt // to which the lock is being handed over, or which the release names
	nextGrant *Grant
}

// Grant is one owner's holding of one lock: a holder field in Redis, with a number of its own. It is acquired once,
// counts its open acquisitions, and is released when the last one is unlocked.
type Grant struct {
	queue.Timed[clock.Instant] // when to look at it again; guarded by the table's mutex

	table  *Table
	handle *Handle      // through which it was acquired: kind, names and the user's name
	owner  *owner.Owner // the caller's; without one, nil until somebody asks for it
	holder wire.Holder

	// The table's mutex guards what follows. There may be a hundred thousand held locks, so small fields stand together.

	first Acquisition // mostly the only one; the others are in rare

	// turns are those of the owner's operations, so that the count in Redis follows the count here. Unlocks come before acquisitions.
	turns   queue.Turns
	attempt *Attempt // of a pending grant of a shared owner
	rare    *rarely  // nil means that the grant has nothing of this
	token   uint64   // of a fenced lock
	micros  int64    // see proof
	term    lease.Term

	streak    streak
	stage     stage
	opened    bool // the first acquisition is open
	shared    bool // its owner is the caller's, so other goroutines may have it too
	listed    bool // it is among the holdings of its owner, or will be once it has one
	lost      bool // or ended before its last unlock; for the count of losses
	contested bool // it, or the grant from which it was handed over, stood in the line

	traces
	upkeep
}

// streak is the local hand-overs of a lock since it was last free for all processes.
type streak struct {
	since clock.Instant // when the lock was last free for all
	count int32
	after int32 // milliseconds from since to the beginning of the latest hold
}

// traces is what Redis may have of a grant, beyond its holder as the replies have shown it, and may still answer.
type traces struct {
	// inDoubt means that a command that can make this number a holder has had no reply: it may still be executed.
	inDoubt bool
	// lengthened means that a command asked for a longer lease than the acquisition did, whether or not it had a reply.
	lengthened bool
	// needsCleanup means that Redis may have something that only a release removes: a lock that it granted after the verb
	// had left, or a place in a queue.
	needsCleanup bool
}

// upkeep is what the watchdog needs of a grant.
type upkeep struct {
	inRound  bool  // its renewal is on its way: sent, or soon to be
	alone    bool  // its renewal is a call of its own
	failures int16 // renewals or background releases that failed in a row, at most maxFailures
}

// Handle is a lock as the table sees it. Several handles of one name are one lock. The exported fields are set before its
// first use, and do not change.
type Handle struct {
	Key  Key
	Kind *wire.Kind
	Name string // the user's, for errors and log lines

	FirstDelay, MaxDelay time.Duration // the poll delays, for a kind without a channel
	NonReentrant, Yields bool          // a reader that yields waits for the writers that stand in the line

	names wire.NamesCache

	unlocks owner.Unlocks[*Acquisition] // those without a Hold that are yet to be unlocked; guarded by the table's mutex
}

// localQueue is the local queue of a name. One attempt at a time contends, its head; the others cost Redis nothing.
// The holder is not in it: the head leaves when it is granted the lock, and the next one takes over, from its next wake-up on.
type localQueue = queue.Line[*Attempt, shared]

// shared is the data that the attempts of a local queue share.
type shared struct {
	known outcome.Record // by the questions of the heads: a waiter that never asked Redis ends with it
	// heard gets the messages for the heads, since one of them had to sleep. Kinds that poll share queues with kinds that
	// listen, so the last attempt to leave may not know the channel.
	heard   notice.Listener
	own     string // see [Attempt.ownChannel]; empty until somebody needs it
	watched bool   // this client watches for these attempts
	// others means that somebody listened who knows of no line when this process last released the lock.
	others bool
}

// rarely has what few grants have, so that a held lock has no room for it.
type rarely struct {
	more     []*Acquisition // open, besides the first one, in the order in which they were made
	giveUpAt clock.Instant  // when a background release gives up
	lost     error          // why the grant was lost
	keep     clock.Instant  // until when the lock stays taken, even if it is unlocked before; zero means no longer than that
	park     *wire.Holder   // that takes its place in Redis until then; nil means that it was not unlocked yet
	lineTerm time.Duration  // the term with which it stands in the line, or wire.Woken; zero means that it does not
	seat     *wire.Seat     // on which it may stand in the queue of a fair lock; nil means that it does not
	loss     lease.Loss
	witness  notice.Witness // is told when the grant is over; nil once it was, or if nobody wants to know
}

// Step is the next action of a verb, with all that it needs. It is passed by value.
type Step struct {
	Do Do

	// For Ask and Sleep.

	Stays    bool          // only Close ends the sleep or the wait for a slot, not Stop
	Outlives bool          // the end of the wait does not end the step
	Within   time.Duration // for how long the step may take; zero means that only the command timeout bounds a call

	// For Ask.

	Call   wire.Call
	Slot   bool   // it needs a connection slot
	Acked  bool   // replicas must acknowledge it, if the client asks for that
	Late   *Grant // gets the reply if the caller leaves; nil means that the reply is dropped
	Number uint64 // of the question, for Late; zero means that no local queue asks it

	// For Sleep.

	Pause  time.Duration   // negative means without a limit
	Wait   <-chan struct{} // something changed in this process
	Listen string          // if not empty, listen first on this channel, with Heard
	Since  uint64          // no message was missed if the channel has had no other confirmation than this one
	Heard  chan struct{}   // gets the messages
	Spares string          // if not empty, this channel has no further listener soon: the waiter has moved to Listen

	// For Done.

	Got *Acquisition
	Err error // nil without Got: the wait is over, and Attempt.Last is the outcome
}

// watched is a name that a client watches for as long as it is subscribed, also if nobody waits here any more: Redis sees no difference,
// and asks nobody else to watch.
type watched struct {
	handle *Handle
	queues int // the local queues that asked for it
}

// pump is a command under way that grants a free lock to the first one in the line.
type pump struct {
	handle   *Handle
	failures int  // in a row, before it
	again    bool // the lock was freed again since it was sent
	sent     bool // it may have been executed
}

// way is how an attempt waits for its turn. It is chosen before each question: Redis may refuse the line, and allow it again.
type way interface {
	// question returns the call that asks for the lock, and its limit, if any. It prepares for what may come before the reply.
	question(t *Table, a *Attempt, next phase, now clock.Instant) (c wire.Call, most time.Duration)
	// channel returns the channel on which the attempt is notified. Empty means none: it polls.
	channel(a *Attempt) string
	// idle returns for how long an attempt that woke for a reason has nothing to do. Zero or less means that it asks.
	idle(t *Table, a *Attempt, why Cause, now clock.Instant) time.Duration
	// pause returns the longest sleep after a refusal, given the hint of the reply, and the place in the line; nil means none.
	pause(t *Table, a *Attempt, p *wire.Position, hint time.Duration, now clock.Instant) time.Duration
	// leavesPlace reports whether a refused attempt has left something in Redis that a release must remove.
	leavesPlace() bool
}
