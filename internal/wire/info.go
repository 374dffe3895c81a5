package wire

import (
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/lua"
)

// Info is what Redis has of a lock at one moment.
type Info struct {
	Millis  int64 // the PTTL of the lock
	At      int64 // Unix µs of Redis's clock
	Token   uint64
	Holders []InfoHolder // at most 100
	Held    int64        // how many holders there are
	Waiters []InfoWaiter // at most 100
	Waiting int64        // how many waiters there are
}

// Clients ranges over the ids of the clients of the holders and the waiters. An id may come more than once.
func (i *Info) Clients() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, h := range i.Holders {
			if !yield(Client(h.Field)) {
				return
			}
		}
		for _, w := range i.Waiters {
			if !yield(Client(w.Field)) {
				return
			}
		}
	}
}

// InfoHolder is one holder.
type InfoHolder struct {
	Field  string
	Count  int64
	Role   string // read, write, or empty for a lock without sides
	Millis int64  // its lease; negative means that it is over, or has none
}

// Kept reports whether nobody holds the lock any more, and it stays taken nevertheless: see [Kind.Park].
func (h *InfoHolder) Kept() bool { return h.Role == "" && h.Count == 0 }

// Client returns the id of the client that a holder field, a seat, or a member of the line begins with.
func Client(field string) string {
	id, _, _ := strings.Cut(field, ":")
	return id
}

// InfoWaiter is one waiter.
type InfoWaiter struct {
	Field string // that of the holder that it would be, or its seat
	Since int64  // Unix µs; zero means that Redis does not know
	Ours  bool   // it is rlock's
}

var _, lockInfo = lua.Open(lua.LockInfo)

// InfoCommand returns the command that asks for the Info of a lock, with its waiters or without.
func (k *Kind) InfoCommand(n *Names, waiters bool) []any {
	keys := append(make([]any, 0, 3), n.Keys[0])
	switch others := n.Keys[1 : len(n.Keys)-1]; {
	case !waiters:
		keys = append(keys, n.Keys[0]) // which is neither a line nor a queue
	case k.Line != nil:
		keys = append(append(keys, n.LineKeys[1]), n.LineKeys[2:len(n.LineKeys)-1]...)
	case k.Tokens:
		keys = append(keys, others[0], others[len(others)-1])
	default:
		keys = append(keys, others[0])
	}
	return InfoCommand(keys...)
}

// InfoCommand asks for the Info of a lock, given its keys: the lock, its line or the lock again, and its token if it has one.
func InfoCommand(keys ...any) []any {
	return append([]any{"EVAL", lockInfo, int64(len(keys))}, keys...)
}

var errInfo = errors.New("unexpected reply from Redis about a lock")

// ParseInfo returns what a reply to the command says.
func ParseInfo(reply any) (Info, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 7 {
		return Info{}, errInfo
	}
	holders, ok1 := list[4].([]any)
	waiters, ok2 := list[6].([]any)
	if !ok1 || !ok2 || len(holders)%4 != 0 || len(waiters)%2 != 0 {
		return Info{}, errInfo
	}
	info := Info{Millis: number(list[0]), At: number(list[1]), Held: number(list[3]), Waiting: number(list[5])}
	if token := number(list[2]); token > 0 {
		info.Token = uint64(token)
	}
	for i := 0; i < len(holders); i += 4 {
		info.Holders = append(info.Holders, InfoHolder{
			Field: text(holders[i]), Count: number(holders[i+1]), Role: text(holders[i+2]), Millis: number(holders[i+3]),
		})
	}
	for i := 0; i < len(waiters); i += 2 {
		w := InfoWaiter{Field: text(waiters[i]), Since: number(waiters[i+1])}
		if field, _, lined := strings.Cut(w.Field, "|"); lined {
			w.Field, w.Ours = field, true
		}
		w.Ours = w.Ours || strings.Contains(w.Field, lua.SeatInfix)
		info.Waiters = append(info.Waiters, w)
	}
	return info, nil
}

// number returns a number of a reply, which Redis may have as a text. Anything else is 0.
func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// Lease returns a PTTL of Redis as a duration: 0 for a key that does not exist, negative for one without a lease.
func Lease(millis int64) time.Duration {
	if millis == NoKey {
		return 0
	}
	const most = int64(math.MaxInt64 / time.Millisecond) // a TTL of Redis may exceed the range of a Duration
	return time.Duration(max(-1, min(millis, most))) * time.Millisecond
}
