package rlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// Lock is a handle on a lock in Redis. It is made by [Client.NewLock], [Client.NewFairLock], [Client.NewFencedLock] or
// [Client.NewSpinLock], or is one side of an [RWLock]. This documentation applies to all of them. A handle is cheap, holds
// nothing by itself, and is safe for concurrent use: goroutines that share it exclude each other. The handles of one name are
// one lock.
//
// The context that is passed to a method decides which owner holds the lock: see [WithOwner] and [Hold.Context]. A context
// without an owner does not re-enter: a second Lock with it waits for the first, as with a [sync.Mutex]. rlock logs such a
// wait: after one second if both calls have the same context and it can end, and otherwise after one lease. To re-enter, lock with
// [Hold.Context] or the context that Do passes to its function. To unlock somewhere else, pass on that context, or an owner by [WithOwner].
type Lock struct{ l client.Lock }

// NewLock returns a handle on the reentrant lock of that name. It ports getLock. It sends nothing and does not fail. The
// first method that is called reports a name that cannot be a lock's with [ErrInvalidName], and an option that cannot work
// with [ErrInvalidOption]. The same applies to the constructors of all other kinds.
func (c *Client) NewLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Plain, name, opts)
}

func (c *Client) newLock(k *wire.Kind, name string, opts []LockOption) *Lock {
	if c == nil || c.client == nil {
		return nil
	}
	l := &Lock{}
	l.l.Init(c.client, k, name, c.mapName(name))
	for i, opt := range opts {
		if opt == nil {
			opt = func(*lockSettings) error {
				return fmt.Errorf("%w: option %d of the lock is nil", ErrInvalidOption, i+1)
			}
		}
		l.l.Configure(opt)
	}
	return l
}

// in returns the implementation of the handle, or nil.
func (l *Lock) in() *client.Lock {
	if l == nil {
		return nil
	}
	return &l.l
}

func (l *Lock) member() client.Member { return l.in() }

// Name returns the name with which the handle was made, before any prefix or mapper. It ports getName. A nil handle has an
// empty name.
func (l *Lock) Name() string { return l.in().Name() }

// Lock waits until the context's owner holds the lock. An owner that holds it already re-enters. It ports lock and
// lockInterruptibly. The lock is renewed until it is unlocked, or held for as long as [Lease] says. Lock waits for the end of an
// outage of Redis, too: without [Wait] or a deadline, for as long as that lasts.
//
// If ctx ends or [Wait] is over, the error is [ErrNotAcquired] if another owner has the lock, and [ErrUnavailable] if Redis
// could not say so. Either is joined with the error and cause of a ctx that ended. If ctx had ended before the call, or was
// canceled before Redis could reply, the error is ctx's error and cause alone. If another owner of this process holds the
// lock, ErrNotAcquired says for how long.
//
// The error is [ErrLost] if this owner lost the lock and has not unlocked it since. The other errors are [ErrClosed],
// [ErrInvalidName], [ErrInvalidOption], [ErrNotReplicated], or an error from Redis that waiting does not help. After an error
// nothing is held. If an abandoned command acquires the lock later, rlock releases it in the background.
func (l *Lock) Lock(ctx context.Context, opts ...AcquireOption) error {
	_, err := l.in().Acquire(ctx, terms("lock", false, false, opts))
	return err
}

// TryLock is [Lock.Lock] with a [Wait] of 0 unless another is given. It ports tryLock. It returns false and nil if another
// owner holds the lock. If ctx ends a longer wait, it returns false and the error of Lock. If Redis could not answer, the
// error is [ErrUnavailable]. It does not ask Redis while another owner of this client holds the lock. If that owner lost the
// lock by force, this client notices it at the next renewal, at the latest.
//
// A single attempt does not overtake other processes that wait for the lock. So it returns false also for a free lock that one
// of them is about to get, and for as long as there is always one. A Wait stands in the line, and has its turn.
//
// A single attempt ends by the deadline of ctx. Without a deadline it ends after a fifth of the command timeout, and the times
// for replica acks and to connect. It never takes longer than the command timeout.
func (l *Lock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	_, err := l.in().Acquire(ctx, terms("try lock", true, false, opts))
	return acquired(err)
}

// Acquire is [Lock.Lock], but returns the acquisition as a value. That value notices the loss of the lock, and it alone
// unlocks this acquisition.
func (l *Lock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, l.in(), terms("acquire", false, true, opts))
}

// TryAcquire is [Lock.Acquire] with a [Wait] of 0 unless another is given. If another owner holds the lock, the error is
// [ErrNotAcquired].
func (l *Lock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, l.in(), terms("try acquire", true, true, opts))
}

// Do runs fn while it holds the lock, and then unlocks, even if fn panics. It waits as [Lock.Lock] does. With Wait(0) it makes
// a single attempt. If another owner holds the lock then, the error is [ErrNotAcquired]. fn gets the context of
// [Hold.Context], which ends when the lock is lost. Locking this lock with it re-enters. Do undoes only its own acquisition: a
// re-entry that fn does not unlock keeps the lock after Do.
//
// Do returns fn's error as it is, unless the lock was lost while fn ran. After a loss, the error wraps [ErrLost] and fn's
// error. If fn's error wraps the cause of its context, which is the loss, Do returns fn's error alone. Do's own errors say
// whether they came "while waiting" or "while held"; a single attempt is a wait too. An error of another lock that fn returns looks like
// one of this lock: [Lock.TryDo] also says whether fn ran.
//
// Do waits for its unlock. If Redis does not answer, Do returns up to the command timeout after fn, whatever ctx says. If the
// release fails, Do logs that, and returns fn's error alone. rlock tries again until the lease is over.
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, l.in(), fn, terms("do", false, true, opts))
}

// Unlock ends one acquisition made by Lock or TryLock. The last unlock of an owner releases the lock. It ports unlock. Only
// its [Hold] releases an acquisition made by Acquire. Do releases its own.
//
// With an owner in ctx, or a hold of this lock that is not over, Unlock ends the latest acquisition made with it, through any handle. Without
// either, it ends an acquisition made through this handle: acquisitions without an owner come first, and of them the one
// whose lease ends first. So goroutines that share a handle need no owner to unlock. A late Unlock returns [ErrLost], and
// does not free the lock of the next holder.
//
// It returns the errors of [Hold.Unlock]. Like that, it works after ctx has ended, and after [Client.Close].
func (l *Lock) Unlock(ctx context.Context) error { return l.in().Unlock(ctx) }

// ForceUnlock frees the lock, even if another owner holds it, and reports whether it was held. It ports forceUnlock. Holds
// of this client are lost at once, and those of other clients at their next renewal. On a read lock it ends the hold of
// every reader. On a write lock it ends the writer's hold, and the read hold of the same owner. Neither touches the holders
// of the other side. Called with the context of a hold that it ends, it may return that context's error although it has
// freed the lock.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) { return l.in().ForceUnlock(ctx, nil) }

// ForceUnlockFrom is [Lock.ForceUnlock], but only if nobody else than these holders has the lock. It is for operators: between
// [Lock.Inspect] and a bare ForceUnlock, the lock may have gone to the next holder, which that would free. The holders are those of
// [HolderInfo], from 1 to 100; otherwise the error is [ErrInvalidOption]. It returns false if another holder has the lock, or nobody.
// Redis compares and frees in one step.
//
// An owner that unlocks and locks again is a new holder, except in Redisson, whose holders are threads.
func (l *Lock) ForceUnlockFrom(ctx context.Context, holders ...string) (bool, error) {
	return l.in().ForceUnlock(ctx, append([]string{}, holders...))
}

// IsLocked reports whether any owner holds the lock. It ports isLocked, and asks the master.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.in().IsLocked(ctx) }

// TTL returns how long the lock's present lease still runs. It returns 0 if no owner holds the lock, and a negative duration
// for a lock without a lease, which neither rlock nor Redisson makes. Both sides of a read-write lock have one lease, which
// lasts as long as the longest hold. It ports remainTimeToLive, and asks the master.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) { return l.in().TTL(ctx) }

// IsHeld reports whether the context's owner holds the lock, in Redis too. It ports isHeldByCurrentThread. Without an owner
// in the context, it reports on the owner whose acquisition [Lock.Unlock] would end.
func (l *Lock) IsHeld(ctx context.Context) (bool, error) {
	n, err := l.in().HoldCount(ctx, "is held")
	return n > 0, err
}

// HoldCount returns how many acquisitions the context's owner has yet to unlock. It returns 0 if the owner does not hold the
// lock, here or in Redis. It ports getHoldCount. Without an owner in the context, it counts those of the owner whose
// acquisition [Lock.Unlock] would end.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	return l.in().HoldCount(ctx, "hold count")
}

// acquired turns the error of an acquisition into the results of a TryLock.
func acquired(err error) (bool, error) {
	if errors.Is(err, fault.ErrRefused) {
		return false, nil
	}
	return err == nil, err
}

// lock is the Lock of every group.
func lock(ctx context.Context, m client.Member, opts []AcquireOption) error {
	_, err := m.Take(ctx, terms("lock", false, false, opts))
	return err
}

// tryLock is the TryLock of every group.
func tryLock(ctx context.Context, m client.Member, opts []AcquireOption) (bool, error) {
	_, err := m.Take(ctx, terms("try lock", true, false, opts))
	return acquired(err)
}

// takeHold acquires for a Hold that the caller gets.
func takeHold(ctx context.Context, m client.Member, t client.Terms) (*Hold, error) {
	held, err := m.Take(ctx, t)
	if err != nil {
		return nil, err
	}
	hold := &Hold{}
	hold.h.Init(ctx, held)
	hold.h.DetectDrop()
	return hold, nil
}

// do is the Do of every Acquirer.
func do(ctx context.Context, m client.Member, fn func(context.Context) error, t client.Terms) error {
	return doAs(ctx, ctx, m, fn, t)
}

// doAs is do for the owner of another context, which is derived from ctx. The context that fn gets does not have that owner.
func doAs(as, ctx context.Context, m client.Member, fn func(context.Context) error, t client.Terms) (err error) {
	if fn == nil {
		return &fault.OpError{Op: t.Op, What: "with a nil function", Err: ErrInvalidOption}
	}
	held, err := m.Take(as, t)
	if err != nil {
		return whileWaiting(t.Op, err)
	}
	var hold client.Hold
	hold.Init(ctx, held)
	defer func() {
		failed := hold.Unlock(ctx)
		switch {
		case errors.Is(failed, ErrLost):
			err = afterLoss(t.Op, failed, err)
		case failed != nil:
			logTo(m, notice.LogNotReleased, failed)
		}
	}()
	return fn(hold.Context())
}

// afterLoss returns the error of Do after the loss of its lock. own is the error of its function. If own wraps the loss, it is
// the context's cause, and so says everything. The loss is a pointer, so that the loss of another lock is not taken for it.
func afterLoss(op string, loss, own error) error {
	if own != nil && errors.Is(own, loss) {
		return own
	}
	if held := (*fault.OpError)(nil); errors.As(loss, &held) {
		loss = &fault.OpError{Op: op, Name: held.Name, What: held.What, Phase: "while held", Err: held.Err}
	}
	if own == nil {
		return loss
	}
	return &fault.LossError{Loss: loss, Own: own}
}

// whileWaiting adds to an error of Do's acquisition in which phase it came. An error about a mistake in the call comes before
// any.
func whileWaiting(op string, err error) error {
	var failed *fault.OpError
	if !errors.As(err, &failed) || failed.Op != op || errors.Is(err, ErrInvalidOption) || errors.Is(err, ErrInvalidName) {
		return err
	}
	return &fault.OpError{Op: op, Name: failed.Name, What: failed.What, Phase: "while waiting", Err: failed.Err}
}

// logTo logs something about a lock or a group.
func logTo(m client.Member, what *notice.Message, err error) {
	if logger, ok := m.(interface{ Log(*notice.Message, error) }); ok {
		logger.Log(what, err)
	}
}

// LogValue returns the name and the kind of the lock, for a log line. It implements [slog.LogValuer].
func (l *Lock) LogValue() slog.Value { return l.in().LogValue("lock") }

// String returns the kind and the name of the lock, such as: fair lock "a". A name is cut at 64 characters. It implements [fmt.Stringer].
func (l *Lock) String() string { return l.in().Text("") }
