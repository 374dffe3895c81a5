package rlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// Locker has the verbs that all kinds of lock share. It cannot be implemented outside this package.
type Locker interface {
	Lock(ctx context.Context, opts ...AcquireOption) error
	TryLock(ctx context.Context, opts ...AcquireOption) (bool, error)
	Unlock(ctx context.Context) error
	Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error
	Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error)
	TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error)

	// take is what the verbs that acquire have in common. It seals the interface.
	take(ctx context.Context, a acquisition, opts []AcquireOption) (holding, error)
	// leaves returns the locks in Redis that are meant, in order.
	leaves() []*Lock
	// warn logs what happened to the lock, like [Client.warn].
	warn(message string, err error)
}

var _ Locker = (*Lock)(nil)

// kind is everything in which one sort of lock differs from another. A sort of lock is one literal of it.
type kind struct {
	family family
	side   side

	acquire, count, release, renew, force, inspect *script
	handOver                                       *script // nil: it is not handed over within a process

	// keys are the prefixes of the keys that the kind has besides the lock.
	keys []string
	// holdKey ends the key that each holding has of its own, if there is one.
	holdKey string
	// fieldSuffix is what follows <client id>:<number> in a holder field.
	fieldSuffix string
	// channel is the prefix of the one on which a release is announced. Without it none is: waiters poll.
	channel string

	// first and most are the pauses of waiters who poll, unless the handle says otherwise.
	first, most time.Duration

	// queues tells that waiters stand in a queue in Redis, each of which is woken alone, on a channel of its own. Where
	// they do not, those of one process queue in the gate.
	queues bool
	// lazy tells that a holder in Redis may be handed on as it is.
	lazy bool
	// messages counts those that announce one release; 0: one.
	messages uint64
	// noUpgrade tells that an owner who holds the other side of the name would wait for itself.
	noUpgrade bool
}

// family tells which kinds exclude each other on one name. Locks of different families must not share a name.
type family uint8

const (
	plainFamily family = iota
	fairFamily
	rwFamily
	redFamily // no lock of its own: who waits for the same red lock queues in a gate of this family
)

// side tells apart what one owner may hold of one name at the same time.
type side uint8

const (
	mainSide side = iota // the only one, or the writing one
	readSide             // the reading one of a read-write lock
)

var lockKind = &kind{
	family:   plainFamily,
	acquire:  lockAcquire,
	count:    lockCount,
	release:  lockRelease,
	renew:    lockRenew,
	force:    lockForce,
	inspect:  lockInspect,
	handOver: lockHandOver,
	lazy:     true,
	channel:  "redisson_lock__channel",
}

// Lock is a handle on a lock in Redis, made by [Client.NewLock], [Client.NewFairLock], [Client.NewFencedLock] or
// [Client.NewSpinLock], or one side of an [RWLock]. What is said here holds for all of them. It is cheap, holds nothing by
// itself, and is safe for concurrent use: goroutines that share it exclude each other. The handles of one name are one
// lock.
//
// Which owner holds the lock is decided by the context that is given to a verb, see [WithOwner] and [Hold.Context]. A
// context without an owner does not re-enter: a second Lock with it waits for the first, as with a [sync.Mutex].
type Lock struct {
	client  *Client
	kind    *kind
	name    string // the user's
	nameKey nameKey
	err     error // what is wrong with the name or the options
	wired   atomic.Pointer[wire]

	nonReentrant bool
	first, most  time.Duration // the pauses of one that polls

	// Guarded by client.mu.
	open []*entry // made by Lock and TryLock through this handle, and not known to be over
	lost []*entry // of those, the latest that were lost and that nobody has unlocked yet
}

// maxLost is how many lost holds a handle remembers for the unlocks that have yet to hear of them.
const maxLost = 64

// NewLock returns a handle on the reentrant lock of that name. It ports getLock. It sends nothing and does not fail: a
// name that cannot be one is reported by the first verb, with [ErrInvalidName], and an option that cannot work with
// [ErrInvalidOption]. So do the constructors of all other kinds.
func (c *Client) NewLock(name string, opts ...LockOption) *Lock {
	return c.newLock(lockKind, name, opts)
}

func (c *Client) newLock(k *kind, name string, opts []LockOption) *Lock {
	if c == nil || c.rdb == nil {
		return nil
	}
	key := c.mapName(name)
	l := &Lock{client: c, kind: k, name: name, nameKey: nameKey{c, key, k.family}}
	l.first, l.most = k.first, k.most
	l.err = checkName(key, c.cluster != nil)
	for i, opt := range opts {
		switch {
		case l.err != nil:
		case opt == nil:
			l.err = fmt.Errorf("%w: option %d of the lock is nil", ErrInvalidOption, i+1)
		default:
			l.err = opt(l)
		}
	}
	return l
}

func (l *Lock) key() lockKey { return lockKey{l.nameKey, l.kind.side} }

func (l *Lock) leaves() []*Lock { return []*Lock{l} }

func (l *Lock) take(ctx context.Context, a acquisition, opts []AcquireOption) (holding, error) {
	e, err := l.acquire(ctx, a, opts)
	if err != nil {
		return nil, err // and no nil *entry
	}
	return e, nil
}

// Name returns the name the handle was made with, before any prefix or mapper. It ports getName.
func (l *Lock) Name() string {
	if l == nil {
		return ""
	}
	return l.name
}

// check returns what is wrong with the handle itself.
func (l *Lock) check(op string) error {
	if l == nil || l.client == nil {
		return fmt.Errorf("%w: %s of a nil or zero Lock", ErrInvalidOption, op)
	}
	if l.err != nil {
		return fmt.Errorf("%w (%s)", l.err, op)
	}
	return nil
}

// wrap says of an error to which operation on which lock it came.
func (l *Lock) wrap(err error, op string) error {
	switch {
	case sentinel(err):
		return fmt.Errorf("%w: %s %s", err, op, quote(l.name))
	case wrongType(err):
		return fmt.Errorf("rlock: %s %s: the key %s holds something else than a lock: %w",
			op, quote(l.name), quote(l.nameKey.name), err)
	}
	return fmt.Errorf("rlock: %s %s: %w", op, quote(l.name), err)
}

// Lock waits until the context's owner holds the lock; an owner that holds it already re-enters. It ports lock and
// lockInterruptibly. The lock is renewed until it is unlocked, or held for as long as [Lease] says. Errors:
// [ErrNotAcquired] when ctx ended, joined with its error and cause, or when [Wait] was over; [ErrLost] when this owner
// lost the lock and has not unlocked it since; [ErrClosed], [ErrInvalidName], [ErrInvalidOption]; or an error of Redis
// that waiting does not mend. After an error nothing is held, and what a command in flight may still take is released.
func (l *Lock) Lock(ctx context.Context, opts ...AcquireOption) error {
	return lock(ctx, l, opts)
}

// lock is the Lock of every Locker.
func lock(ctx context.Context, l Locker, opts []AcquireOption) error {
	_, err := l.take(ctx, acquisition{op: "lock"}, opts)
	return err
}

// TryLock is [Lock.Lock] with a [Wait] of 0 unless another is given. It ports tryLock. It returns false and nil when
// another owner holds the lock, and an error, never that, when Redis could not say. Redis is not asked while another owner
// of this client is known to hold the lock; that the lock was taken away from it by force is known when it was next to be
// renewed, at the latest.
func (l *Lock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	return tryLock(ctx, l, opts)
}

// tryLock is the TryLock of every Locker.
func tryLock(ctx context.Context, l Locker, opts []AcquireOption) (bool, error) {
	_, err := l.take(ctx, acquisition{op: "try lock", try: true}, opts)
	if errors.Is(err, errRefused) {
		return false, nil
	}
	return err == nil, err
}

// Acquire is [Lock.Lock], and returns the acquisition as a value, which tells when the lock is lost and which alone
// unlocks it.
func (l *Lock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, l, acquisition{op: "acquire", byHold: true}, opts)
}

// TryAcquire is [Lock.Acquire] with a [Wait] of 0 unless another is given. When another owner holds the lock the error
// is [ErrNotAcquired].
func (l *Lock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, l, acquisition{op: "try acquire", byHold: true, try: true}, opts)
}

// takeHold acquires for a Hold that the caller gets.
func takeHold(ctx context.Context, l Locker, a acquisition, opts []AcquireOption) (*Hold, error) {
	h, err := l.take(ctx, a, opts)
	if err != nil {
		return nil, err
	}
	hold := newHold(ctx, h)
	hold.watchLeak()
	return hold, nil
}

// Do runs fn while it holds the lock, and unlocks, also when fn panics. It waits as [Lock.Lock] does; with Wait(0) fn
// runs unless another owner holds the lock: then the error is [ErrNotAcquired]. The context that fn gets is
// [Hold.Context]: it ends when the lock is lost, and locking this lock with it re-enters.
//
// Do returns fn's error as it is, joined with [ErrLost] when the lock was lost while fn ran. A release that fails
// otherwise is logged, and tried again until the lease is over.
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) (err error) {
	return do(ctx, l, fn, opts)
}

func do(ctx context.Context, l Locker, fn func(context.Context) error, opts []AcquireOption) (err error) {
	if fn == nil {
		return fmt.Errorf("%w: the function given to Do is nil", ErrInvalidOption)
	}
	h, err := l.take(ctx, acquisition{op: "do", byHold: true}, opts)
	if err != nil {
		return err
	}
	hold := newHold(ctx, h)
	defer func() {
		lost := hold.Err()
		failed := hold.Unlock(ctx)
		if errors.Is(failed, ErrLost) {
			lost = failed
		}
		switch {
		case errors.Is(lost, ErrLost) && err == nil:
			err = lost
		case errors.Is(lost, ErrLost):
			err = errors.Join(err, lost)
		case failed != nil:
			l.warn(cannotRelease, failed)
		}
	}()
	return fn(hold.Context())
}

// warn logs what happened to this lock, like [Client.warn].
func (l *Lock) warn(message string, err error) {
	l.client.warn(message, err, slog.String("lock", quote(l.name)))
}

// Unlock settles one Lock or TryLock; the last one of an owner releases the lock. It ports unlock. What Acquire or Do
// took is released by its [Hold] and by Do alone.
//
// With an owner in ctx, or a hold of this lock, it settles the latest acquisition made with it, through whichever
// handle. Without, it settles one made through this handle: those made without an owner first, and of them the one
// whose lease ends first. So goroutines that share a handle need no owner to unlock, and one that is late is told
// [ErrLost] and does not free the lock of the next.
//
// It returns as [Hold.Unlock] does, and like that it works when ctx has ended and after [Client.Close].
func (l *Lock) Unlock(ctx context.Context) error {
	if err := l.check("unlock"); err != nil {
		return err
	}
	c := l.client
	o := l.ownerIn(ctx)
	c.mu.Lock()
	e := l.latest(o)
	if o == nil {
		e = l.soonest()
	}
	if e == nil {
		c.mu.Unlock()
		return l.wrap(ErrNotHeld, "unlock")
	}
	e.closed = true
	return c.unlock(ctx, e)
}

// latest returns the entry that an unlock by this owner settles, or nil. It requires client.mu.
func (l *Lock) latest(o *owner) *entry {
	if o == nil {
		return nil
	}
	p := l.client.possession(l.key(), o)
	if p == nil {
		p = o.lostOf(l.key())
	}
	if p == nil {
		return nil
	}
	for _, e := range slices.Backward(p.entries) {
		if !e.byHold && !e.closed {
			return e
		}
	}
	return nil
}

// soonest returns the entry that an unlock without owner settles, or nil: one made without owner before any other, of
// them a lost one before a live one, and of them the one whose lease ends first. It requires client.mu.
func (l *Lock) soonest() *entry {
	var best *entry
	pick := func(entries []*entry, plain bool) {
		for _, e := range entries {
			if !e.closed && e.plain == plain &&
				(best == nil || e.possession.deadline < best.possession.deadline) {
				best = e
			}
		}
	}
	for _, plain := range []bool{true, false} {
		for _, entries := range [][]*entry{l.lost, l.open} {
			if best == nil {
				pick(entries, plain)
			}
		}
	}
	return best
}

// remember keeps a lost entry for the unlock that has yet to hear of it. It requires client.mu.
func (l *Lock) remember(e *entry) {
	if e.byHold {
		return
	}
	if len(l.lost) == maxLost {
		l.lost = slices.Delete(l.lost, 0, 1)
	}
	l.lost = append(l.lost, e)
}

// forget drops an entry from the handle. It requires client.mu.
func (l *Lock) forget(e *entry) {
	l.open = without(l.open, e)
	l.lost = without(l.lost, e)
}
