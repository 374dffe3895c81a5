package wire_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// lines are the calls of [lineVectors] that run a script of the line.
var lines = map[string]bool{"stand": true, "give": true, "pump": true, "forceLine": true}

// lineVectors are the vectors of the scripts of the line, in the form of [vectors]. Redisson knows of no line. The pattern
// subscription of the test hears every message, so every waiter is reached, and nobody else listens. The words of a call are
// the kind, and then
//
//	stand      number, lease, term
//	give       number, lifetime of the tombstone, term, number of the next holder, its lease, its term
//
// A state has the members of the line in their order, without their times. A message does not show the time either.
var lineVectors = []struct{ claim, lines string }{
	{"nobody waits", `
		stand lock 1 30000 3000 = 0 -> {u:1:1} 30000
		stand lock 1 60000 3000 = 0 -> {u:1:1} 60000
		stand lock 1 10000 0 = 0
		give lock 1 0 0 = 1 -> free ! redisson_lock__channel:@ 0
		give lock 1 0 0 = 0
		give lock 1 0 3000 = 0
		pump lock = 0
		forceLine lock = 0
	`},
	{"a refused attempt that does not wait leaves no trace", `
		stand lock 1 30000 0 = 0 -> {u:1:1} 30000
		stand lock 2 30000 0 = wait 30000, not in line
		forceLine lock = 1 -> free ! redisson_lock__channel:@ 0
	`},
	{"the release gives the lock to the waiters in turn", `
		stand lock 1 60000 0 = 0 -> {u:1:1} 60000
		stand lock 2 30000 30000 = wait 60000, 0 ahead, watch -> {u:1:1} 60000, line [u:2|30000 #w]
		stand lock 3 30000 20000 = wait 60000, 1 ahead -> {u:1:1} 60000, line [u:2|30000 u:3|20000 #w]
		stand lock 2 30000 30000 = wait 60000, 0 ahead
		give lock 1 0 0 = freed, to waiter -> {u:2:1} 30000, line [u:3|20000 #w] ! redisson_lock__channel:@:u 6 2 30000 0
		give lock 1 0 0 = 0
		stand lock 2 10000 30000 = 0
		stand lock 4 30000 30000 = wait 30000, 1 ahead -> {u:2:1} 30000, line [u:3|20000 u:4|30000 #w]
		give lock 4 0 30000 = 0 -> {u:2:1} 30000, line [u:3|20000 #w]
		give lock 2 0 30000 = freed, to waiter -> {u:3:1} 20000 ! redisson_lock__channel:@:u 6 3 20000 0
		give lock 3 0 20000 = 1 -> free ! redisson_lock__channel:@ 0
	`},
	{"a ticket, and who adopts it, tell the first waiter when their leases end, if that is soon, and who leaves tells the next one", `
		stand fenced 1 60000 0 = new token -> {u:1:1} 60000
		stand lock 2 30000 30000 = wait 60000, 0 ahead, watch -> {u:1:1} 60000, line [u:2|30000 #w]
		stand lock 3 30000 20000 = wait 60000, 1 ahead -> {u:1:1} 60000, line [u:2|30000 u:3|20000 #w]
		stand lock 4 30000 10000 = wait 60000, 2 ahead -> {u:1:1} 60000, line [u:2|30000 u:3|20000 u:4|10000 #w]
		export fenced 9 50000 1 = 0 -> {u:9:1} 50000, line [u:2|30000 u:3|20000 u:4|10000 #w]
		adopt fenced 8 2000 9 = new token -> {u:8:1} 10000, line [u:2|30000 u:3|20000 u:4|10000 #w] ! redisson_lock__channel:@:u 9 2 10000
		adopt fenced 8 2000 9 = same token
		give lock 4 0 10000 = 0 -> {u:8:1} 10000, line [u:2|30000 u:3|20000 #w]
		give lock 2 0 30000 = 0 -> {u:8:1} 10000, line [u:3|20000 #w] ! redisson_lock__channel:@:u 9 3 10000
	`},
	{"a ticket of a writer, too", `
		stand write 1 60000 0 = 0 -> {mode:write u:1:write:1} 60000
		stand write 2 30000 30000 = wait 60000, 0 ahead, watch -> {mode:write u:1:write:1} 60000, line [u:2:write|30000 #w]
		export write 9 2000 1 = 0 -> {mode:write u:9:write:1} 10000, line [u:2:write|30000 #w] ! redisson_rwlock:@:u 9 2 10000
	`},
	{"the next holder of the process comes behind the waiters", `
		stand lock 1 60000 0 = 0 -> {u:1:1} 60000
		give lock 1 0 0 2 40000 20000 = freed, to next -> {u:2:1} 40000
		give lock 1 0 0 2 40000 20000 = 0
		stand lock 3 30000 10000 = wait 40000, 0 ahead, watch -> {u:2:1} 40000, line [u:3|10000 #w]
		give lock 2 0 20000 4 40000 30000 = freed, to waiter -> {u:3:1} 10000, line [u:4|30000] ! redisson_lock__channel:@:u 6 3 10000 0
		give lock 3 0 10000 = freed, to waiter -> {u:4:1} 30000 ! redisson_lock__channel:@:u 6 4 30000 0
	`},
	{"a number with a tombstone gets neither the lock nor a place", `
		give lock 2 120000 3000 = 0 -> free, redisson_unlock_latch:@:u
		stand lock 2 30000 3000 = wait 0
		stand lock 1 60000 0 = 0 -> {u:1:1} 60000, redisson_unlock_latch:@:u
		stand lock 2 30000 3000 = wait 0
		give lock 1 0 0 2 40000 3000 = 1 -> free, redisson_unlock_latch:@:u ! redisson_lock__channel:@ 0
		stand lock 3 60000 0 = 0 -> {u:3:1} 60000, redisson_unlock_latch:@:u
		stand lock 4 60000 20000 = wait 60000, 0 ahead, watch -> {u:3:1} 60000, line [u:4|20000 #w], redisson_unlock_latch:@:u
		give lock 3 120000 0 2 40000 3000 = freed, to waiter -> {u:4:1} 20000, redisson_unlock_latch:@:u ! redisson_lock__channel:@:u 6 4 20000 0
		give lock 4 120000 20000 = 1 -> free, redisson_unlock_latch:@:u ! redisson_lock__channel:@ 0
	`},
	{"a newcomer does not overtake, a dead holder's lock goes to the first waiter", `
		stand lock 1 60000 0 = 0 -> {u:1:1} 60000
		stand lock 2 30000 20000 = wait 60000, 0 ahead, watch -> {u:1:1} 60000, line [u:2|20000 #w]
		java DEL $ -> free, line [u:2|20000 #w]
		stand lock 3 30000 10000 = wait 20000, 0 ahead, watch -> {u:2:1} 20000, line [u:3|10000 #w] ! redisson_lock__channel:@:u 6 2 20000 0
		java DEL $ -> free, line [u:3|10000 #w]
		stand lock 3 30000 10000 = 0 -> {u:3:1} 30000
	`},
	{"a waiter that leaves while it is granted frees the lock for the next", `
		stand lock 1 60000 0 = 0 -> {u:1:1} 60000
		stand lock 2 30000 20000 = wait 60000, 0 ahead, watch -> {u:1:1} 60000, line [u:2|20000 #w]
		stand lock 3 30000 10000 = wait 60000, 1 ahead -> {u:1:1} 60000, line [u:2|20000 u:3|10000 #w]
		give lock 1 0 0 = freed, to waiter -> {u:2:1} 20000, line [u:3|10000 #w] ! redisson_lock__channel:@:u 6 2 20000 0
		give lock 2 0 20000 = freed, to waiter -> {u:3:1} 10000 ! redisson_lock__channel:@:u 6 3 10000 0
	`},
	{"a waiter that leaves a free lock gives it to the next", `
		stand lock 1 60000 0 = 0 -> {u:1:1} 60000
		stand lock 2 30000 20000 = wait 60000, 0 ahead, watch -> {u:1:1} 60000, line [u:2|20000 #w]
		stand lock 3 30000 10000 = wait 60000, 1 ahead -> {u:1:1} 60000, line [u:2|20000 u:3|10000 #w]
		java DEL $ -> free, line [u:2|20000 u:3|10000 #w]
		give lock 2 0 20000 = to waiter -> {u:3:1} 10000 ! redisson_lock__channel:@:u 6 3 10000 0
		stand lock 4 30000 20000 = wait 10000, 0 ahead, watch -> {u:3:1} 10000, line [u:4|20000 #w]
		java DEL $ -> free, line [u:4|20000 #w]
		give lock 4 0 20000 = to nobody -> free
	`},
	{"unlocked by force, and pumped, the lock goes to the first waiter", `
		java HSET $ j:1 2; PEXPIRE $ 60000 -> {j:1:2} 60000
		stand lock 2 30000 20000 = wait 60000, 0 ahead, watch -> {j:1:2} 60000, line [u:2|20000 #w]
		stand lock 3 30000 10000 = wait 60000, 1 ahead -> {j:1:2} 60000, line [u:2|20000 u:3|10000 #w]
		pump lock = 0 ! redisson_lock__channel:@:u 7
		forceLine lock = 1 -> {u:2:1} 20000, line [u:3|10000 #w] ! redisson_lock__channel:@:u 6 2 20000 0
		java DEL $ -> free, line [u:3|10000 #w]
		pump lock = 1 -> {u:3:1} 10000 ! redisson_lock__channel:@:u 6 3 10000 0
	`},
	{"a script that draws no tokens asks a fenced waiter to draw its own", `
		stand lock 1 60000 0 = 0 -> {u:1:1} 60000
		stand fenced 2 30000 20000 = wait 60000, 0 ahead, watch -> {u:1:1} 60000, line [u:2|20000|t #w]
		stand spin 3 30000 10000 = wait 60000, 1 ahead -> {u:1:1} 60000, line [u:2|20000|t u:3|10000 #w]
		give lock 1 0 0 = freed, to waiter -> free, line [u:2|20000|t u:3|10000 #w !u:2|20000|t] ! redisson_lock__channel:@:u 8
		stand lock 4 30000 0 = wait 10000, not in line ! redisson_lock__channel:@:u 8
		pump spin = 1 ! redisson_lock__channel:@:u 8
		stand fenced 2 30000 20000 = new token -> {u:2:1} 30000, line [u:3|10000 #w]
		stand fenced 4 30000 20000 = wait 30000, 1 ahead -> {u:2:1} 30000, line [u:3|10000 u:4|20000|t #w]
		give fenced 2 0 20000 = freed, to waiter -> {u:3:1} 10000, line [u:4|20000|t #w] ! redisson_lock__channel:@:u 6 3 10000 0
		forceLine fenced = 1 -> {u:4:1} 20000 ! redisson_lock__channel:@:u 6 4 20000 token
		stand fenced 4 30000 20000 = same token -> {u:4:1} 30000
		give fenced 4 0 20000 5 40000 3000 = freed, to next, new token -> {u:5:1} 40000
	`},
	{"writers stand in the line, and readers do not", `
		stand write 1 60000 0 = 0 -> {mode:write u:1:write:1} 60000
		stand write 1 10000 3000 = 0
		acquire read 2 40000 = wait 60000
		stand write 3 30000 20000 = wait 60000, 0 ahead, watch -> {mode:write u:1:write:1} 60000, line [u:3:write|20000 #w]
		stand fenced_write 4 30000 10000 = wait 60000, 1 ahead -> {mode:write u:1:write:1} 60000, line [u:3:write|20000 u:4:write|10000|t #w]
		give write 1 0 0 = freed, to waiter -> {mode:write u:3:write:1} 20000, line [u:4:write|10000|t #w] ! redisson_rwlock:@:u 6 3 20000 0
		give write 3 0 20000 = freed, to waiter -> free, line [u:4:write|10000|t #w !u:4:write|10000|t] ! redisson_rwlock:@:u 8
		stand fenced_write 4 30000 10000 = new token -> {mode:write u:4:write:1} 30000
		give fenced_write 4 0 10000 5 40000 3000 = freed, to next, new token -> {mode:write u:5:write:1} 40000
		give fenced_write 5 0 0 = 1 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
	`},
	{"the last reader gives the lock to the first writer", `
		acquire read 1 40000 = 0 -> {mode:read u:1:1} 40000, u:1#1 40000
		acquire read 2 60000 = 0 -> {mode:read u:1:1 u:2:1} 60000, u:1#1 40000, u:2#1 60000
		stand write 3 30000 20000 = wait 60000, 0 ahead, watch -> {mode:read u:1:1 u:2:1} 60000, line [u:3:write|20000 #w], u:1#1 40000, u:2#1 60000
		pump read = 0 ! redisson_rwlock:@:u 7
		give read 2 0 0 = 1 -> {mode:read u:1:1} 40000, line [u:3:write|20000 #w], u:1#1 40000 ! redisson_rwlock:@ 0
		give read 2 0 0 = 0
		give read 1 120000 0 = freed, to waiter -> {mode:write u:3:write:1} 20000, redisson_unlock_latch:@:u ! redisson_rwlock:@:u 6 3 20000 0
		give read 1 0 0 = 0
		acquire read 1 40000 = wait 0
		forceLine read = 0
		forceLine write = 1 -> free, redisson_unlock_latch:@:u ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		acquire read 4 40000 = 0 -> {mode:read u:4:1} 40000, redisson_unlock_latch:@:u, u:4#1 40000
		forceLine write = 0
		give read 4 0 0 = 1 -> free, redisson_unlock_latch:@:u ! redisson_rwlock:@ 0
	`},
	{"a writer that still reads leaves the lock to readers, and wakes them", `
		stand write 1 60000 0 = 0 -> {mode:write u:1:write:1} 60000
		acquire read 2 20000 0 u:1:write = 0 -> {mode:write u:1:write:1 u:2:1} 60000, u:2#1 20000
		stand write 3 30000 10000 = wait 60000, 0 ahead, watch -> {mode:write u:1:write:1 u:2:1} 60000, line [u:3:write|10000 #w], u:2#1 20000
		give write 1 0 0 4 40000 3000 = 1 -> {mode:read u:2:1} 20000, line [u:3:write|10000 #w], u:2#1 20000 ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		give read 2 0 0 = freed, to waiter -> {mode:write u:3:write:1} 10000 ! redisson_rwlock:@:u 6 3 10000 0
	`},
	{"Java's writers and readers are respected, and a pump follows their release", `
		java HSET $ mode write j:1:write 1; PEXPIRE $ 60000 -> {j:1:write:1 mode:write} 60000
		stand write 2 30000 20000 = wait 60000, 0 ahead, watch -> {j:1:write:1 mode:write} 60000, line [u:2:write|20000 #w]
		java DEL $ -> free, line [u:2:write|20000 #w]
		pump write = 1 -> {mode:write u:2:write:1} 20000 ! redisson_rwlock:@:u 6 2 20000 0
		forceLine write = 1 -> free ! redisson_rwlock:@ 1, redisson_rwlock:@ 0
		java HSET $ mode read j:1 1; PEXPIRE $ 60000 -> {j:1:1 mode:read} 60000
		acquire read 3 40000 = 0 -> {j:1:1 mode:read u:3:1} 60000, u:3#1 40000
		give read 3 0 0 = 1 -> {j:1:1 mode:read} 60000
		forceLine read = 1 -> free ! redisson_rwlock:@ 0
	`},
}

// inLine runs a script of the line.
func (g *golden) inLine(script string, words []string) string {
	kind, numbers := wire.Kinds[strings.ReplaceAll(words[0], "_", " ")], make([]int64, 7)
	for i, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		require.NoError(g, err)
		numbers[i] = n
	}
	names := wire.NewNames(kind, g.name, g.client.ID())
	holder := wire.NewHolder(kind, names, g.client.ID(), numbers[0])
	// Whoever is asked to watch was asked just now. On a busy machine, a second may pass between two lines.
	asked := redis.Z{Score: 6e15 + float64(g.now()), Member: "#w"}
	require.NoError(g, g.rdb.ZAddXX(context.Background(), fmt.Sprint(names.LineKeys[1]), asked).Err())
	var call wire.Call
	switch script {
	case "stand":
		call = holder.Stand(names, millis(numbers[1]), millis(numbers[2]))
	case "give":
		var next *wire.Next
		if len(words) > 4 {
			behind := wire.NewHolder(kind, names, g.client.ID(), numbers[3])
			next = &wire.Next{Holder: &behind, Lease: millis(numbers[4]), Term: millis(numbers[5])}
		}
		call = holder.Give(names, millis(numbers[1]), millis(numbers[2]), next)
	case "pump":
		call = kind.PumpCall(names, "")
	case "forceLine":
		call = kind.ForceCall(names, true)
	}
	r, err := testkit.RunCall(g.rdb, call)
	require.NoError(g, err)
	if place, ok := r.Position(); ok {
		reply := fmt.Sprintf("wait %d, %d ahead", tens(-1-r.N), place.Ahead)
		if place.Ahead < 0 {
			reply = fmt.Sprintf("wait %d, not in line", tens(-1-r.N))
		}
		if place.Watch {
			reply += ", watch"
		}
		require.InDelta(g, g.now()*1000, place.At, 30_000_000)
		return reply
	}
	if len(r.List) == 6 {
		return g.gave(&r)
	}
	switch {
	case script == "stand" && r.N < 0:
		return fmt.Sprintf("wait %d", tens(-1-r.N))
	case script == "stand" && kind.Tokens:
		return g.issued(r.N)
	}
	return strconv.FormatInt(r.N, 10)
}

func (g *golden) gave(r *wire.Reply) string {
	given := r.Gave()
	require.InDelta(g, g.now()*1000, given.At, 30_000_000)
	require.Zero(g, given.Others)
	words := []string{[]string{"to nobody", "to waiter", "to next", "offered"}[given.What]}
	if given.Freed {
		words = append([]string{"freed"}, words...)
	}
	if given.Watch {
		words = append(words, "watch")
	}
	if given.Token > 0 {
		words = append(words, g.issued(int64(given.Token)))
	}
	return strings.Join(words, ", ")
}

// line returns the members of a line.
func (g *golden) line(key string) []string {
	members := g.rdb.ZRange(context.Background(), key, 0, -1).Val()
	require.InDelta(g, 300_000, g.pttl(key), 100_000, "a line has a lifetime")
	for i, member := range members {
		members[i] = g.short(member)
	}
	return members
}

func TestGoldenLine(t *testing.T) { // the subtests share a server
	t.Parallel()
	testGolden(t, lineVectors)
}
