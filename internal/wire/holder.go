package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lua"
)

// Holder is a holder of a lock in Redis, present or future: a field, and the number in it. It makes the calls that concern
// it, given the names of its lock, which a handle keeps only while they are needed.
type Holder struct {
	Number int64
	Field  any // <client id>:<number> with the kind's suffix, a string, as it is sent

	kind *Kind
	own  *[]any // all keys, if one of them is for this holder alone; nil means the lock's
}

// NewHolder returns the holder with a number that its client has never used.
func NewHolder(k *Kind, n *Names, clientID string, number int64) Holder {
	h := Holder{Number: number, kind: k}
	field := h.Restore(clientID)
	if k.HoldKey != "" {
		name, _ := n.Keys[0].(string)
		own := slices.Insert(slices.Clone(n.Keys), len(n.Keys)-1, any(suffixed(name, field+k.HoldKey)))
		h.own = &own
	}
	return h
}

// Restore makes the field again after [Holder.Shrink], and returns it.
func (h *Holder) Restore(clientID string) string {
	if field, ok := h.Field.(string); ok {
		return field
	}
	text := make([]byte, 0, 64)
	text = append(append(text, clientID...), ':')
	field := string(append(strconv.AppendInt(text, h.Number, 10), h.kind.FieldSuffix...))
	h.Field = field
	return field
}

// Shrink drops the field. Nothing but Restore may be called then.
func (h *Holder) Shrink() { h.Field = nil }

// keys returns all keys that the holder's scripts may need. The last one has the tombstones.
func (h *Holder) keys(n *Names) []any {
	if h.own != nil {
		return *h.own
	}
	return n.Keys
}

// Keys returns all keys that the holder's scripts may need, as text.
func (h *Holder) Keys(n *Names) []string {
	all := make([]string, 0, len(n.Keys)+1)
	for _, key := range h.keys(n) {
		name, _ := key.(string)
		all = append(all, name)
	}
	return all
}

// args are the arguments of a call. See [Args].
func (h *Holder) args(lasts time.Duration, channel, extra any) Args {
	return Args{Holder: h.Field, Millis: Millis(lasts), Number: h.Number, Channel: channel, Extra: extra}
}

// Acquire returns the call that makes it the holder. It does not queue. writer is the field by which the same owner holds the
// other side of a read-write lock; nil means that it does not.
func (h *Holder) Acquire(n *Names, lease time.Duration, writer any) Call {
	s, wait := h.kind.Acquire, noWait
	if h.kind.Queues {
		wait = noQueue
	}
	c := Call{Script: s, Keys: s.WithTombstones(h.keys(n)), Args: h.args(lease, n.Boxed, wait)}
	c.Args.Other = writer
	return c
}

// Count returns the call that shows Redis how many acquisitions are open, and lengthens the lease.
func (h *Holder) Count(n *Names, open int, lease time.Duration) Call {
	s := h.kind.Count
	return Call{Script: s, Keys: s.Of(h.keys(n)), Args: h.args(lease, n.Boxed, open)}
}

// HandOver returns the call that makes it the holder instead of the last holder.
func (h *Holder) HandOver(n *Names, last *Holder, lease time.Duration) Call {
	s := h.kind.HandOver
	return Call{Script: s, Keys: s.WithTombstones(h.keys(n)), Args: h.args(lease, last.Field, nil)}
}

// Park returns the call that keeps the key, for a time, under the number of this holder instead of the last one. Nobody holds the lock then.
// tells says that the first one of those who wait in Redis is told when the time is over.
func (h *Holder) Park(n *Names, last *Holder, left time.Duration, tells bool) Call {
	c := Call{Script: h.kind.Park, Keys: n.Keys[:1], Args: h.args(left, cmp.Or(n.base, n.Boxed), last.Field)}
	if tells {
		c.Keys = c.Script.Of(n.queued())
	}
	c.Args.Other = h.kind.Silent
	return c
}

// Release returns the call that frees the lock. A tombstone of that lifetime is written for its number; zero means none.
func (h *Holder) Release(n *Names, tombstone time.Duration) Call {
	s := h.kind.Release
	keys, extra := s.Of(h.keys(n)), noWait
	if tombstone > 0 || h.kind.Queues {
		keys = s.WithTombstones(h.keys(n))
	}
	if h.kind.Queues {
		extra = nil // it has no seat
	}
	return Call{Script: s, Keys: keys, Args: h.args(tombstone, n.Boxed, extra)}
}

// Inspect returns the call that asks Redis about the lock, and whether it is held by this holder.
func (h *Holder) Inspect(n *Names) Call {
	s := h.kind.Inspect
	return Call{Script: s, Keys: s.Of(h.keys(n)), Args: Args{Holder: h.Field}}
}

// InspectCall returns the call that asks Redis about a lock.
func (k *Kind) InspectCall(n *Names) Call {
	return Call{Script: k.Inspect, Keys: k.Inspect.Of(n.Keys)}
}

// ForceCall returns the call that frees a lock, even if another owner holds it. line says that the next holder may be a waiter
// of the line. If the lock has a holder that is not among from, the call changes nothing. No from means that anybody may hold it.
func (k *Kind) ForceCall(n *Names, line bool, from ...string) Call {
	var c Call
	if line {
		c = Call{Script: k.Line.Force, Keys: n.LineKeys, Args: Args{Channel: n.base, Extra: k.Silent}}
	} else {
		c = Call{Script: k.Force, Keys: k.Force.Of(n.Keys), Args: Args{Channel: n.Boxed, Extra: noWait}}
		if k.Queues {
			c.Keys = n.Keys
		}
	}
	if k.Family == RWFamily {
		c.Args.Extra = lua.WriteMode
		if k.Side == ReadSide {
			c.Args.Extra = lua.ReadMode
		}
	}
	if len(from) > 0 {
		c.Args.Other = strings.Join(from, holderBreak)
	}
	return c
}

// holderBreak separates holders. No holder contains it.
const holderBreak = "\n"

// CheckHolders returns ErrInvalidOption, with the reason, for texts that cannot be the holders of a lock. Nil means any holders.
func CheckHolders(holders []string) error {
	if n := len(holders); holders != nil && n == 0 || n > maxHolders {
		return fmt.Errorf("%w: the number of holders is %d, not from 1 to %d", fault.ErrInvalidOption, n, maxHolders)
	}
	for _, h := range holders {
		if h == "" || h == lua.ModeField || strings.Contains(h, holderBreak) {
			return fmt.Errorf("%w: %s cannot be the holder of a lock", fault.ErrInvalidOption, fault.Quote(h))
		}
	}
	return nil
}

// maxHolders is the most holders that a script compares, and that [Info] lists.
const maxHolders = 100

// NewRenewal returns a call that renews nothing yet, with room for so many locks.
func NewRenewal(s *Script, lease time.Duration, locks int) Call {
	c := Call{Script: s, Keys: make([]any, 0, locks*s.Keys), Argv: make([]any, 1, 1+locks)}
	c.Argv[0] = Millis(lease)
	return c
}

// Renew adds a holder of the lock of that name to a renewal.
func (c *Call) Renew(h *Holder, name string) {
	if h.own != nil {
		c.Keys = append(c.Keys, c.Script.Of(*h.own)...)
	} else {
		c.Keys = append(c.Keys, name) // one key is all that these renewals need
	}
	c.Argv = append(c.Argv, h.Field)
}

// noWait is the queue wait of a kind that has no queue in Redis, as it is sent. noQueue is that of an attempt that does not queue.
var noWait, noQueue any = int64(0), int64(-1)
