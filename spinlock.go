package rlock

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// NewSpinLock returns a handle on the reentrant lock of that name that uses no pub/sub. Its release is not announced. Its
// waiters poll, with the delays of [Backoff]. In each process, one waiter at a time polls. It ports getSpinLock.
//
// Each poll is a single attempt, which does not overtake the processes that wait for the name with a handle of another kind.
// While there is always such a process, a spin lock gets the lock only by chance, when it is offered to Redisson or older
// versions, and not at all if none of those waits. So use spin locks only for names that have no other kind of handle.
//
// It excludes plain and fenced locks of the name, and they exclude it. Its release gives the lock to the first of their waiters
// that stands in the line. Otherwise nobody is told: Redisson's waiters, for example, try again at the end of the lease that they
// saw.
func (c *Client) NewSpinLock(name string, opts ...SpinOption) *Lock {
	all := make([]LockOption, len(opts))
	for i, opt := range opts {
		if opt != nil { // newLock refuses a nil option
			all[i] = opt.lockOption()
		}
	}
	return c.newLock(wire.Spin, name, all)
}

// SpinOption sets something for one handle on a spin lock. Every [LockOption] is a SpinOption, but not the reverse. It cannot
// be implemented outside this package.
type SpinOption interface {
	// lockOption returns the option for a handle on a spin lock. It seals the interface.
	lockOption() LockOption
}

func (o LockOption) lockOption() LockOption { return o }

const (
	minBackoff = time.Millisecond
	maxBackoff = time.Hour
)

// Backoff sets the delays between the attempts of a spin lock: first, doubled up to longest, each lengthened a little by
// chance. If first equals longest, they are constant. longest must not be shorter than first. The minimum is 1 ms, the maximum
// 1 hour. The default is 1 ms and 128 ms, that of Redisson's BackOff. Other kinds do not have it, because their waiters are
// notified.
func Backoff(first, longest time.Duration) SpinOption { return backoff{first, longest} }

type backoff struct{ first, longest time.Duration }

func (b backoff) lockOption() LockOption {
	return func(h *lockSettings) error {
		switch {
		case b.first < minBackoff || b.longest > maxBackoff:
			return fmt.Errorf("%w: backoff from %v to %v out of range [1ms, 1h]%s", ErrInvalidOption, b.first, b.longest, bare(b.first))
		case b.longest < b.first:
			return fmt.Errorf("%w: backoff from %v to %v: the first delay exceeds the longest", ErrInvalidOption, b.first, b.longest)
		}
		h.FirstDelay, h.MaxDelay = b.first, b.longest
		return nil
	}
}
