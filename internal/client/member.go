package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/table"
)

// Member is a lock, or a group of them, that can be acquired as one. Its methods are safe for concurrent use.
type Member interface {
	// Take acquires it. The error names the operation and the lock.
	Take(ctx context.Context, t Terms) (Held, error)
	// Locks returns the base locks, in order.
	Locks() []*Lock
}

// Terms are the conditions under which a verb acquires.
type Terms struct {
	Op      string        // the operation, for errors
	Lease   time.Duration // zero means the client's watchdog timeout, renewed
	Renewed bool          // the watchdog renews the lease
	Wait    time.Duration
	Limited bool          // whether Wait limits the wait; if not, the context alone does
	ByHold  bool          // only the Hold unlocks it
	Permits int           // how many it wants; 0 means that nobody said
	AtLeast time.Duration // how long the lock stays taken at least; 0 means no longer than it is held
	Ticket  string        // adopts this field, of [Lock.OpenTicket]; empty means that it acquires
	// As is for whom it acquires each of its base locks. Nil means that the context says so.
	As []owner.Who
	// By is the moment by which a member must reply or give up, replica acks aside. Its group sets it for all members
	// together. The zero time means that Wait, the context and the command timeout decide.
	By time.Time
	// Detached says that the end of the context ends the wait for a lock as Wait does, and nothing else. Groups have no use for it.
	Detached bool
	// Member says that it is acquired as one of a group. Again says that it is a member that the group has lost, or never had: it is
	// no acquisition of its own for those who observe. Group is what observes the group, if anything does.
	Member, Again bool
	Group         *observe.Span
	// Progress is told what the call would say if it ended now. Nil means that nobody asks.
	Progress *outcome.Progress
	// Err is the error of the options, or nil.
	Err error
}

// Renews reports whether the watchdog keeps the lock until it is unlocked.
func (t *Terms) Renews() bool { return t.Renewed || t.Lease == 0 }

// Started returns what an observer gets of the terms, given the name and the kind of what is acquired.
func (t *Terms) Started(name, kind string) observe.Started {
	s := observe.Started{Op: t.Op, Name: name, Kind: kind, Wait: -1, Lease: t.Lease, Permits: t.Permits, Member: t.Member}
	if t.Limited {
		s.Wait = t.Wait
	}
	return s
}

// Single reports whether the verb asks Redis once, and does not wait.
func (t *Terms) Single() bool { return t.Limited && t.Wait == 0 }

// Held is one acquisition that a caller has: of one lock, or of a group. It must not refer to its Hold. Otherwise the
// runtime would never notice a dropped Hold.
type Held interface {
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time
	Token() uint64
	// Waited reports whether it was refused at first, and granted in its turn.
	Waited() bool
	// Reentered reports whether its owner had all of it already.
	Reentered() bool
	Unlock(ctx context.Context) error
	// Extend makes the lease end no earlier than d from now. The error names the operation and the lock.
	Extend(ctx context.Context, d time.Duration) error

	// Notify sets the function to which the end is reported. quiet means that the function logs a loss. It returns why the
	// acquisition is over, if it is already.
	Notify(tell context.CancelCauseFunc, quiet bool) error
	// Loss returns how an acquisition that is over was lost.
	Loss() lease.Loss
	// RenewSoon plans the next renewal sooner.
	RenewSoon()
	// Leak ends an acquisition that the program can no longer unlock.
	Leak()
	// Locks returns the base locks that are held.
	Locks() []*Lock
	// OwnerOf returns the owner that holds one of them.
	OwnerOf(k table.Key) *owner.Owner
	// Closed returns the flag that says whether it is unlocked, exported or dropped. It is set before any of the base locks is
	// unlocked. From then on the context of the hold stands for nobody.
	Closed() *atomic.Bool
	// Part returns the part of the acquisition that is one of a lock or a group, or nil: the whole, or that of a member.
	Part(of Member) Held
}

// taken is the Held of one lock.
type taken struct {
	lock *Lock
	*table.Acquisition
}

var _ Held = taken{}

// Err implements [Held].
func (t taken) Err() error { return t.Acquisition.Err(clock.Now()) }

// Deadline implements [Held].
func (t taken) Deadline() time.Time {
	at := t.Acquisition.Deadline()
	if at == 0 {
		return time.Time{}
	}
	return at.Time()
}

// Locks implements [Held].
func (t taken) Locks() []*Lock { return []*Lock{t.lock} }

// OwnerOf implements [Held].
func (t taken) OwnerOf(table.Key) *owner.Owner { return t.Owner() }

// Fields returns its holder in Redis.
func (t taken) Fields() []string { return []string{t.Field()} }

// Unlock implements [Held].
func (t taken) Unlock(ctx context.Context) error { return t.lock.release(ctx, t.Acquisition) }

// RenewSoon implements [Held].
func (t taken) RenewSoon() {
	var n notice.List
	t.Acquisition.RenewSoon(clock.Now(), &n)
	n.Deliver(t.lock.client)
}

// Leak implements [Held].
func (t taken) Leak() {
	var n notice.List
	t.Acquisition.Leak(clock.Now(), &n)
	n.Deliver(t.lock.client)
}

// Retryable reports whether waiting may help after an error that a member's Take returned.
func Retryable(err error) bool {
	var f *fault.Error
	switch {
	case fault.Sentinel(err):
		return false
	case errors.As(err, &f):
		return f.Transient
	}
	return true
}
