package goredis

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// keys is the number of keys of a script, as an argument of its command. It notices each time that the command is written to a
// connection, because go-redis then asks for its bytes. It also does where a hook gives the arguments to a command of its own.
//
// rlock gives a command to go-redis once. A hook of the user may run it again, after a lost reply for example. Then the reply is about
// a script that may have run before, and rlock has to know. A hook must not run one command twice at the same time.
type keys struct {
	n      int
	single bool // the script must not run twice
	cmd    *redis.Cmd
	writes atomic.Int32

	earlier any  // the reply of an earlier run, if it had one
	doubt   bool // an earlier run may have changed something, or may still do so, and nobody knows its reply
}

// digits has the numbers of keys that are usual, as they are sent.
var digits = func() (all [16][]byte) {
	for n := range all {
		all[n] = strconv.AppendInt(nil, int64(n), 10)
	}
	return all
}()

// errSingle keeps go-redis from sending a script again that must not run twice. go-redis then closes the connection.
var errSingle = fmt.Errorf("%w: a hook of the redis client has sent the command again", fault.ErrNoAnswer)

// MarshalBinary returns what is sent.
func (k *keys) MarshalBinary() ([]byte, error) {
	if k.writes.Add(1) > 1 {
		k.again()
	}
	if k.single && (k.doubt || k.earlier != nil) {
		k.doubt = true
		return nil, errSingle
	}
	if k.n < len(digits) {
		return digits[k.n], nil
	}
	return strconv.AppendInt(nil, int64(k.n), 10), nil
}

// String returns the number, for hooks that log commands.
func (k *keys) String() string { return strconv.Itoa(k.n) }

// again looks at the outcome of the run before the one that begins. Only go-redis's clients set the error of a command, so a hook that
// runs it again leaves neither an error nor a value of a run that failed.
func (k *keys) again() {
	var rejection redis.Error
	switch err := k.cmd.Err(); {
	case err == nil && whole(k.cmd.Val()):
		k.doubt = k.doubt || k.earlier != nil && first(k.earlier) != first(k.cmd.Val())
		k.earlier = k.cmd.Val()
	case errors.As(err, &rejection) && driver.Rejected(err, rejection.Error(), false).Fate == fault.Rejected:
	default:
		k.doubt = true
	}
}

// repeated marks a reply that is about a script which may have run before. A failure of such a command leaves its outcome open: the run
// that failed was not sent, or was rejected, but an earlier one was not. An earlier run that replied the same makes no difference.
func (k *keys) repeated(r *wire.Reply) {
	if !k.doubt && (k.earlier == nil || first(k.earlier) == first(k.cmd.Val())) {
		return
	}
	r.Repeated = true
	if r.Err != nil {
		r.Err.Fate = fault.InDoubt
	}
}

// first returns the number that a script replied, or the first of several. It returns nil for anything else.
func first(value any) any {
	if list, ok := value.([]any); ok && len(list) > 0 {
		return list[0]
	}
	number, _ := value.(int64)
	return number
}
