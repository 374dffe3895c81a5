package driver

import (
	"fmt"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// Replied returns the outcome of a call, given the number or the numbers that its script replied. A nil list means a number.
func Replied(c *wire.Call, number int64, list []int64) wire.Reply {
	n := c.Numbers()
	switch {
	case list == nil && (n == 0 || c.Script.Short):
		return wire.Reply{N: number}
	case list == nil:
		return Unexpected("a number for a list")
	case n == 0:
		return Unexpected("%d numbers for a number", len(list))
	case len(list) != n:
		return Unexpected("%d numbers, not %d", len(list), n)
	case c.Script.Refuses && list[0] >= 0:
		return Unexpected("%d for a refusal", list[0])
	}
	r := wire.Reply{List: list}
	if c.Script.Short {
		r.N = list[0]
	}
	return r
}

// Unexpected returns the outcome of a call that ran, but whose reply no script of rlock gives.
func Unexpected(format string, args ...any) wire.Reply {
	err := fmt.Errorf("%w: %w", fault.ErrReply, fmt.Errorf(format, args...))
	return Failed(&fault.Error{Fate: fault.InDoubt, Err: err})
}

// Failed returns the outcome of a call that failed.
func Failed(err *fault.Error) wire.Reply { return wire.Reply{N: -1, Err: err} }

// Waits reports whether WAIT follows each call. After nil, nothing does.
func (a *Acks) Waits() bool { return a != nil && a.Replicas > 0 }

// Acknowledged returns the outcome of a call that was granted, given the reply to the WAIT behind it: how many replicas have it, or an
// error.
func (a *Acks) Acknowledged(r wire.Reply, replicas int64, err *fault.Error) wire.Reply {
	switch {
	case err != nil && !err.Replied():
		return Failed(err) // it is not known whether replicas have it, so the call is sent again
	case err != nil:
		r.Err = Unreplicated(err, "Redis refuses WAIT")
	case replicas < int64(a.Replicas):
		r.Err = Unreplicated(nil, "%d of %d replicas within %v", replicas, a.Replicas, a.Timeout)
	}
	return r
}
