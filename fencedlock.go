package rlock

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"

	"github.com/go-rlock/rlock/internal/wire"
)

// Token is a fencing token: [Hold.Token]. Zero means that there is none. A later holder has a greater token.
//
// Text, JSON and arithmetic treat a token as any uint64. Scanning a column into a Token needs nothing. Keep tokens in 64 bits.
// The numbers of JavaScript have 53, which suffices until the year 2255.
type Token uint64

// Value implements [driver.Valuer]. It returns the token as an int64, for a column of 64 bits. It fails for 0, so that no
// statement writes behind a fence without a token. It also fails above [math.MaxInt64]. A store that knows no Valuer gets
// uint64(t), which does not fail for 0.
func (t Token) Value() (driver.Value, error) {
	switch {
	case t == 0:
		return nil, errors.New("rlock: the fencing token is 0: the hold has no token")
	case t > math.MaxInt64:
		return nil, fmt.Errorf("rlock: fencing token %d exceeds an int64", uint64(t))
	}
	return int64(t), nil
}

// Fenced makes every outermost acquisition draw a fencing token: [Hold.Token]. It orders the Go holders of a name among
// themselves, and no more. Of Redisson's locks only getFencedLock draws tokens, one for each acquisition and each re-entry.
// They come from the same counter as those of [Client.NewLock] with this option. A Java holder of a plain, fair or read-write
// lock bears no token. It may come between the holders of tokens 41 and 42, and no fence stops its write. So use this option
// for all handles of a name, or for none.
//
// Each token is greater than all before it. A resource can remember the greatest token that it has seen, and refuse lower
// ones; an equal one comes from the same hold:
//
//	UPDATE accounts SET …, fence = $token WHERE id = $id AND fence <= $token -- no row: too late
//
// It is then safe from a holder that has lost the lock without noticing. Tokens come from the clock of Redis, in
// microseconds since 1970, so they keep growing through a failover that lost the latest ones. The first acquisition in Go
// lifts the counter of Java processes to that clock, for good.
//
// A hand-over draws a token too, and always asks Redis, even with [WithLazyHandOver]. A re-entry draws none: it has the token
// of the hold, even through a handle without this option. The reverse returns [ErrInvalidOption] and sends nothing: through a
// handle with this option, an owner cannot re-enter a hold without a token. Otherwise a token of 0 would reach the resource.
//
// A client that acquires a name without a token, after it acquired that name with one, logs a warning, once for each name. It
// remembers the 256 latest names that it acquired with tokens.
//
// The option is for [Client.NewLock], [Client.NewFairLock] and [Client.NewRWLock]. A read-write lock has tokens on its write
// side. Read holds have none, because readers write nothing. Spin locks return [ErrInvalidOption].
func Fenced() LockOption {
	return func(h *lockSettings) error {
		switch k := h.Kind; {
		case k.Tokens, k.Side == wire.ReadSide:
			return nil
		case k.Fenced == nil:
			return fmt.Errorf("%w: Fenced is for plain, fair and read-write locks", ErrInvalidOption)
		}
		h.Kind = h.Kind.Fenced
		return nil
	}
}

// NewFencedLock is [Client.NewLock] with the option [Fenced]. It ports getFencedLock and lockAndGetToken.
func (c *Client) NewFencedLock(name string, opts ...LockOption) *Lock {
	return c.newLock(wire.Fenced, name, opts)
}
