package rlock

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/table"
)

// LockOption sets something for one handle on a lock or a semaphore. The handle's first method reports an option that cannot work, or that
// is for another kind, with [ErrInvalidOption]. Every [AcquireOption] is a LockOption.
type LockOption interface{ handle(h *handle) error }

type lockOption func(h *handle) error

func (o lockOption) handle(h *handle) error { return o(h) }

// handle is what the options of a handle set.
type handle struct {
	*table.Handle
	of        *client.Lock
	semaphore *client.Semaphore // nil for a lock
}

// configure applies the options of a handle.
func configure(of *client.Lock, semaphore *client.Semaphore, opts []LockOption) {
	h := handle{of: of, semaphore: semaphore}
	for i, opt := range opts {
		of.Configure(func(in *table.Handle) error {
			if opt == nil {
				return fmt.Errorf("%w: option %d of the handle is nil", ErrInvalidOption, i+1)
			}
			h.Handle = in
			return opt.handle(&h)
		})
	}
}

// NonReentrant makes an owner's second acquisition through this handle fail with [ErrReentered] while that owner holds the lock, at once
// and before anything is sent. Without an owner the second acquisition waits, as always.
func NonReentrant() LockOption {
	return lockOption(func(h *handle) error {
		if h.semaphore != nil {
			return fmt.Errorf("%w: NonReentrant is for locks", ErrInvalidOption)
		}
		h.NonReentrant = true
		return nil
	})
}

// AcquireOption sets something for one acquisition. Given to the constructor of a handle, it is the default of the handle's acquisitions,
// and a call that has another one takes that: a long [Wait] undoes a default Wait. The Try methods make a single attempt unless the call
// itself says how long to wait.
type AcquireOption interface {
	LockOption
	acquire(t *client.Terms) error
}

type acquireOption func(t *client.Terms) error

func (o acquireOption) acquire(t *client.Terms) error { return o(t) }

func (o acquireOption) handle(h *handle) error {
	if h.of.Defaults == nil {
		h.of.Defaults = &client.Terms{}
	}
	return o(h.of.Defaults)
}

// Lease holds the lock for d and no longer: it is not renewed, and is lost when d is over, unless [Hold.Extend] lengthens it. On a
// re-entry it lengthens a shorter lease, and never shortens one. d is from 1 ms to 100 years. A hold begins with at least a quarter of its
// lease, so d has to be clearly longer than the round trip to Redis.
//
// Without Lease, a lock is renewed until it is unlocked. Lease and [RenewedLease] in one call are refused.
func Lease(d time.Duration) AcquireOption {
	return acquireOption(func(t *client.Terms) error { return setLease(t, false, "lease", d, minLease) })
}

// RenewedLease takes the place of [WithWatchdogTimeout] for one acquisition: the lease is d, renewed every third of d. A short d frees the
// lock sooner if the process dies, and loses it in a shorter outage of Redis. d is from 100 ms to 100 years. If an owner holds the lock
// several times, the longest renewed lease applies, renewed every third of the shortest.
func RenewedLease(d time.Duration) AcquireOption {
	return acquireOption(func(t *client.Terms) error { return setLease(t, true, "renewed lease", d, minWatchdogTimeout) })
}

// Wait gives up after waiting for d. If another owner has the lock then, the error is [ErrNotAcquired], or TryLock returns false and nil. If
// Redis could not say so, it is [ErrUnavailable], also only when d is over: until then, Redis may be back. [ErrNotReplicated] comes at once.
//
// A short d does not cut the first attempt off. The call ends after the longer of d and a fifth of the command timeout, plus the time for
// replica acks. That covers the wait behind other goroutines, for a connection and for the reply. A d of 0 means a single attempt: see
// [Lock.TryLock]. Otherwise the minimum is 1 µs. Without Wait, the methods Lock, Acquire and Do wait until their context ends.
func Wait(d time.Duration) AcquireOption {
	return acquireOption(func(t *client.Terms) error {
		if d < 0 || bare(d) != "" {
			return fmt.Errorf("%w: wait %v is neither 0 nor at least 1µs%s", ErrInvalidOption, d, bare(d))
		}
		t.Wait, t.Limited = d, true
		return nil
	})
}

// Permits acquires n permits at once, or none; the default is 1. n is from 1 to 1,000 for a [Semaphore], and to 2^31-1 for a
// [PlainSemaphore]. Later calls of its process wait behind it. A lock refuses it with [ErrInvalidOption].
func Permits(n int) AcquireOption {
	return acquireOption(func(t *client.Terms) error {
		if n < 1 {
			return fmt.Errorf("%w: %d permits, but the least is 1", ErrInvalidOption, n)
		}
		t.Permits = n
		return nil
	})
}

// AtLeast keeps the lock taken until d after this owner got it, even after it has been unlocked. So of several processes that do a job at
// the same time, one does it, and others that come a little late, or whose clocks differ, still find the lock taken:
//
//	ran, err := lock.TryDo(ctx, job, rlock.AtLeast(50*time.Second)) // each minute
//
// d must be longer than the clocks may differ, and at most nine tenths of the interval between two jobs. It does not lengthen the lease:
// if the process dies, or loses the lock, another may do the job when the lease ends, so take a [RenewedLease] that is shorter than the
// interval. The lock is kept also if the job fails. Waiters are notified when d is over, and [Lock.ForceUnlock] frees the lock earlier.
//
// AtLeast is for Acquire, TryAcquire, Do and TryDo of plain, fenced, fair and spin locks. An owner that holds the lock already gets
// [ErrReentered]. d is from 1 ms to 100 years.
func AtLeast(d time.Duration) AcquireOption {
	return acquireOption(func(t *client.Terms) error {
		if d < minLease || d > maxLease {
			return outOfRange("least time", d, minLease)
		}
		t.AtLeast = d
		return nil
	})
}

// terms turns the options of one acquisition into its terms, with the defaults of its handle. Nil means a nil handle, or none with defaults.
func terms(op string, try, byHold bool, of *client.Lock, opts []AcquireOption) client.Terms {
	t := client.Terms{Op: op, ByHold: byHold, Limited: try}
	for i, opt := range opts {
		if opt == nil {
			t.Err = fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i+1)
		} else {
			t.Err = opt.acquire(&t)
		}
		if t.Err != nil {
			return t
		}
	}
	if of == nil || of.Defaults == nil {
		return t
	}
	defaults := of.Defaults
	if t.Lease == 0 {
		t.Lease, t.Renewed = defaults.Lease, defaults.Renewed
	}
	if !t.Limited {
		t.Wait, t.Limited = defaults.Wait, defaults.Limited
	}
	t.Permits, t.AtLeast = cmp.Or(t.Permits, defaults.Permits), cmp.Or(t.AtLeast, defaults.AtLeast)
	return t
}

// setLease applies an option that sets the lease.
func setLease(t *client.Terms, renewed bool, what string, d, least time.Duration) error {
	switch {
	case d < least || d > maxLease:
		return outOfRange(what, d, least)
	case t.Lease != 0 && t.Renewed != renewed:
		return fmt.Errorf("%w: a lease and a renewed lease together", ErrInvalidOption)
	}
	t.Lease, t.Renewed = d, renewed
	return nil
}
