package rlock

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"

	"github.com/go-rlock/rlock/internal/wire"
)

// Token is a fencing token: see [Hold.Token]. Zero means that there is none. A later holder has a greater token. Text, JSON and arithmetic
// treat it as any uint64, and a column scans into it. Keep tokens in 64 bits.
type Token uint64

// Value implements [driver.Valuer]: it returns the token as an int64. It fails for 0, so that no statement writes without a token, and
// above [math.MaxInt64].
func (t Token) Value() (driver.Value, error) {
	switch {
	case t == 0:
		return nil, errors.New("rlock: the fencing token is 0: the hold has no token")
	case t > math.MaxInt64:
		return nil, fmt.Errorf("rlock: fencing token %d exceeds an int64", uint64(t))
	}
	return int64(t), nil
}

// Fenced makes every outermost acquisition draw a fencing token, [Hold.Token], which is greater than all before it. A resource that
// remembers the greatest token, and refuses lower ones, is safe from a holder that has lost the lock without noticing:
//
//	UPDATE accounts SET …, fence = $token WHERE id = $id AND fence <= $token -- no row: too late
//
// Tokens come from the clock of Redis, in microseconds since 1970, so they keep growing through a failover. Of Redisson's locks only
// getFencedLock draws tokens, from the same counter. A holder of another kind of lock bears no token, and no fence stops it, so use this
// option for all handles of a name, or for none; a client that mixes them logs a warning.
//
// A re-entry has the token of the hold. An owner that holds the lock without a token cannot re-enter through a handle with this option:
// [ErrInvalidOption].
//
// The option is for [Client.NewLock], [Client.NewFairLock] and the write side of [Client.NewRWLock].
func Fenced() LockOption {
	return lockOption(func(h *handle) error {
		switch k := h.Kind; {
		case h.semaphore == nil && (k.Tokens || k.Side == wire.ReadSide):
			return nil
		case k.Fenced == nil:
			return fmt.Errorf("%w: Fenced is for plain, fair and read-write locks", ErrInvalidOption)
		}
		h.Kind = h.Kind.Fenced
		return nil
	})
}
