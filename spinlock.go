package rlock

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// NewSpinLock returns a handle on the reentrant lock of that name that uses no pub/sub: its waiters poll, one at a time in each process,
// with the delays of [Backoff]. It excludes plain and fenced locks of the name. A poll does not overtake processes that wait with a handle
// of another kind, so use spin locks only for names that have no other kind of handle.
func (c *Client) NewSpinLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Spin, name, opts)
}

const (
	minBackoff = time.Millisecond
	maxBackoff = time.Hour
)

// Backoff sets the delays between the attempts of a spin lock: first, doubled up to longest, each lengthened a little by chance. They are
// from 1 ms to 1 hour; the default is 1 ms and 128 ms, as in Redisson. Other kinds refuse it with [ErrInvalidOption].
func Backoff(first, longest time.Duration) LockOption {
	return lockOption(func(h *handle) error {
		switch {
		case h.Kind != wire.Spin:
			return fmt.Errorf("%w: Backoff is for spin locks", ErrInvalidOption)
		case first < minBackoff || longest > maxBackoff:
			return fmt.Errorf("%w: backoff from %v to %v out of range [1ms, 1h]%s", ErrInvalidOption, first, longest, bare(first))
		case longest < first:
			return fmt.Errorf("%w: backoff from %v to %v: the first delay exceeds the longest", ErrInvalidOption, first, longest)
		}
		h.FirstDelay, h.MaxDelay = first, longest
		return nil
	})
}
