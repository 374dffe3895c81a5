package wire

import (
	"encoding/hex"
	"fmt"
	"math"
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
	return s.with(semaphoreSetUp, number, fmt.Sprint(total, " ", Millis(lifetime)))
}

// SetPermits returns the call that sets how many permits it has in all.
func (s Semaphore) SetPermits(number, total int64) Call {
	return s.with(semaphoreChange, number, total)
}

// AddPermits returns the call that gives it more permits, or fewer.
func (s Semaphore) AddPermits(number, more int64) Call {
	return s.with(semaphoreChange, number, "+"+strconv.FormatInt(more, 10))
}

// GiveBack returns the call that gives permits back by their ids, all or none.
func (s Semaphore) GiveBack(number int64, ids []string) Call {
	return s.with(semaphoreGiveBack, number, strings.Join(ids, ""))
}

// Drain returns the call that takes all free permits of a plain semaphore.
func (s Semaphore) Drain(number int64) Call { return s.plain(plainDrain, number) }

// Take returns the call that takes permits of a plain semaphore.
func (s Semaphore) Take(number int64, permits int) Call {
	c := s.plain(plainAcquire, number)
	c.Args.Extra = int64(permits)
	return c
}

// Undo returns the call that gives back what the call of a number took, or may yet take.
func (s Semaphore) Undo(number int64, permits int) Call {
	c := s.plain(plainUndo, number)
	c.Args.Channel, c.Args.Extra = s.names.Boxed, int64(permits)
	return c
}

func (s Semaphore) plain(script *Script, number int64) Call {
	return Call{Script: script, Keys: []any{s.names.Keys[0], s.names.Keys[2]}, Args: onceArgs(number)}
}

// Delete returns the call that deletes it.
func (s Semaphore) Delete(number int64) Call { return s.once(semaphoreDelete, number) }

// Count returns the call that asks for its permits.
func (s Semaphore) Count() Call { return Call{Script: semaphoreCount, Keys: s.names.Keys[:2]} }

// Mark returns the call that marks the number of a call as used.
func (s Semaphore) Mark(number int64) Call { return MarkCall(s.names.Keys[2], number) }

func (s Semaphore) once(script *Script, number int64) Call {
	c := Call{Script: script, Keys: s.names.Keys, Args: onceArgs(number)}
	c.Args.Channel = s.names.Boxed
	return c
}

// with is once for a script that gets something besides.
func (s Semaphore) with(script *Script, number int64, extra any) Call {
	c := s.once(script, number)
	c.Args.Extra = extra
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
