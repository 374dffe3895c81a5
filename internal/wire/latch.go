package wire

import (
	"strconv"

	"github.com/go-rlock/rlock/internal/lua"
)

// MaxCount is the highest count of a latch that rlock sets: up to here every number is exact in a script.
const MaxCount = 1<<53 - 1

// CountDown is the kind of a latch, which is not a lock. Errors use it.
var CountDown = &Kind{Noun: "count-down latch"}

// Latch has the keys and the channel of a count-down latch. It is read-only once made.
type Latch struct {
	Channel string // where it is announced that the latch opens or closes

	keys    []any // the latch, the marks of the client's calls
	channel any   // Channel as it is sent
}

// NewLatch returns the keys and the channel of a latch, given its name in Redis and the client's id. Its
// channel and its marks have the name in braces, even if the name contains braces. So names such as a{b work on a cluster, as they do
// with Redisson.
func NewLatch(name, clientID string) *Latch {
	l := &Latch{Channel: latchChannel + "{" + name + "}"}
	l.keys = []any{name, lua.LatchKey + ":{" + name + "}:" + clientID}
	l.channel = l.Channel
	return l
}

// CheckLatch returns ErrInvalidName, with the reason, for a name that cannot be a latch's name in Redis.
func CheckLatch(name string, cluster bool) error {
	return checkName(name, "{"+name+"}", cluster, "latch")
}

// Name returns the name in Redis.
func (l *Latch) Name() string {
	name, _ := l.keys[0].(string)
	return name
}

// TrySet returns the call that sets the count. The number is that of the call.
func (l *Latch) TrySet(number, count int64) Call {
	c := l.call(latchSet, number)
	c.Args.Extra = strconv.FormatInt(count, 10)
	return c
}

// CountDown returns the call that counts down.
func (l *Latch) CountDown(number int64) Call { return l.call(latchCountDown, number) }

// Delete returns the call that deletes the latch.
func (l *Latch) Delete(number int64) Call { return l.call(latchDelete, number) }

// Count returns the call that asks for the count.
func (l *Latch) Count() Call { return Call{Script: latchCount, Keys: l.keys[:1]} }

// Mark returns the call that marks a number as used.
func (l *Latch) Mark(number int64) Call { return MarkCall(l.keys[1], number) }

func (l *Latch) call(s *Script, number int64) Call {
	c := Call{Script: s, Keys: l.keys, Args: onceArgs(number)}
	c.Args.Channel = l.channel
	return c
}
