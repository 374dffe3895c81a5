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

// written is the first argument of a script. It notices each time that its command is written to a connection, because go-redis then
// asks for its bytes. It also does where a hook gives the arguments to a command of its own. Hooks that look at the number of keys, or
// at the keys, find what is usual there.
//
// rlock gives a command to go-redis once. A hook of the user may run it again, after a lost reply for example. Then the reply is about
// a script that may have run before, and rlock has to know. A hook must not run one command twice at the same time.
type written struct {
	arg    any      // a text or a number
	room   [56]byte // for what is sent: the field of a holder, mostly
	single bool     // the script must not run twice
	cmd    *redis.Cmd
	writes atomic.Int32

	earlier any  // the reply of an earlier run, if it had one
	doubt   bool // an earlier run may have changed something, or may still do so, and nobody knows its reply

	over atomic.Bool // the driver has the reply: what a hook sends of the arguments later changes nothing here
}

// errSingle keeps go-redis from sending a script again that must not run twice. go-redis then closes the connection.
var errSingle = fmt.Errorf("%w: a hook of the redis client has sent the command again", fault.ErrNoAnswer)

// MarshalBinary returns what is sent.
func (w *written) MarshalBinary() ([]byte, error) {
	switch over := w.over.Load(); {
	case over && w.single:
		return nil, errSingle
	case over:
		return []byte(w.String()), nil
	case w.writes.Add(1) > 1:
		w.again()
	}
	if w.single && w.ran() {
		w.doubt = true
		return nil, errSingle
	}
	if number, ok := w.arg.(int64); ok {
		return strconv.AppendInt(w.room[:0], number, 10), nil
	}
	return append(w.room[:0], w.String()...), nil
}

// String returns the argument, for hooks that log commands.
func (w *written) String() string {
	if text, ok := w.arg.(string); ok {
		return text
	}
	return fmt.Sprint(w.arg)
}

// again looks at the outcome of the run before the one that begins. Only go-redis's clients set the error of a command, so a hook that
// runs it again leaves neither an error nor a value of a run that failed.
func (w *written) again() {
	var rejection redis.Error
	switch err := w.cmd.Err(); {
	case err == nil && whole(w.cmd.Val()):
		w.doubt = w.doubt || w.earlier != nil && first(w.earlier) != first(w.cmd.Val())
		w.earlier = w.cmd.Val()
	case errors.As(err, &rejection) && driver.Rejected(err, rejection.Error(), false).Fate == fault.Rejected:
	default:
		w.doubt = true
	}
}

// ran reports whether an earlier run may have changed something.
func (w *written) ran() bool { return w.doubt || w.earlier != nil }

// repeated marks a reply that is about a script which may have run before. A failure of such a command leaves its outcome open: the run
// that failed was not sent, or was rejected, but an earlier one was not. An earlier run that replied the same makes no difference.
func (w *written) repeated(r *wire.Reply) {
	if !w.doubt && first(w.earlier) == first(w.cmd.Val()) {
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
