package rlock

import (
	"context"
	"errors"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// PlainSemaphore is a number of permits in Redis that Redisson's getSemaphore shares. Nothing says who has them: the permits of a process
// that dies are gone, until somebody calls [PlainSemaphore.AddPermits] with as many. So for all else take [Semaphore], whose permits come
// back by themselves. A plain semaphore is also a counter of signals: one side calls Release, the other one Acquire. It is made by
// [Client.NewPlainSemaphore]. A handle is cheap, holds nothing by itself, and is safe for concurrent use. The handles of one name are one
// semaphore, in all processes. A [Semaphore] must not have the same name.
//
// Whoever has acquired calls Release once:
//
//	if err := s.Acquire(ctx); err != nil {
//		return err
//	}
//	defer s.Release(ctx, 1)
//
// A failover or a restore of Redis may forget the last acquisitions and releases: then there are too many or too few permits, and
// [PlainSemaphore.AddPermits] mends that. Redisson's own retries may take or give permits twice, but each call of rlock counts once.
//
// Somebody has to say how many permits there are: see [Total] and [PlainSemaphore.TrySetPermits]. Until then, Acquire waits, and
// every refusal matches [ErrNoPermits].
//
// Waiters stand in no line, as with Redisson. Each release wakes the first waiter of each process, and all of them try. Whoever comes then
// may pass them, and so may one that wants fewer permits.
type PlainSemaphore struct{ s client.Semaphore }

// NewPlainSemaphore returns a handle on the plain semaphore of that name. [Client.NewSemaphore] is the one to take, unless Redisson has to
// share the permits, or nobody holds them.
func (c *Client) NewPlainSemaphore(name string, opts ...LockOption) *PlainSemaphore {
	if c == nil || c.client == nil {
		return nil
	}
	s := &PlainSemaphore{}
	s.s.Init(c.client, wire.PlainPermit, name, c.inRedis(name))
	configure(&s.s.Lock, &s.s, opts)
	return s
}

// in returns the implementation of the handle, or nil.
func (s *PlainSemaphore) in() *client.Semaphore {
	if s == nil {
		return nil
	}
	return &s.s
}

// lock returns what acquires permits, or nil.
func (s *PlainSemaphore) lock() *client.Lock {
	if s == nil {
		return nil
	}
	return &s.s.Lock
}

// Name returns the name with which the handle was made, without the prefix. It is empty for a nil handle.
func (s *PlainSemaphore) Name() string { return s.lock().Name() }

// Acquire waits until it has taken a permit, or as many as [Permits] says, all at once. It waits until ctx ends, or as long as [Wait] says.
// Wait(0) asks once. Permits is from 1 to 2^31-1. Other options are refused with [ErrInvalidOption].
//
// The error is [ErrNotAcquired] if there were too few permits when ctx ended or the wait was over, and [ErrUnavailable] if Redis could not
// say so. Either is joined with the error and cause of a ctx that ended. With any error, the caller has no permit: what a lost reply may
// have taken is given back in the background as soon as Redis answers, within two minutes. [Client.Close] and [Client.Shutdown] end the
// wait with [ErrClosed]. Shutdown does not wait for Release.
func (s *PlainSemaphore) Acquire(ctx context.Context, opts ...AcquireOption) error {
	return s.in().TakePlain(ctx, terms("acquire", false, false, s.lock(), opts))
}

// TryAcquire is [PlainSemaphore.Acquire] with a [Wait] of 0 unless another is given, and reports whether it has taken the permits. If there
// are too few, it returns false and nil. If nobody has set the semaphore up, it returns false and [ErrNoPermits].
func (s *PlainSemaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (bool, error) {
	err := s.in().TakePlain(ctx, terms("try acquire", true, false, s.lock(), opts))
	if errors.Is(err, fault.ErrRefused) && !errors.Is(err, ErrNoPermits) {
		return false, nil
	}
	return err == nil, err
}

// TrySetPermits is [Semaphore.TrySetPermits].
func (s *PlainSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return s.in().TrySetPermits(ctx, n)
}

// AddPermits is [Semaphore.AddPermits]: the number of free permits stays from -(2^31-1) to 2^31-1.
func (s *PlainSemaphore) AddPermits(ctx context.Context, more int) error {
	return s.in().AddPermits(ctx, more)
}

// Release gives n permits back, or more than there were: a signal. It sets the semaphore up if nobody has, as Redisson does. n is from 1 to
// 2^31-1. Like an unlock, it works after ctx has ended and after [Client.Close], so it may be deferred.
//
// Each call counts once. If Redis does not answer within the command timeout, the error is [ErrUnavailable], and the call goes on in the
// background for up to two minutes, or until [Client.Close]. So do not repeat it. The other errors are those of
// [PlainSemaphore.AddPermits].
func (s *PlainSemaphore) Release(ctx context.Context, n int) error { return s.in().GiveBack(ctx, n) }

// AvailablePermits is [Semaphore.AvailablePermits].
func (s *PlainSemaphore) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := s.in().Counts(ctx, "available permits")
	return int(free), err
}

// DrainPermits takes all permits that are free, for good, and returns how many there were. A negative number becomes 0. Otherwise it
// is as [Semaphore.TrySetPermits].
func (s *PlainSemaphore) DrainPermits(ctx context.Context) (int, error) { return s.in().Drain(ctx) }

// Delete deletes the semaphore, and reports whether there was one. If it is set up again, those who have permits of the old one give them
// to the new one. Otherwise it is as [Semaphore.TrySetPermits].
func (s *PlainSemaphore) Delete(ctx context.Context) (bool, error) { return s.in().Delete(ctx) }

// String implements [fmt.Stringer]: the kind and the name.
func (s *PlainSemaphore) String() string { return s.lock().Text("plain semaphore") }
