package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// MaxPermits is how many permits a semaphore can have: Redisson counts with 32 bits.
const MaxPermits = math.MaxInt32

// Semaphore makes the calls about a semaphore that are about no holder. It is read-only once made.
type Semaphore struct{ names *Names }

// NewSemaphore returns the calls about a semaphore, given the names of one of its handles.
func NewSemaphore(n *Names) Semaphore { return Semaphore{n} }

// SetUp returns the call that sets it up with a number of permits, unless somebody has. A lifetime of zero means for good.
func (s Semaphore) SetUp(number, total int64, lifetime time.Duration) Call {
	return s.lined(semaphoreSetUp, number, fmt.Sprint(total, " ", Millis(lifetime)))
}

// SetPermits returns the call that sets how many permits it has in all.
func (s Semaphore) SetPermits(number, total int64) Call {
	return s.lined(semaphoreChange, number, total)
}

// AddPermits returns the call that gives it more permits, or fewer.
func (s Semaphore) AddPermits(number, more int64) Call {
	return s.lined(semaphoreChange, number, "+"+strconv.FormatInt(more, 10))
}

// GiveBack returns the call that gives permits back by their ids, all or none.
func (s Semaphore) GiveBack(number int64, ids []string) Call {
	return s.lined(semaphoreGiveBack, number, strings.Join(ids, ""))
}

// Drain returns the call that takes all free permits of a plain semaphore.
func (s Semaphore) Drain(number int64) Call {
	return Call{Script: plainDrain, Keys: []any{s.names.Keys[0], s.names.Keys[2]}, Args: onceArgs(number)}
}

// Receipts returns the call that asks for receipts of permits of a plain semaphore that its client does not know. alive are the
// numbers that it knows, and place is any number.
func (s Semaphore) Receipts(alive []int64, place int64) Call {
	var text []byte
	for _, number := range alive {
		text = append(strconv.AppendInt(text, number, 10), ' ')
	}
	return Call{Script: plainReceipts, Keys: s.names.Keys[2:3], Args: Args{Holder: string(text), Number: place}}
}

// Delete returns the call that deletes it.
func (s Semaphore) Delete(number int64) Call { return s.once(semaphoreDelete, number) }

// Count returns the call that asks for its permits.
func (s Semaphore) Count() Call { return Call{Script: semaphoreCount, Keys: s.names.Keys[:2]} }

// Lease returns the call that asks for the lease of a permit, or sets it before. Zero means that it stays as it is.
func (s Semaphore) Lease(id string, lease time.Duration) Call {
	c := Call{Script: semaphoreLease, Keys: s.names.Keys[1:2], Args: Args{Extra: id}}
	if lease > 0 {
		c.Args.Other = Millis(lease)
	}
	return c
}

// Mark returns the call that marks the number of a call as used.
func (s Semaphore) Mark(number int64) Call { return MarkCall(s.names.Keys[2], number) }

func (s Semaphore) once(script *Script, number int64) Call {
	c := Call{Script: script, Keys: s.names.Keys, Args: onceArgs(number)}
	c.Args.Channel = s.names.Boxed
	return c
}

// lined is once for a script that tells the line of free permits, with what it gets besides.
func (s Semaphore) lined(script *Script, number int64, extra any) Call {
	c := s.once(script, number)
	c.Args.Extra = extra
	c.Keys = append(slices.Clip(c.Keys), s.names.LineKeys[len(s.names.LineKeys)-1])
	return c
}

// idBytes is the length of a permit's id.
const idBytes = 16

// ParsePermitID returns the id of a permit as Redis has it, given its text.
func ParsePermitID(text string) (string, error) {
	id, err := hex.DecodeString(text)
	if err != nil || len(id) != idBytes {
		return "", fmt.Errorf("%w: %s is not the id of a permit, which has 32 hexadecimal digits", fault.ErrInvalidOption, fault.Quote(text))
	}
	return string(id), nil
}

// last returns the id of the last one of its permits, as it is sent: 8 bytes of its client's id, 6 of its number, and 2 that count the
// permits. It returns nil if its kind has no ids.
func (h *Holder) last() any {
	if !h.kind.IDs {
		return nil
	}
	client, _ := strconv.ParseUint(Digits(h.clientID()), 16, 64)
	id := binary.BigEndian.AppendUint64(make([]byte, 0, idBytes), client)
	return string(binary.BigEndian.AppendUint64(id, uint64(h.Number)<<16|uint64(h.kind.permits()-1)))
}

// PermitIDs returns the text of the ids of a holder's permits. It returns nil if its kind has none.
func (h *Holder) PermitIDs(clientID string) []string {
	if !h.kind.IDs {
		return nil
	}
	of := Holder{Number: h.Number, kind: h.kind}
	of.Restore(clientID)
	last, _ := of.last().(string)
	ids := make([]string, h.kind.permits())
	for i := range ids {
		ids[i] = fmt.Sprintf("%x%04x", last[:idBytes-2], i)
	}
	return ids
}
