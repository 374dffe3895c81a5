package rlock

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"

	"github.com/go-rlock/rlock/internal/wire"
)

// Token is a fencing token: [Hold.Token]. Zero means that there is none. Later holders have greater tokens.
//
// It is text, JSON and arithmetic as any uint64 is. Tokens need 64 bits, and JSON numbers in JavaScript have 53. Tokens fit
// into these until the year 2255. Scanning a column into a Token needs nothing.
type Token uint64

// Value implements [driver.Valuer]: it returns the token as an int64, for a column of 64 bits. It fails for 0, so that no
// statement is sent that has a fence but no token, and above [math.MaxInt64]. A store that knows no Valuer gets uint64(t).
// The caller then has to check for 0.
func (t Token) Value() (driver.Value, error) {
	switch {
	case t == 0:
		return nil, errors.New("rlock: fencing token is 0: the hold has none")
	case t > math.MaxInt64:
		return nil, fmt.Errorf("rlock: fencing token %d exceeds an int64", uint64(t))
	}
	return int64(t), nil
}

// Fenced makes every outermost acquisition draw a fencing token: [Hold.Token]. It orders the Go holders of a name among
// themselves, and no more. Of Redisson's locks only getFencedLock draws tokens, and each re-entry there draws one, too. It
// shares them with [Client.NewLock] and this option. A Java holder of any other lock bears no token, also of a fair or
// read-write lock. No fence stops its writes: a holder without a token may write between the holders of the tokens 41 and 42.
// For the same reason, use this option for all handles of a name, or for none.
//
// Each token is greater than all before it. A resource that remembers the greatest token that it has seen, and refuses lower
// ones, is safe from a holder that has lost the lock without noticing. Tokens come from the clock of Redis, in microseconds
// since 1970, so they keep growing through a failover that lost the latest ones. They need 64 bits. The first acquisition in
// Go lifts the counter of a Java process to that clock, for good.
//
// A hand-over draws a token, and always asks Redis: see [WithLazyHandOver]. A re-entry, a renewal and a repeated command
// draw none. A re-entry has the token of the acquisition that it re-enters, also through a handle without this option. The
// reverse fails with [ErrInvalidOption], and sends nothing: an owner that holds the name without a token cannot re-enter
// through a handle with this option. Otherwise a token of 0 would reach the resource.
//
// If a name is acquired without a token after this client acquired it with one, that is logged. It is logged once for each
// name, as far as the client remembers: it remembers the 256 latest names that it acquired with a token.
//
// The option is for [Client.NewLock], [Client.NewFairLock] and [Client.NewRWLock]. A read-write lock has tokens on its write
// side. Read holds have none, because readers write nothing. Spin locks refuse the option with [ErrInvalidOption].
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
