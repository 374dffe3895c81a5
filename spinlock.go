package rlock

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// NewSpinLock returns a handle on the reentrant lock of that name that uses no pub/sub. Its release is not announced. Its
// waiters poll, with the delays of [Backoff]. In each process, one waiter at a time polls. It ports getSpinLock.
//
// It excludes plain and fenced locks of the name, and they exclude it. Waiters that use a handle of those kinds are not
// notified of its release. They try again at the end of the lease that they saw, or after the poll interval.
func (c *Client) NewSpinLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Spin, name, opts)
}

const (
	minBackoff = time.Millisecond
	maxBackoff = time.Hour
)

// Backoff sets the delays between the attempts of a spin lock: first, doubled up to longest, each lengthened a little by
// chance. If first equals longest, they are constant. The minimum is 1 ms, the maximum 1 hour. The default is 1 ms and 128 ms,
// that of Redisson's BackOff. Other kinds refuse it, because their waiters are notified.
func Backoff(first, longest time.Duration) LockOption {
	return func(h *lockSettings) error {
		switch {
		case h.Kind.Channel != "":
			return fmt.Errorf("%w: Backoff is for spin locks", ErrInvalidOption)
		case first < minBackoff || longest < first || longest > maxBackoff:
			return fmt.Errorf("%w: backoff from %v to %v out of range [1ms, 1h]", ErrInvalidOption, first, longest)
		}
		h.FirstDelay, h.MaxDelay = first, longest
		return nil
	}
}
