package rlock

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/wire"
)

// Semaphore is a handle on a semaphore in Redis: a number of permits, of which each has at most one holder. It is made by
// [Client.NewSemaphore]. A handle is cheap, holds nothing by itself, and is safe for concurrent use. The handles of one name are
// one semaphore, in all processes.
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
// waits for in another process, but it may pass the waiters of its own. Redisson's waiters stand in no line, and may pass.
type Semaphore struct{ s client.Semaphore }

// SemaphoreOption sets something for one handle. The handle's first method reports an option that cannot work, with
// [ErrInvalidOption].
type SemaphoreOption func(*client.Semaphore) error

// Total sets the semaphore up with n permits, if nobody has, before the first method of the handle that acquires, adds, drains or
// counts permits. It does so again when an acquisition finds that the semaphore is gone: deleted, expired, or lost with the data of
// Redis. n is from 0 to 2^31-1. A different number of permits stays as it is. For a [Semaphore] that is logged, and [Semaphore.SetPermits] changes it. The
// first call takes one command more. So keep a handle with Total, rather than make one for each use.
func Total(n int) SemaphoreOption {
	return func(s *client.Semaphore) error { return s.Total(n) }
}

// NewSemaphore returns a handle on the semaphore of that name. It ports getPermitExpirableSemaphore. It sends nothing and does
// not fail. The first method that is called reports a name that cannot be a semaphore's with [ErrInvalidName], and an option that
// cannot work with [ErrInvalidOption].
//
// Redisson's acquire without a lease takes a permit for good, even if its holder dies. Here the permit has a lease, which is
// renewed. Redisson's clients compare leases with their own clocks. A clock that is ahead of Redis's by more than two thirds of
// a lease makes them take permits away that are held.
func (c *Client) NewSemaphore(name string, opts ...SemaphoreOption) *Semaphore {
	if c == nil || c.client == nil {
		return nil
	}
	s := &Semaphore{}
	s.s.Init(c.client, wire.Permit, name, c.mapName(name))
	configure(&s.s, opts)
	return s
}

// configure applies the options of a handle.
func configure(s *client.Semaphore, opts []SemaphoreOption) {
	for i, opt := range opts {
		if opt == nil {
			opt = func(*client.Semaphore) error {
				return fmt.Errorf("%w: option %d of the semaphore is nil", ErrInvalidOption, i+1)
			}
		}
		s.Configure(opt)
	}
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

var _ Acquirer = (*Semaphore)(nil)

// Name returns the name with which the handle was made, before any prefix or mapper. It ports getName. A nil handle has an
// empty name.
func (s *Semaphore) Name() string { return s.lock().Name() }

// Acquire waits until it has a permit, or as many as [Permits] says, all at once. It ports acquire. It is [Lock.Acquire] for
// permits: [Wait], [Lease] and [RenewedLease] mean the same, and the errors are the same. If nobody has set the semaphore up, the
// refusal matches [ErrNoPermits] too.
func (s *Semaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, s.in(), terms("acquire", false, true, opts))
}

// TryAcquire is [Semaphore.Acquire] with a [Wait] of 0 unless another is given. It ports tryAcquire. If there are not as many
// permits free, the error is [ErrNotAcquired].
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, s.in(), terms("try acquire", true, true, opts))
}

// Do runs fn while it holds a permit, or as many as [Permits] says. It is [Lock.Do] for permits.
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, s.in(), fn, terms("do", false, true, opts))
}

// TryDo is [Lock.TryDo] for permits. If nobody has set the semaphore up, it returns false and [ErrNoPermits].
func (s *Semaphore) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, s.in(), fn, opts)
}

// SetOption sets something for one [Semaphore.TrySetPermits]. The zero value is refused with [ErrInvalidOption].
type SetOption struct{ d time.Duration }

// ExpireAfter deletes the semaphore d after it was set up, with all permits that are out: see [Semaphore.Delete] and
// [PlainSemaphore.Delete]. d is from 1 ms to 100 years.
func ExpireAfter(d time.Duration) SetOption { return SetOption{d} }

// TrySetPermits sets the semaphore up with n permits if nobody has, and reports whether it did. It ports trySetPermits. n is from
// 0 to 2^31-1.
//
// Each call counts once, as those of [CountDownLatch.CountDown] do, and has the same errors.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int, opts ...SetOption) (bool, error) {
	lifetime, invalid := lifetimeOf(opts)
	return s.in().TrySetPermits(ctx, n, lifetime, invalid)
}

// lifetimeOf returns for how long a semaphore is set up, or what is wrong with the options. Zero means for good.
func lifetimeOf(opts []SetOption) (lifetime time.Duration, invalid error) {
	for _, opt := range opts {
		if lifetime = opt.d; opt.d < minLease || opt.d > maxLease {
			return 0, outOfRange("the life of a semaphore", opt.d, minLease)
		}
	}
	return lifetime, nil
}

// SetPermits sets how many permits there are in all, free and out, and sets the semaphore up if nobody has. It ports setPermits.
// If more are out then, none is free until enough of them have come back. It also mends a semaphore whose number of permits is
// wrong. n is from 0 to 2^31-1. The errors are those of [Semaphore.TrySetPermits].
func (s *Semaphore) SetPermits(ctx context.Context, n int) error { return s.in().SetPermits(ctx, n) }

// AddPermits gives the semaphore more permits, or fewer if more is negative. The number of free permits may become negative then.
// It ports addPermits, and sets the semaphore up if nobody has, as Redisson does. If there would be more than 2^31-1
// permits, or fewer than -(2^31-1) free ones, the error is [ErrInvalidOption], and nothing is changed. Each call counts once, and the other errors are those of
// [Semaphore.TrySetPermits].
func (s *Semaphore) AddPermits(ctx context.Context, more int) error {
	return s.in().AddPermits(ctx, more)
}

// AvailablePermits returns how many permits are free, also those whose holders died and whose leases are over. It ports
// availablePermits. It is 0 if nobody has set the semaphore up, and may be negative after [Semaphore.AddPermits] or
// [Semaphore.SetPermits].
func (s *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := s.in().Counts(ctx, "available permits")
	return int(free), err
}

// Permits returns how many permits there are in all, free and out. It ports getPermits.
func (s *Semaphore) Permits(ctx context.Context) (int, error) {
	free, out, err := s.in().Counts(ctx, "permits")
	return int(free + out), err
}

// AcquiredPermits returns how many permits are out. It ports acquiredPermits.
func (s *Semaphore) AcquiredPermits(ctx context.Context) (int, error) {
	_, out, err := s.in().Counts(ctx, "acquired permits")
	return int(out), err
}

// Release gives permits back by their ids, which may have been acquired elsewhere, also by Redisson: all or none. It ports
// release. From 1 to 1,000 ids can be given, each once. If one of the permits is not out any more, or its lease is over, the error is
// [ErrNotHeld], and nothing is given back. A [Hold] that has one of them learns that at its next renewal: use [Hold.Unlock] for permits of
// this process. Each call counts once, and the other errors are those of [Semaphore.TrySetPermits].
func (s *Semaphore) Release(ctx context.Context, ids ...string) error {
	return s.in().Release(ctx, ids)
}

// Extend sets the lease of a permit, which may have been acquired elsewhere: it ends d from now. It reports whether the permit
// was out. It ports updateLeaseTime, and may shorten a lease. If a [Hold] renews the permit, its next renewal undoes a shorter
// lease. Until then the Hold does not know of it, and another caller may take the permit. d is
// from 1 ms to 100 years. [Hold.Extend] is for the permits of this process.
func (s *Semaphore) Extend(ctx context.Context, id string, d time.Duration) (bool, error) {
	return s.in().Extend(ctx, id, d, outside(d))
}

// outside returns the error of a lease that is not from 1 ms to 100 years, or nil.
func outside(d time.Duration) error {
	if d < minLease || d > maxLease {
		return outOfRange("lease", d, minLease)
	}
	return nil
}

// LeaseOf returns how long the lease of a permit still runs. It ports getLeaseTime. It is negative for a permit that Redisson has
// taken without a lease. The error is [ErrNotHeld] if the permit is not out.
func (s *Semaphore) LeaseOf(ctx context.Context, id string) (time.Duration, error) {
	return s.in().LeaseOf(ctx, id)
}

// Delete deletes the semaphore, and reports whether there was one. It ports delete. Permits that are out are lost: their holders
// learn that when they unlock, or at the next renewal. Each call counts once, and the errors are those of
// [Semaphore.TrySetPermits].
func (s *Semaphore) Delete(ctx context.Context) (bool, error) { return s.in().Delete(ctx) }

// LogValue implements [slog.LogValuer] with the name and the kind.
func (s *Semaphore) LogValue() slog.Value { return s.lock().LogValue("semaphore") }

// String implements [fmt.Stringer]: the kind and the name.
func (s *Semaphore) String() string { return s.lock().Text("semaphore") }
