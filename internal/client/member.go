package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/owner"
	"github.com/go-rlock/rlock/internal/report"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/observe"
)

// Member is a lock, or a group of them, that can be acquired as one. Its methods are safe for concurrent use.
type Member interface {
	// Take acquires it. The error names the operation and the lock.
	Take(ctx context.Context, t Terms) (Held, error)
	// Locks returns the lock itself, or those of the group, in order.
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
	// By is the moment by which a member must reply or give up, replica acks aside. Its group sets it for all members
	// together. The zero time means that Wait, the context and the command timeout decide.
	By time.Time
	// Member says that it is acquired as one of a group. Group is what observes the group, if anything does.
	Member bool
	Group  *report.Span
	// Err is the error of the options, or nil.
	Err error
}

// Renews reports whether the watchdog keeps the lock until it is unlocked.
func (t *Terms) Renews() bool { return t.Renewed || t.Lease == 0 }

// Started returns what an observer gets of the terms, given the name and the kind of what is acquired.
func (t *Terms) Started(name, kind string) observe.AcquireStart {
	s := observe.AcquireStart{Op: t.Op, Name: name, Kind: kind, Wait: -1, Lease: t.Lease, Permits: t.Permits, Member: t.Member}
	if t.Limited {
		s.Wait = t.Wait
	}
	return s
}

// Single reports whether the verb asks Redis once, and does not wait.
func (t *Terms) Single() bool { return t.Limited && t.Wait == 0 }

// Held is one acquisition that a caller has: of one lock, or of a group.
type Held interface {
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time
	Token() uint64
	Unlock(ctx context.Context) error
	// Extend makes the lease end no earlier than d from now. The error names the operation and the lock.
	Extend(ctx context.Context, d time.Duration) error

	// Notify sets the function to which the end is reported. It returns why the acquisition is over, if it is already.
	Notify(tell context.CancelCauseFunc) error
	// Locks returns the locks that are held.
	Locks() []*Lock
	// OwnerOf returns the owner that holds one of them.
	OwnerOf(k table.Key) *owner.Owner
	// Closed returns the flag that says whether it is unlocked or exported. It is set before any of the locks is
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

// Unlock implements [Held].
func (t taken) Unlock(ctx context.Context) error { return t.lock.release(ctx, t.Acquisition) }

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
