package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/wire"
)

// Semaphore is a number of permits in Redis, of which each has at most one holder. It is made by [Client.NewSemaphore]. A handle is cheap,
// holds nothing by itself, and is safe for concurrent use. The handles of one name are one semaphore, in all processes.
//
// A permit is held as a lock is: under a lease, which the watchdog renews until the permit is unlocked. If its holder dies, the
// permit is free when the lease ends, and a waiter takes it then. All that [Hold] says about locks applies to permits. A permit is
// not re-entrant: Acquire with the context of a hold takes another permit. If none is free, the caller may wait for itself.
//
// Somebody has to say how many permits there are: see [Total], [Semaphore.TrySetPermits] and [Semaphore.SetPermits]. Until then,
// Acquire waits, and every refusal matches [ErrNoPermits].
//
// Those that wait have their turns in the order in which they came, within a process, and between the first waiters of the processes.
// Permits are kept for one that wants several until there are enough, so nobody passes it. TryAcquire takes no permit that somebody
// waits for in another process, but it may pass the waiters of its own. Redisson's waiters stand in no line, and may pass. One that asks
// for more permits than there are in all lets others pass.
type Semaphore struct{ s client.Semaphore }

// Total sets the semaphore up with n permits, if nobody has, before the first method of the handle that acquires, adds, drains or counts
// permits, and again when an acquisition finds that the semaphore is gone. n is from 0 to 2^31-1. A different number of permits stays as
// it is: for a [Semaphore] that is logged, and [Semaphore.SetPermits] changes it. The first call takes one command more, so keep the
// handle.
func Total(n int) LockOption {
	return lockOption(func(h *handle) error {
		if h.semaphore == nil {
			return fmt.Errorf("%w: Total is for semaphores", ErrInvalidOption)
		}
		return h.semaphore.Total(n)
	})
}

// ExpireAfter has the semaphore that this handle sets up deleted d later, with all permits that are out: see [Semaphore.Delete] and
// [PlainSemaphore.Delete]. It is for [Client.NewSemaphore] and [Client.NewPlainSemaphore]. d is from 1 ms to 100 years.
func ExpireAfter(d time.Duration) LockOption {
	return lockOption(func(h *handle) error {
		switch {
		case h.semaphore == nil:
			return fmt.Errorf("%w: ExpireAfter is for semaphores", ErrInvalidOption)
		case d < minLease || d > maxLease:
			return outOfRange("the life of a semaphore", d, minLease)
		}
		h.semaphore.ExpireAfter(d)
		return nil
	})
}

// NewSemaphore returns a handle on the semaphore of that name, which Redisson's getPermitExpirableSemaphore shares. Redisson's clients
// compare leases with their own clocks: one that is ahead of Redis's by more than two thirds of a lease takes permits away that are held.
func (c *Client) NewSemaphore(name string, opts ...LockOption) *Semaphore {
	if c == nil || c.client == nil {
		return nil
	}
	s := &Semaphore{}
	s.s.Init(c.client, wire.Permit, name, c.inRedis(name))
	configure(&s.s.Lock, &s.s, opts)
	return s
}

// in returns the implementation of the handle, or nil.
func (s *Semaphore) in() *client.Semaphore {
	if s == nil {
		return nil
	}
	return &s.s
}

// lock returns what acquires permits, or nil.
func (s *Semaphore) lock() *client.Lock {
	if s == nil {
		return nil
	}
	return &s.s.Lock
}

func (s *Semaphore) member() client.Member { return s.lock() }

// Name returns the name with which the handle was made, without the prefix. It is empty for a nil handle.
func (s *Semaphore) Name() string { return s.lock().Name() }

// Acquire waits until it has a permit, or as many as [Permits] says, all at once. It is [Lock.Acquire] for permits: [Wait], [Lease] and
// [RenewedLease] mean the same, and the errors are the same. If nobody has set the semaphore up, the refusal matches [ErrNoPermits] too.
func (s *Semaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, s.in(), terms("acquire", false, true, s.lock(), opts))
}

// TryAcquire is [Semaphore.Acquire] with a [Wait] of 0 unless another is given. If there are not as many permits free, the error is
// [ErrNotAcquired].
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, s.in(), terms("try acquire", true, true, s.lock(), opts))
}

// Do runs fn while it holds a permit, or as many as [Permits] says. It is [Lock.Do] for permits.
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, s.in(), fn, terms("do", false, true, s.lock(), opts))
}

// TryDo is [Lock.TryDo] for permits. If nobody has set the semaphore up, it returns false and [ErrNoPermits].
func (s *Semaphore) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, s.in(), fn, terms("try do", true, true, s.lock(), opts))
}

// TrySetPermits sets the semaphore up with n permits if nobody has, and reports whether it did. n is from 0 to 2^31-1. Each call counts
// once, as those of [CountDownLatch.CountDown] do, and has the same errors.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return s.in().TrySetPermits(ctx, n)
}

// SetPermits sets how many permits there are in all, free and out, and sets the semaphore up if nobody has. If more are out then, none is
// free until enough of them have come back. n is from 0 to 2^31-1. Otherwise it is as [Semaphore.TrySetPermits].
func (s *Semaphore) SetPermits(ctx context.Context, n int) error { return s.in().SetPermits(ctx, n) }

// AddPermits gives the semaphore more permits, or fewer if more is negative: then the number of free ones may be negative, too. It sets the
// semaphore up if nobody has. If there would be more than 2^31-1 permits, or fewer than -(2^31-1) free ones, the error is
// [ErrInvalidOption], and nothing is changed. Otherwise it is as [Semaphore.TrySetPermits].
func (s *Semaphore) AddPermits(ctx context.Context, more int) error {
	return s.in().AddPermits(ctx, more)
}

// AvailablePermits returns how many permits are free: 0 if nobody has set the semaphore up, and perhaps a negative number after
// [Semaphore.AddPermits] or [Semaphore.SetPermits].
func (s *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := s.in().Counts(ctx, "available permits")
	return int(free), err
}

// Permits returns how many permits there are in all, free and out.
func (s *Semaphore) Permits(ctx context.Context) (int, error) {
	free, out, err := s.in().Counts(ctx, "permits")
	return int(free + out), err
}

// Release gives permits back by their ids, which may have been acquired elsewhere, also by Redisson: all or none. From 1 to 1,000 ids can
// be given, each once. If one of the permits is not out any more, or its lease is over, the error is [ErrNotHeld], and nothing is given
// back. A [Hold] that has one of them learns that at its next renewal: use [Hold.Unlock] for permits of this process. Otherwise it is as
// [Semaphore.TrySetPermits].
func (s *Semaphore) Release(ctx context.Context, ids ...string) error {
	return s.in().Release(ctx, ids)
}

// Delete deletes the semaphore, and reports whether there was one. Permits that are out are lost: their holders learn that when they
// unlock, or at the next renewal. Otherwise it is as [Semaphore.TrySetPermits].
func (s *Semaphore) Delete(ctx context.Context) (bool, error) { return s.in().Delete(ctx) }

// String implements [fmt.Stringer]: the kind and the name.
func (s *Semaphore) String() string { return s.lock().Text("semaphore") }
