package table

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Messages is implemented by the pub/sub hub. The table calls it while it holds its mutex.
type Messages interface {
	// Received returns how many messages of a channel arrived, and whether this client receives them now.
	Received(channel string) (messages uint64, subscribed bool)
	// Epoch returns the number of a channel's latest confirmation, which no other confirmation has. It returns zero if this
	// client does not receive the channel's messages now.
	Epoch(channel string) uint64
	// Unheard takes notice that the server that runs the scripts knew of no subscriber of a channel, although the channel had this
	// epoch before the command was sent.
	Unheard(channel string, epoch uint64)
	// Refused returns why Redis does not let this client subscribe to a channel, or nil.
	Refused(channel string) *fault.Error
	// Counts reports whether Redis can count all receivers of a message.
	Counts() bool
}

// lastForce is the unlocks by force of a name.
type lastForce struct {
	count  int   // how many there were in all when the latest one came, with it
	micros int64 // when the latest one was, in Unix µs of Redis; zero means that this is not known
}

// phase is the position of an attempt.
type phase uint8

const (
	claiming phase = iota // waits until the owner's other operations on the grant are over, or before a repetition
	queued                // in the local queue, behind others
	resting               // sleeps until there is a reason to ask
	trying                // its first acquire is under way for a lock that looks free, and it is in no local queue yet
	asking                // an acquire is under way
	parting               // its last acquire is under way: after that it is done
	counting              // a re-entry is under way
	adopting              // adopts the hold of a ticket
	done
)

// errUndefined is the error of a step that no attempt can take: a bug.
var errUndefined = errors.New("rlock: internal error: undefined step")

// exitPhase is the position of an exit.
type exitPhase uint8

const (
	turning   exitPhase = iota // waits until the owner's other operations on the grant are over
	showing                    // shows Redis one acquisition less
	handing                    // hands the lock over
	freeing                    // frees the lock
	exporting                  // hands the lock over to a ticket
	pausing                    // before it tries to free or to export the lock again
	released
)

// stage is how far a grant has come. Stages follow each other in this order, and some are left out. Only a late reply, or a late message about
// a grant, goes back, from retired to retiring: Redis made a holder that has to be released. docs/architecture.md draws the transitions.
type stage uint8

const (
	pending   stage = iota // its acquire may be under way
	held                   // confirmed; its deadline had not passed when the table last looked
	expired                // past its deadline: over for its users, although Redis may still have it
	releasing              // its last unlock is under way
	retiring               // over here; a background release is under way
	retired
)

// The reasons for losing a lock.
var (
	errLeaseEnded  = fmt.Errorf("%w: its lease ended", fault.ErrLost)
	errHolderGone  = fmt.Errorf("%w: its holder is gone from Redis", fault.ErrLost)
	errForced      = fmt.Errorf("%w: it was unlocked by force", fault.ErrLost)
	errStillLost   = fmt.Errorf("%w before, and its owner has to unlock it first", fault.ErrLost)
	errMaxHold     = fmt.Errorf("%w: it was held longer than WithMaxHold allows", fault.ErrLost)
	errOverwritten = fmt.Errorf("%w: its key was overwritten with another value", fault.ErrLost)
)

// seats are those of a name.
type seats struct {
	spare []*wire.Seat // the latest one comes last: its channel is the most likely to be subscribed
	made  int
}

// errLateCount is the error of a re-entry that Redis replied to when little of the lease was left. It is repeated, as after no
// reply: that changes nothing but the lease.
var errLateCount = &fault.Error{Transient: true, Err: fault.ErrLate}

// Counts is what happened in a table, and what is the case at one moment. The root package documents the fields.
type Counts struct {
	Held, Waiting, InDoubt                                 int
	Acquired, HandOvers, Renewals, RenewalFailures, Losses uint64
}

// leave takes a grant out of the gauge of its stage. The caller sets the next stage.
func (c *Counts) leave(s stage) {
	switch s {
	case held:
		c.Held--
	case retiring:
		c.InDoubt--
	default: // no gauge has it
	}
}

// lineLife is for how long Redis keeps a line in which nobody registers. Until then, a waiter that has left may be granted the
// lock, if its client listens.
const lineLife = 5 * time.Minute

var (
	errOpen     = fmt.Errorf("%w: another acquisition of the owner is open", fault.ErrReentered)
	errOwnReads = fmt.Errorf("%w: the owner also reads, and would still do so after the export", fault.ErrInvalidOption)
	errNoToken  = fmt.Errorf("%w: this owner holds the lock without a fencing token", fault.ErrInvalidOption)
	errKept     = fmt.Errorf("%w: a hold with AtLeast is not exported", fault.ErrInvalidOption)

	// errAsking is the error of an adoption while another call of the owner acquires the lock, which is the ticket's.
	errAsking = fmt.Errorf("%w: another call of this owner is acquiring it", fault.ErrReentered)

	// ErrCallerGone is the error of an export whose caller left before anything was sent. The hold goes on.
	ErrCallerGone = errors.New("rlock: the caller is gone")

	// errTicket is the error of an adoption for which Redis does not have the holder that the ticket names.
	errTicket = fmt.Errorf("%w: the ticket was used before, its lease has ended, the lock was unlocked by force, or this is not the Redis of the ticket", fault.ErrNotHeld)
)
