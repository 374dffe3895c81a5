package rlock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// Lock is a handle on a lock in Redis. It is made by [Client.NewLock], [Client.NewFairLock] or [Client.NewSpinLock], or is one side of an
// [RWLock]; what follows applies to all of them. A handle is cheap, holds nothing by itself, and is safe for concurrent use: goroutines
// that share it exclude each other. All handles of a name are one lock.
//
// The context passed to a method decides who owns the lock: see [WithOwner] and [Hold.Context]. A plain context does not re-enter: a
// second Lock with it waits for the first, as with a [sync.Mutex].
type Lock struct{ l client.Lock }

// NewLock returns a handle on the reentrant lock of that name. Like the constructors of all other kinds, it sends nothing and does not
// fail. The first method that is called reports a name that no lock can have with [ErrInvalidName], and an option that cannot work with
// [ErrInvalidOption].
func (c *Client) NewLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Plain, name, opts)
}

func (c *Client) newLock(k *wire.Kind, name string, opts []LockOption) *Lock {
	if c == nil || c.client == nil {
		return nil
	}
	l := &Lock{}
	l.l.Init(c.client, k, name, c.inRedis(name))
	configure(&l.l, nil, opts)
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

// Name returns the name with which the handle was made, without the prefix. It is empty for a nil handle.
func (l *Lock) Name() string { return l.in().Name() }

// Lock waits until the context's owner holds the lock, or re-enters if it holds the lock already. The lock is renewed until it is
// unlocked, or held for as long as [Lease] says. Lock also waits for the end of an outage of Redis, unless [Wait] or the context limits
// that.
//
// If ctx ends or [Wait] is over, the error is [ErrNotAcquired] if another owner has the lock, and [ErrUnavailable] if Redis could not say
// so, joined with the error and cause of a ctx that ended. If ctx had ended before the call, or was canceled before Redis could reply, the
// error is that of ctx alone.
//
// The error is [ErrLost] if this owner lost the lock and has not unlocked it since. Other errors are [ErrClosed], [ErrInvalidName],
// [ErrInvalidOption], [ErrNotReplicated], and errors from Redis that waiting does not help. After an error nothing is held.
func (l *Lock) Lock(ctx context.Context, opts ...AcquireOption) error {
	_, err := l.in().Take(ctx, terms("lock", false, false, l.in(), opts))
	return err
}

// TryLock is [Lock.Lock] with a [Wait] of 0 unless the call has another. It returns false and nil if another owner holds the lock. If
// Redis could not answer, the error is [ErrUnavailable]. While another owner of this client holds the lock, it does not ask Redis.
//
// A single attempt does not overtake other processes that wait for the lock, so it may also return false for a lock that one of them is
// about to get.
func (l *Lock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	_, err := l.in().Take(ctx, terms("try lock", true, false, l.in(), opts))
	return acquired(err)
}

// Acquire is [Lock.Lock], but returns the acquisition as a value, which notices the loss of the lock. Only that value unlocks it.
func (l *Lock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, l.in(), terms("acquire", false, true, l.in(), opts))
}

// TryAcquire is [Lock.Acquire] with a [Wait] of 0 unless the call has another. The error is [ErrNotAcquired] if another owner holds the
// lock.
func (l *Lock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, l.in(), terms("try acquire", true, true, l.in(), opts))
}

// Do runs fn while it holds the lock, and then unlocks, even if fn panics. It waits as [Lock.Lock] does. fn gets the context of
// [Hold.Context], which ends when the lock is lost, and with which this lock can be re-entered.
//
// Do returns fn's error as it is, unless the lock was lost while fn ran: then the error wraps [ErrLost] and fn's error. Errors of Do
// itself say whether they came "while waiting" or "while held". Use [Lock.TryDo] to learn whether fn ran.
//
// If Redis does not answer, Do returns up to the command timeout after fn. If the release fails, Do logs that and returns fn's error;
// rlock retries until the lease is over.
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, l.in(), fn, terms("do", false, true, l.in(), opts))
}

// Unlock ends one acquisition made by Lock or TryLock. The last unlock of an owner releases the lock. Acquisitions made by Acquire and Do
// are ended by their [Hold] and by Do.
//
// If ctx has an owner, or carries a hold of this lock, Unlock ends the latest acquisition made with it, through any handle. Otherwise it
// ends one made through this handle: of several without an owner, the one whose lease ends first. So goroutines that share a handle need
// no owner. A late Unlock returns [ErrLost], and does not free the lock of the next holder.
//
// It returns the errors of [Hold.Unlock], and works after ctx has ended and after [Client.Close].
func (l *Lock) Unlock(ctx context.Context) error { return l.in().Unlock(ctx) }

// ForceUnlock frees the lock, even if another owner holds it, and reports whether it was held. Holds of this client are lost at once,
// those of other clients at their next renewal. On a read lock it ends all reading holds, on a write lock the writer's hold and the read
// hold of the same owner.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) { return l.in().ForceUnlock(ctx, nil) }

// ForceUnlockFrom is [Lock.ForceUnlock], but only if the lock has no other holders than these, which Redis compares and frees in one step:
// between [Lock.Inspect] and a bare ForceUnlock, the lock may have gone to the next holder. Pass from 1 to 100 values of [HolderInfo]'s
// Holder. It returns false if nobody holds the lock, or somebody else does.
func (l *Lock) ForceUnlockFrom(ctx context.Context, holders ...string) (bool, error) {
	return l.in().ForceUnlock(ctx, append([]string{}, holders...))
}

// IsLocked reports whether any owner holds the lock. It asks the master.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.in().IsLocked(ctx) }

// TTL returns the rest of the lock's lease: 0 if nobody holds it, negative if it has none, which neither rlock nor Redisson does. The
// sides of a read-write lock share one lease, as long as the longest hold. It asks the master.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) { return l.in().TTL(ctx) }

// HoldCount returns how many acquisitions the context's owner has yet to unlock: 0 if it does not hold the lock, here or in Redis. Without
// an owner in ctx, it counts those of the owner whose acquisition [Lock.Unlock] would end.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	return l.in().HoldCount(ctx)
}

// acquired turns the error of an acquisition into the results of a TryLock.
func acquired(err error) (bool, error) {
	if errors.Is(err, fault.ErrRefused) {
		return false, nil
	}
	return err == nil, err
}

// takeHold acquires for a Hold that the caller gets.
func takeHold(ctx context.Context, m client.Member, t client.Terms) (*Hold, error) {
	held, err := m.Take(ctx, t)
	if err != nil {
		return nil, err
	}
	hold := &Hold{}
	hold.h.Init(ctx, held)
	return hold, nil
}

// do is the Do of every acquirer.
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

// LogValue implements [slog.LogValuer] with the name and the kind.
func (l *Lock) LogValue() slog.Value { return l.in().LogValue() }

// String implements [fmt.Stringer], such as: fair lock "a". It cuts a name at 64 characters.
func (l *Lock) String() string { return l.in().Text("") }
