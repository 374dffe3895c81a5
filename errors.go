package rlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// The errors that callers tell apart, with [errors.Is]. What a verb returns wraps one of them, or the error of Redis
// or of the network, with the operation and the name of the lock.
var (
	// ErrNotAcquired is returned when another owner held the lock until the wait was over. Where a context ended the
	// wait, the error matches the context's error and cause too.
	ErrNotAcquired = errors.New("rlock: not acquired")

	// ErrNotHeld is returned by an unlock that has nothing to release: never locked, unlocked already, or locked by
	// another owner. Nothing was changed in Redis.
	ErrNotHeld = errors.New("rlock: not held by this owner (to unlock elsewhere than where the lock was taken, " +
		"pass Hold.Context, or an owner by WithOwner, or use Do)")

	// ErrLost is returned, and is the cause of a hold's context, when a lock that was acquired can no longer be
	// guaranteed: its lease ended, or its holder is gone from Redis. It matches [ErrNotHeld] too.
	ErrLost error = lostError{}

	// ErrReentered is returned to an owner that holds the lock when it asks for it again through a handle made with
	// [NonReentrant].
	ErrReentered = errors.New("rlock: held by this owner already")

	// ErrUpgrade is returned to an owner that reads when it asks for the write lock of the same name: it would wait for
	// itself. It has to unlock the read lock first.
	ErrUpgrade = errors.New("rlock: this owner holds the read lock, which cannot become a write lock")

	// ErrNotReplicated is returned by an acquisition that fewer replicas acknowledged than [WithReplicaAcks] asks for, or
	// whose server has no WAIT. The lock was released.
	ErrNotReplicated = errors.New("rlock: not acknowledged by enough replicas")

	// ErrClosed is returned by every verb but the unlocks once the [Client] is closed.
	ErrClosed = errors.New("rlock: client is closed")

	// ErrInvalidName is returned by the first verb of a lock whose name is empty, longer than 64 KiB, or cannot be
	// kept in one slot of a Redis Cluster.
	ErrInvalidName = errors.New("rlock: invalid name")

	// ErrInvalidOption is returned for an option or argument that cannot work; nothing was sent to Redis.
	ErrInvalidOption = errors.New("rlock: invalid option")
)

// sentinel tells whether err begins with the name of the package: it is one of those above.
func sentinel(err error) bool {
	for _, known := range []error{
		ErrNotAcquired, ErrNotHeld, ErrReentered, ErrUpgrade, ErrNotReplicated, ErrClosed, ErrInvalidName, ErrInvalidOption,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

type lostError struct{}

func (lostError) Error() string { return "rlock: lock lost" }

// Is makes a lost lock a lock that is not held.
func (lostError) Is(target error) bool { return target == ErrNotHeld }

var (
	// errNoAnswer is the error of a command whose answer did not come within the command timeout, or before the wait
	// was over.
	errNoAnswer = errors.New("no answer from Redis in time")

	// errLate is the error of an acquisition that Redis granted, but whose answer came when its lease was over, or when
	// the lock had been unlocked by force meanwhile.
	errLate = errors.New("the answer of Redis came too late to rely on")
)

// quote makes a name fit for an error or a log line: quoted, at most 64 runes of it.
func quote(name string) string {
	if utf8.RuneCountInString(name) <= 64 {
		return strconv.Quote(name)
	}
	return strconv.Quote(string([]rune(name)[:64])) + "..."
}

// endOf tells how ctx ended: its cause, and its error where the cause does not imply it.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// transientPrefixes begin the errors by which Redis says "not now": it ran nothing of the script, and may run it soon.
var transientPrefixes = []string{
	"LOADING", "BUSY ", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "NOSCRIPT", "MASTERDOWN",
	"max number of clients reached",
}

// replied tells whether err is an answer of the server: the command was received, and is settled.
func replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// says tells whether err is an answer of the server that begins so. Before Redis 7, what is answered to a command of a script
// comes behind a text about the script.
func says(err error, prefix string) bool {
	fromScript := redis.HasErrorPrefix(err, "Error running script") || redis.HasErrorPrefix(err, "@user_script")
	return redis.HasErrorPrefix(err, prefix) || fromScript && strings.Contains(err.Error(), ": -"+prefix)
}

// transient tells whether the same command may succeed when it is sent again.
func (c *Client) transient(err error) bool {
	if errors.Is(err, ErrNotReplicated) {
		return false
	}
	if !replied(err) {
		return !errors.Is(err, redis.ErrClosed) && !errors.Is(err, errReply) && !untrusted(err)
	}
	if c.cluster != nil && (redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")) {
		return true // the client was told not to follow; its picture of the cluster is being renewed
	}
	return slices.ContainsFunc(transientPrefixes, func(prefix string) bool { return says(err, prefix) }) || halfDone(err)
}

// halfDone tells whether a script broke off after it may have changed something: the slot of its keys was on the move,
// and a key that is not there any more may be at the other node.
func halfDone(err error) bool {
	return replied(err) && strings.Contains(err.Error(), "non local key")
}

// unanswered tells whether a command that failed with err may have been executed, or may yet be.
func unanswered(err error) bool {
	if err == nil || replied(err) || errors.Is(err, redis.ErrClosed) || errors.Is(err, ErrNotReplicated) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, errNotSent) ||
		untrusted(err) {
		return false
	}
	var op *net.OpError
	return !errors.As(err, &op) || op.Op != "dial"
}

// untrusted tells whether err is that of a TLS handshake with a server whose certificate is not accepted.
func untrusted(err error) bool {
	var refused *tls.CertificateVerificationError
	return errors.As(err, &refused)
}

// fromNetwork tells whether err may mean that this client's picture of a cluster is out of date.
func fromNetwork(err error) bool {
	if replied(err) {
		return slices.ContainsFunc([]string{"MOVED ", "ASK ", "READONLY", "CLUSTERDOWN", "MASTERDOWN"},
			func(prefix string) bool { return says(err, prefix) })
	}
	var op net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) ||
		errors.Is(err, errNoAnswer)
}

// wrongType tells whether err says that a key holds another type of value. (miniredis puts text of its own before it.)
func wrongType(err error) bool {
	return replied(err) && strings.Contains(err.Error(), "WRONGTYPE")
}
