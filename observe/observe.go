// Package observe has what an observer of a client is told: see rlock.WithObserver. The module rlockotel is an observer for OpenTelemetry.
package observe

import (
	"context"
	"time"
)

// Observer is told of every acquisition, of the end of every hold, and of other events. It must be safe for concurrent use. One that does
// not need all of it embeds a [Base].
//
// An observer must neither lock through the client that it observes nor close it. If it panics, rlock logs that once, and goes on.
type Observer interface {
	// AcquireStart is called before anything is sent, by the goroutine that acquires. The values of the context that it returns go to
	// the commands of the acquisition, to AcquireEnd and to HoldEnd, and those that it lacks are taken from ctx. Nothing else of that
	// context matters: neither its end, nor an owner or a hold that it carries. A nil context stands for ctx.
	AcquireStart(ctx context.Context, d AcquireStart) context.Context

	// AcquireEnd is called once for each AcquireStart, by the same goroutine, when the acquisition has succeeded or failed. The method
	// that acquires returns after it. So a slow AcquireEnd lengthens the critical section, and the hold may be over when it returns.
	AcquireEnd(ctx context.Context, d AcquireEnd)

	// HoldEnd is called once for each successful acquisition that is no re-entry (an Await of a latch and permits of a plain semaphore are no holds, and have none), after
	// its AcquireEnd, when the hold is over. For a re-entered lock, that is when its last acquisition is unlocked. By then ctx has often
	// ended: only its values are of use. A goroutine of the client calls it, as it does Event. If 256 of these calls wait for a slow
	// observer, further ones are dropped, and counted in [Stats].
	HoldEnd(ctx context.Context, d HoldEnd)

	// Event is called by the goroutine that calls HoldEnd.
	Event(d Event)

	// ClientStart is called when a client is made, and ClientEnd when it is closed, on a goroutine of its own, after all other calls.
	// Close waits for a slow observer for 1 s at most, and for its ClientEnd as long, so calls of that one may come later.
	ClientStart(c Client)
	ClientEnd(c Client)
}

// Base is an [Observer] that does nothing.
type Base struct{}

var _ Observer = Base{}

// AcquireStart implements [Observer].
func (Base) AcquireStart(ctx context.Context, _ AcquireStart) context.Context { return ctx }

// AcquireEnd implements [Observer].
func (Base) AcquireEnd(context.Context, AcquireEnd) {}

// HoldEnd implements [Observer].
func (Base) HoldEnd(context.Context, HoldEnd) {}

// Event implements [Observer].
func (Base) Event(Event) {}

// ClientStart implements [Observer].
func (Base) ClientStart(Client) {}

// ClientEnd implements [Observer].
func (Base) ClientEnd(Client) {}

// Client is the client that is observed: a *rlock.Client.
type Client interface {
	// Stats returns what the client does at this moment.
	Stats() Stats
}

// AcquireStart is an acquisition that begins.
type AcquireStart struct {
	// Op is the method, in words: lock, try lock, acquire, try acquire, do, try do, lead, adopt, or await.
	Op string
	// Name is the name with which the handle was made, or a description of the group with the names of its members.
	Name string
	// Kind is lock, fair, fenced, fenced fair, spin, read, write, fenced write, semaphore, plain semaphore, count-down latch, multi or
	// red.
	Kind string
	// Wait limits how long the call waits. It is 0 for a single attempt, and negative without a limit.
	Wait time.Duration
	// Lease is the lease that the caller asked for. 0 means that of the client, renewed.
	Lease time.Duration
	// Permits is how many permits of a semaphore it wants, and 0 for other kinds.
	Permits int
	// Member means that a group acquires one of its members. The group has an acquisition of its own, if the client of one of its locks
	// is observed. It may try a member several times, with waits of its own. Members of a red lock are acquired by other goroutines than
	// the caller's, and with the Op acquire.
	Member bool
}

// AcquireEnd is how an acquisition went.
type AcquireEnd struct {
	AcquireStart

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
	// Via is how the lock came to its owner.
	Via Via
	// Contended means that another owner of the same client held the lock meanwhile.
	Contended bool
	// Token is the fencing token, or 0.
	Token uint64
}

// HoldEnd is how a hold ended.
type HoldEnd struct {
	AcquireStart // of the acquisition

	// Held is for how long the lock was held: from the start of AcquireEnd until the unlock began, or until the hold was lost.
	Held time.Duration
	// End is why the hold ended. Err is the error of the hold then, and nil for EndUnlocked.
	End End
	Err error
	// Token is the fencing token, or 0.
	Token uint64
}

// Event is something else that happened.
type Event struct {
	Kind EventKind
	// Name is the name of the lock, or the description of the group, that the event concerns. It is empty if that is no single lock.
	Name string
	// Time is when it happened.
	Time time.Time
	// Err is the reason, if there is one.
	Err error
}
