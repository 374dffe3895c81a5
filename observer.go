package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/observe"
)

// Observer is told of every acquisition, and of the end of every hold: see [WithObserver]. It must be safe for concurrent use.
//
// An observer must neither lock through the client that it observes nor close it. If it panics, rlock logs that once, and goes on.
//
// The context of an acquisition is kept until its hold is over. If it belongs to an outer hold that the program drops without an unlock,
// rlock notices this only after the inner hold has ended.
type Observer interface {
	// AcquireStart is called before anything is sent, by the goroutine that acquires. The values of the context that it returns go to
	// the commands of the acquisition, to AcquireEnd and to HoldEnd, and those that it lacks are taken from ctx. Nothing else of that
	// context matters: neither its end, nor an owner or a hold that it carries. A nil context stands for ctx.
	AcquireStart(ctx context.Context, d AcquireStartData) context.Context

	// AcquireEnd is called once for each AcquireStart, by the same goroutine, when the acquisition has succeeded or failed. The method
	// that acquires returns after it. So a slow AcquireEnd lengthens the critical section, and the hold may be over when it returns.
	AcquireEnd(ctx context.Context, d AcquireEndData)

	// HoldEnd is called once for each successful acquisition that is no re-entry (an Await of a latch holds nothing, and has none), after
	// its AcquireEnd, when the hold is over. For a re-entered lock, that is when its last acquisition is unlocked. By then ctx has often
	// ended: only its values are of use. A goroutine of the client calls it, as it does Event. If 256 of these calls wait for a slow
	// observer, further ones are dropped, and counted in [Stats].
	HoldEnd(ctx context.Context, d HoldEndData)
}

// EventObserver is an [Observer] that is also told of other events.
type EventObserver interface {
	Observer
	// Event is called by the goroutine that calls HoldEnd.
	Event(d EventData)
}

// ClientObserver is an [Observer] that is told of the clients that it observes, so that it may call [Client.Stats].
type ClientObserver interface {
	Observer
	// ClientStart is called by [New], and ClientEnd by [Client.Close] or [Client.Shutdown], on a goroutine of its own, after all other calls.
	// Close waits for a slow observer for 1 s at most, and for its ClientEnd as long, so calls of that one may come later.
	ClientStart(c *Client)
	ClientEnd(c *Client)
}

// AcquireStartData is an acquisition that begins.
type AcquireStartData struct {
	// Op is the method, in words: lock, try lock, acquire, try acquire, do, try do, lead, adopt, or await.
	Op string
	// Name is the name with which the handle was made, or a description of the group with the names of its members.
	Name string
	// Kind is lock, fair, fenced, fenced fair, spin, read, write, fenced write, semaphore, plain semaphore, count-down latch, multi or
	// red.
	Kind string
	// Wait limits how long the call waits. It is 0 for a single attempt, and negative without a limit.
	Wait time.Duration
	// Lease is the lease that the caller asked for. 0 means that of [WithWatchdogTimeout], renewed.
	Lease time.Duration
	// Permits is how many permits of a semaphore it wants, and 0 for other kinds.
	Permits int
	// Member means that a group acquires one of its members. The group has an acquisition of its own, if the client of one of its locks
	// is observed. It may try a member several times, with waits of its own. Members of a red lock are acquired by other goroutines than
	// the caller's, and with the Op acquire.
	Member bool
}

// AcquireEndData is how an acquisition went.
type AcquireEndData struct {
	AcquireStartData

	// Took is the time since AcquireStart. Waited is the time since the call began to wait, for the lock or for Redis to answer. It is
	// 0 if the call did not wait.
	Took, Waited time.Duration
	// Outcome is the class of Err, and Err is what the method returns, except that TryLock and TryDo return no error if another owner
	// holds the lock, and that the errors of Do also say when it failed. A nil error means that the lock is held, or the latch open.
	Outcome Outcome
	Err     error
	// Reentry means that the owner held the lock already.
	Reentry bool
	// Attempts is how often Redis was asked for the lock. It is 0 if the lock was refused within the process, or handed over to a call
	// that had not asked before. For a group, it is how often Redis was asked for the members that are observed.
	Attempts int
	// HandOver is how the lock came from its last holder.
	HandOver HandOver
	// Contended means that another owner of the same client held the lock meanwhile.
	Contended bool
	// Token is the fencing token, or 0.
	Token Token
}

// HoldEndData is how a hold ended.
type HoldEndData struct {
	AcquireStartData // of the acquisition

	// Held is for how long the lock was held: from the start of AcquireEnd until the unlock began, or until the hold was lost.
	Held time.Duration
	// End is why the hold ended. Err is the error of [Hold.Err] then, and nil for HoldUnlocked.
	End HoldEnding
	Err error
	// Token is the fencing token, or 0.
	Token Token
}

// EventData is an event.
type EventData struct {
	Event Event
	// Name is the name of the lock, or the description of the group, that the event concerns. It is empty if that is no single lock.
	Name string
	// Time is when it happened.
	Time time.Time
	// Err is the reason, if there is one.
	Err error
}

// Outcome is the class of an acquisition's result. It is fit for a label of a metric.
type Outcome string

// The outcomes.
const (
	OutcomeAcquired    Outcome = "acquired"
	OutcomeRefused     Outcome = "refused"     // matches ErrNotAcquired: another owner has it; or a ticket that Adopt cannot use any more
	OutcomeUnavailable Outcome = "unavailable" // matches ErrUnavailable: Redis gave no usable answer
	OutcomeLost        Outcome = "lost"        // matches ErrLost: the owner lost the lock, and has not unlocked it
	OutcomeClosed      Outcome = "closed"      // matches ErrClosed: the client is closed, or shuts down
	OutcomeCanceled    Outcome = "canceled"    // the context had ended, and nothing is known of the lock
	OutcomeMisused     Outcome = "misused"     // matches ErrInvalidName, ErrInvalidOption, ErrReentered or ErrUpgrade
	OutcomeFailed      Outcome = "failed"      // any other error, on which waiting does not help
)

// HandOver is how a lock came to the owner that acquired it. It is fit for a label of a metric.
type HandOver string

// The hand-overs.
const (
	HandOverNone   HandOver = ""       // it was free, or it is not known that anybody chose this owner
	HandOverLocal  HandOver = "local"  // another owner of the same client passed it on
	HandOverRemote HandOver = "remote" // a release, mostly by another process, chose this owner out of those that wait in Redis
)

// HoldEnding is how a hold ended. It is fit for a label of a metric.
type HoldEnding string

// The ends of a hold.
const (
	HoldUnlocked    HoldEnding = "unlocked"    // or ended by Hold.Export
	HoldLeaseEnded  HoldEnding = "lease_ended" // lost: its lease ended, perhaps because that was asked for
	HoldGone        HoldEnding = "gone"        // lost: its holder was gone from Redis
	HoldForced      HoldEnding = "forced"      // lost: this client unlocked it by force
	HoldTooLong     HoldEnding = "too_long"    // lost: it was held for longer than WithMaxHold allows
	HoldOverwritten HoldEnding = "overwritten" // lost: the unlock found a value that is not a lock's
	HoldClosed      HoldEnding = "closed"      // its client was closed
	HoldAbandoned   HoldEnding = "abandoned"   // the program dropped the hold without an unlock
)

// Lost reports whether the hold was lost: over before its last unlock, although its client was open and the program had not dropped it.
func (e HoldEnding) Lost() bool {
	switch e {
	case HoldUnlocked, HoldClosed, HoldAbandoned:
		return false
	default:
		return true
	}
}

// Event is what an [EventObserver] is told of. It is fit for a label of a metric.
type Event string

// The events.
const (
	EventRenewalFailed        Event = "renewal_failed"        // the first renewal of a hold in an outage
	EventRenewalRecovered     Event = "renewal_recovered"     // renewals of the hold succeed again
	EventLost                 Event = "lost"                  // a renewed hold was lost, of which HoldEnd is told too
	EventDropped              Event = "dropped"               // the program dropped a hold without an unlock
	EventSelfDeadlock         Event = "self_deadlock"         // a call may wait for its own caller's hold
	EventSubscriptionLost     Event = "subscription_lost"     // a subscription broke, fell silent, or may lead to the wrong server
	EventSubscriptionReplaced Event = "subscription_replaced" // after a loss, a channel is subscribed again
	EventReacquired           Event = "reacquired"            // a red lock has a member again that it had lost, or did not get at first
	EventPlaceLost            Event = "place_lost"            // a waiter was out of a fair lock's queue: it was silent for too long, or Redis lost the queue
	EventUnanswered           Event = "unanswered"            // a call goes on waiting, but Redis has given no usable answer for as long as the command timeout; then again each minute
)

// WithObserver sets an observer of the client. If it is given several times, there are several observers: each gets the context that
// the one before it returned. An observer that is an [EventObserver] or a [ClientObserver] also gets the calls of that interface. The
// default is none. A nil observer is refused with [ErrInvalidOption].
func WithObserver(o Observer) Option {
	return func(s *settings) error {
		if o == nil {
			return fmt.Errorf("%w: the observer is nil", ErrInvalidOption)
		}
		s.Observers = append(s.Observers, observer{o})
		return nil
	}
}

// observer implements [observe.Observer].
type observer struct{ o Observer }

// Start implements [observe.Observer].
func (o observer) Start(ctx context.Context, s observe.Started) context.Context {
	return o.o.AcquireStart(ctx, AcquireStartData(s))
}

// End implements [observe.Observer].
func (o observer) End(ctx context.Context, r observe.Result) {
	d := AcquireEndData{
		AcquireStartData: AcquireStartData(r.Started), Took: r.Took, Waited: r.Waited, Outcome: outcomeOf(r.Err), Err: r.Err, Reentry: r.Reentered,
		Attempts: int(r.Questions), Contended: r.Here, Token: Token(r.Token),
	}
	switch {
	case r.Err != nil:
	case r.HandedOver:
		d.HandOver = HandOverLocal
	case r.Granted:
		d.HandOver = HandOverRemote
	}
	o.o.AcquireEnd(ctx, d)
}

// Over implements [observe.Observer].
func (o observer) Over(ctx context.Context, e observe.Ending) {
	o.o.HoldEnd(ctx, HoldEndData{
		AcquireStartData: AcquireStartData(e.Started), Held: e.Held, End: HoldEnding(e.How), Err: e.Err, Token: Token(e.Token),
	})
}

// Event implements [observe.Observer].
func (o observer) Event(e observe.Event) {
	if o, ok := o.o.(EventObserver); ok {
		o.Event(EventData{Event: Event(e.Event), Name: e.Name, Time: e.At, Err: e.Err})
	}
}

// Client implements [observe.Observer].
func (o observer) Client(c any, begins bool) {
	watcher, ok := o.o.(ClientObserver)
	switch client, _ := c.(*Client); {
	case !ok:
	case begins:
		watcher.ClientStart(client)
	default:
		watcher.ClientEnd(client)
	}
}

// outcomeOf returns the class of an acquisition's error.
func outcomeOf(err error) Outcome {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case err == nil:
		return OutcomeAcquired
	case is(ErrNotAcquired), is(ErrNotHeld) && !is(ErrLost): // the second one is of Adopt
		return OutcomeRefused
	case is(ErrUnavailable):
		return OutcomeUnavailable
	case is(ErrLost):
		return OutcomeLost
	case is(ErrClosed):
		return OutcomeClosed
	case is(ErrInvalidName), is(ErrInvalidOption), is(ErrReentered), is(ErrUpgrade):
		return OutcomeMisused
	case is(context.Canceled), is(context.DeadlineExceeded):
		return OutcomeCanceled
	}
	return OutcomeFailed
}
