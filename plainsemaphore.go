package rlock

import (
	"context"
	"log/slog"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/wire"
)

// PlainSemaphore is for permits that a Java program takes with getSemaphore, and for counters of signals: for all else take
// [Semaphore], because nobody gives the permits of a plain semaphore back when their holder dies. It is made by
// [Client.NewPlainSemaphore]. A handle is cheap, holds nothing by itself, and is safe for concurrent use. The handles of one name
// are one semaphore, in all processes. A [Semaphore] must not have the same name.
//
// In Redis it is a number, and nothing says who has permits. So a permit has no lease, and a hold does not notice if Redis loses it.
// [Hold.Deadline] is the zero time, and [Hold.Extend] returns [ErrInvalidOption]. [Hold.Done] closes when the hold is unlocked or
// lost, or the client is closed. A hold is lost only by [WithMaxHold], or if its unlock finds another type of key. A failover or a
// restore of Redis may forget the last releases: then there are too few permits. A client that lives gives its own back when it is next
// refused a permit, or asks how many are free. [PlainSemaphore.AddPermits] mends the rest. Redisson's own retries may take or give
// permits twice.
//
// rlock takes and gives each permit once, whatever the network does: it keeps receipts of its holds beside the semaphore. They outlive
// the process, or an outage of Redis, by 12 to 24 hours. A hold without a receipt gives nothing back, and that is logged: Redis has
// lost the acquisition, or the receipt. A hold that is dropped without Unlock is logged, and released.
//
// Somebody has to say how many permits there are: see [Total] and [PlainSemaphore.TrySetPermits]. Until then, Acquire waits, and
// every refusal matches [ErrNoPermits].
//
// Those that wait have their turns in the order in which they came, within a process, and between the first waiters of the processes.
// But one that wants several permits is passed by others while fewer are free. TryAcquire takes no permit that somebody waits for
// in another process, but it may pass the waiters of its own. Redisson's waiters stand in no line, and may pass.
type PlainSemaphore struct{ s client.Semaphore }

// NewPlainSemaphore returns a handle on the plain semaphore of that name. It ports getSemaphore. [Client.NewSemaphore] is the one to
// take, unless Redisson has to share the permits, or nobody holds them. It sends nothing and does not fail. The first method that
// is called reports a name that cannot be a semaphore's with [ErrInvalidName], and an option that cannot work with
// [ErrInvalidOption].
//
// With [Total], nothing is logged if there is another number of permits: Redis does not know how many are out.
func (c *Client) NewPlainSemaphore(name string, opts ...SemaphoreOption) *PlainSemaphore {
	if c == nil || c.client == nil {
		return nil
	}
	s := &PlainSemaphore{}
	s.s.Init(c.client, wire.PlainPermit, name, c.mapName(name))
	configure(&s.s, opts)
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

func (s *PlainSemaphore) member() client.Member { return s.lock() }

var _ Acquirer = (*PlainSemaphore)(nil)

// Name returns the name with which the handle was made, before any prefix or mapper. It ports getName. A nil handle has an
// empty name.
func (s *PlainSemaphore) Name() string { return s.lock().Name() }

// Acquire waits until it has a permit, or as many as [Permits] says, all at once. It ports acquire, and is [Semaphore.Acquire]
// without leases: [Lease] and [RenewedLease] are refused with [ErrInvalidOption]. Permits is from 1 to 2^31-1.
//
// If the hold's Unlock gets no reply, rlock tries to give the permits back in the background, for a day or until [Client.Close].
// What Close leaves undone is logged.
func (s *PlainSemaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, s.in(), terms("acquire", false, true, opts))
}

// TryAcquire is [PlainSemaphore.Acquire] with a [Wait] of 0 unless another is given. It ports tryAcquire. If there are not as many
// permits free, the error is [ErrNotAcquired].
func (s *PlainSemaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, s.in(), terms("try acquire", true, true, opts))
}

// Do runs fn while it holds a permit, or as many as [Permits] says. It is [Lock.Do] for permits.
func (s *PlainSemaphore) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, s.in(), fn, terms("do", false, true, opts))
}

// TryDo is [Lock.TryDo] for permits. If nobody has set the semaphore up, it returns false and [ErrNoPermits].
func (s *PlainSemaphore) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return tryDo(ctx, s.in(), fn, opts)
}

// TrySetPermits sets the semaphore up with n permits if nobody has, and reports whether it did. It ports trySetPermits. n is from
// 0 to 2^31-1. Each call counts once, and the errors are those of [Semaphore.TrySetPermits].
func (s *PlainSemaphore) TrySetPermits(ctx context.Context, n int, opts ...SetOption) (bool, error) {
	lifetime, invalid := lifetimeOf(opts)
	return s.in().TrySetPermits(ctx, n, lifetime, invalid)
}

// AddPermits gives the semaphore more permits, or fewer if more is negative. The number of free permits may become negative then.
// It ports addPermits, and sets the semaphore up if nobody has, as Redisson does. If the number of free
// permits would leave the range from -(2^31-1) to 2^31-1, the error is [ErrInvalidOption], and nothing is changed. Each call counts
// once, and the other errors are those of [Semaphore.TrySetPermits].
func (s *PlainSemaphore) AddPermits(ctx context.Context, more int) error {
	return s.in().AddPermits(ctx, more)
}

// Release gives the semaphore n permits that no [Hold] of this client has: for a signal, or for permits that were acquired
// elsewhere. It ports release, and sets the semaphore up if nobody has, as Redisson does. [Hold.Unlock] gives a hold's permits
// back. n is from 1 to 2^31-1. It is [PlainSemaphore.AddPermits] otherwise.
func (s *PlainSemaphore) Release(ctx context.Context, n int) error { return s.in().GiveMore(ctx, n) }

// AvailablePermits returns how many permits are free. It ports availablePermits. It is 0 if nobody has set the semaphore up, and
// may be negative after [PlainSemaphore.AddPermits].
func (s *PlainSemaphore) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := s.in().Counts(ctx, "available permits")
	return int(free), err
}

// DrainPermits takes all permits that are free, for good, and returns how many there were. It ports drainPermits. A negative
// number becomes 0. Each call counts once, and the errors are those of [Semaphore.TrySetPermits].
func (s *PlainSemaphore) DrainPermits(ctx context.Context) (int, error) { return s.in().Drain(ctx) }

// Delete deletes the semaphore, and reports whether there was one. It ports delete. Permits that are out come back to nobody. If
// the semaphore is set up again meanwhile, their holders give them to the new one. Each call counts once, and the errors are
// those of [Semaphore.TrySetPermits].
func (s *PlainSemaphore) Delete(ctx context.Context) (bool, error) { return s.in().Delete(ctx) }

// LogValue implements [slog.LogValuer] with the name and the kind.
func (s *PlainSemaphore) LogValue() slog.Value { return s.lock().LogValue("semaphore") }

// String implements [fmt.Stringer]: the kind and the name.
func (s *PlainSemaphore) String() string { return s.lock().Text("plain semaphore") }
