package wire

import (
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// Publish is the command by which a script announces on a channel. Empty means that it does not announce.
type Publish string

// The ways to announce.
const (
	PublishPlain   Publish = "PUBLISH"
	PublishSharded Publish = "SPUBLISH"
	// PublishNode is PublishPlain for a script that judges waiters by its receivers, on a cluster: there may be more of them, at
	// other nodes.
	PublishNode Publish = "NODE"
)

// Args are the arguments of a script, ARGV[1] to ARGV[9]. A script gets as many of them as [Script.Argv] says, or those that its header
// says if it has a [Script.Usual]. A nil value is sent as an empty string.
type Args struct {
	Holder  any     // the holder's field; for a pump, the client whom nobody asks to watch
	Millis  int64   // the lease; for a release, the lifetime of the tombstone
	Number  int64   // the holder's number
	Channel any     // where a release is announced; for a hand-over that announces nothing, the field of the last holder
	Publish Publish // how; the transport fills it in for a script that announces
	// Extra is the count that a count script shows. For a script of the line see [Holder.Stand] and [Holder.Give]. For another
	// acquire it is how long a waiter of a queue may go without an attempt, in ms; negative means that the caller does not queue.
	// For a reader that yields to writers it is for how long it has waited, in µs; negative means that it does not wait.
	// For the release of a fair lock it is the seat, and for a hand-over of permits the field of the last holder.
	Extra any
	// Other is, for an acquire, the field by which the same owner holds the other side of a read-write lock, or its seat in a
	// queue. For an unlock by force it is the text of the holders that the lock may have, see [Kind.ForceCall]. For a park and a
	// ticket it is [Kind.Silent], or 1 for an adoption.
	Other any
	// NextMillis is, for a release to the line, the lease of the next holder of this process, whose member of the line is Other. For a
	// waiter in a queue, it is the lease that a script may give to it, and NextNumber is 1 if it has been there before.
	NextMillis, NextNumber int64
}

// Call is one call of a script. It is passed by value. The zero Call calls nothing.
type Call struct {
	Script *Script
	Keys   []any // strings; the first one decides the node
	Args   Args
	Argv   []any // instead of Args: the arguments of a renewal
}

// Key returns the key that decides the node.
func (c *Call) Key() string {
	key, _ := c.Keys[0].(string)
	return key
}

// AppendArgv appends the arguments as they are sent.
func (c *Call) AppendArgv(argv []any) []any {
	a := &c.Args
	switch {
	case c.Argv != nil:
		return append(argv, c.Argv...)
	case c.Script.Usual != nil:
		return c.lean(argv)
	}
	all := [...]any{
		orEmpty(a.Holder), nil, nil, orEmpty(a.Channel), publishes[a.Publish], orEmpty(a.Extra), orEmpty(a.Other), nil, nil,
	}
	n := c.Script.Argv
	if n > 1 {
		all[1], all[2] = a.Millis, a.Number
	}
	if n > 7 && a.Other == nil { // it does not queue
		n = 6
	} else if n > 7 {
		all[7], all[8] = a.NextMillis, a.NextNumber
	}
	return append(argv, all[:n]...)
}

// lean appends the arguments of a script that knows the usual ones: the fewer are sent, the less Redis has to do.
func (c *Call) lean(argv []any) []any {
	a := &c.Args
	argv = append(argv, a.Holder, a.Channel)
	rest := [...]any{a.Extra, publishes[a.Publish], a.Other, nil, nil}
	if c.Script.Refuses {
		argv[len(argv)-1] = a.Millis
	} else {
		rest[2], rest[3], rest[4] = a.Millis, a.Other, a.NextMillis
	}
	n, usual := len(rest), [...]any{c.Script.Usual, publishes[PublishPlain], noWait, nil, noWait}
	for n > 0 && (rest[n-1] == nil || rest[n-1] == usual[n-1]) {
		n--
	}
	return append(argv, rest[:n]...)
}

// Numbers returns how many numbers the reply must have. Zero means a single one, not in a list.
func (c *Call) Numbers() int {
	if c.Argv != nil && (c.Script == nil || c.Script.Numbers == 0) { // a renewal, in tests of no script
		return len(c.Argv) - 1
	}
	return c.Script.Numbers
}

// publishes has the values that Publish is sent as, so that none is allocated for a call.
var publishes = map[Publish]any{
	"": empty, PublishPlain: string(PublishPlain), PublishSharded: string(PublishSharded), PublishNode: string(PublishNode),
}

var empty any = ""

func orEmpty(v any) any {
	if v == nil {
		return empty
	}
	return v
}

// Reply is the outcome of a call. It is passed by value.
type Reply struct {
	N    int64         // the number; valid if Err is nil or its fate is [fault.Unreplicated]
	List []int64       // instead, for a script that replies several; a script that may be short sets N to the first of them, too
	Took time.Duration // from sending to the reply
	Err  *fault.Error  // nil means success
}

// Acquired reports whether an acquire or a hand-over made its caller the holder.
func (r *Reply) Acquired() bool {
	return r.N >= 0 && (r.Err == nil || r.Err.Fate == fault.Unreplicated)
}

const (
	// LastGone is the reply of a hand-over by a holder that Redis does not have.
	LastGone = -1

	// maxHint is more than any waiter sleeps, in ms.
	maxHint = 1 << 32
)

// Hint returns, from the reply of a refused acquire, the time until another attempt may help.
func (r *Reply) Hint() time.Duration {
	return time.Duration(min(-1-r.N, maxHint)) * time.Millisecond
}

// NoKey is the PTTL of a key that does not exist.
const NoKey = -2

// Millis is a duration on the wire, rounded up: Redis must not free a lock earlier than its holder believes.
func Millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
