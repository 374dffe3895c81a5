package wire_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// fairVectors are the vectors of a fair lock whose scripts give it to the next waiter, in the form of [vectors]. Redisson's
// scripts wake the waiter. The words of an acquire that queues are the number, the lease, the wait, the term of the lease that a
// script may give to the waiter, the number of its seat unless that is its own, and 1 if it asks again. A release has the seat,
// too. A waiter's seat shows the term, and the waiter if it has another number. The test listens on the seats 1 to 6.
var fairVectors = []struct{ claim, lines string }{
	{"the release gives the lock to the waiters in turn", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		acquire fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000]
		acquire fair 3 30000 60000 10000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000 u:-3|10000 60000]
		acquire fair 2 30000 60000 20000 = wait 60000
		release fair 1 = 1, 2 has it for 20000 -> {u:2:1} 20000, [u:-3|10000 60000]
		release fair 1 = 0
		acquire fair 2 40000 60000 20000 = 0 -> {u:2:1} 40000, [u:-3|10000 60000]
		release fair 2 = 1, 3 has it for 10000 -> {u:3:1} 10000
		release fair 3 = 1 -> free
	`},
	{"a waiter of another process is told, and so is the one that is first then", `
		java HSET $ j:1 1; PEXPIRE $ 60000 -> {j:1:1} 60000
		acquire fair 2 30000 60000 20000 = wait 60000 -> {j:1:1} 60000, [u:-2|20000 60000]
		acquire fair 3 30000 60000 1000 = wait 60000 -> {j:1:1} 60000, [u:-2|20000 60000 u:-3|1000 60000]
		acquire fair 4 30000 60000 0 = wait 60000 -> {j:1:1} 60000, [u:-2|20000 60000 u:-3|1000 60000 u:-4 60000]
		acquire fair 5 30000 60000 20000 = wait 60000 -> {j:1:1} 60000, [u:-2|20000 60000 u:-3|1000 60000 u:-4 60000 u:-5|20000 60000]
		force fair = 1 -> {u:2:1} 20000, [u:-3|1000 60000 u:-4 60000 u:-5|20000 60000] ! redisson_lock__channel:@:u:-2 6 2 20000 0
		java DEL $ -> free, [u:-3|1000 60000 u:-4 60000 u:-5|20000 60000]
		acquire fair 6 30000 = wait 10000 -> {u:3:1} 10000, [u:-4 60000 u:-5|20000 60000] ! redisson_lock__channel:@:u:-3 6 3 1000 0, redisson_lock__channel:@:u:-4 0
		release fair 3 = 1 -> free, [u:-4 60000 u:-5|20000 60000] ! redisson_lock__channel:@:u:-4 0
		acquire fair 4 20000 60000 0 = 0 -> {u:4:1} 20000, [u:-5|20000 60000] ! redisson_lock__channel:@:u:-5 9 5 20000
		acquire fair 6 30000 60000 20000 = wait 60000 -> {u:4:1} 20000, [u:-5|20000 60000 u:-6|20000 60000]
		release fair 5 = 0 -> {u:4:1} 20000, [u:-6|20000 60000] ! redisson_lock__channel:@:u:-6 9 6 20000
	`},
	{"a waiter that is not reached is passed over, and removed 3 s later", `
		java HSET $ j:1 1; PEXPIRE $ 60000 -> {j:1:1} 60000
		acquire fair 7 30000 60000 20000 = wait 60000 -> {j:1:1} 60000, [u:-7|20000 60000]
		acquire fair 2 30000 60000 20000 = wait 60000 -> {j:1:1} 60000, [u:-7|20000 60000 u:-2|20000 60000]
		acquire fair 3 30000 60000 20000 = wait 60000 -> {j:1:1} 60000, [u:-7|20000 60000 u:-2|20000 60000 u:-3|20000 60000]
		force fair = 1 -> {u:2:1} 20000, [u:-7|20000 10000 u:-3|20000 60000] ! redisson_lock__channel:@:u:-2 6 2 20000 0
		acquire fair 7 30000 60000 20000 = wait 20000 -> {u:2:1} 20000, [u:-7|20000 60000 u:-3|20000 60000]
		release fair 2 = 1, 7 has it for 20000 -> {u:7:1} 20000, [u:-3|20000 60000]
	`},
	{"a waiter of whose subscription no script knows is woken nevertheless", `
		java HSET $ j:1 1; PEXPIRE $ 60000 -> {j:1:1} 60000
		acquire fair 7 30000 60000 0 = wait 60000 -> {j:1:1} 60000, [u:-7 60000]
		acquire fair 2 30000 60000 0 = wait 60000 -> {j:1:1} 60000, [u:-7 60000 u:-2 60000]
		force fair = 1 -> free, [u:-7 10000 u:-2 60000] ! redisson_lock__channel:@:u:-7 0, redisson_lock__channel:@:u:-2 0
	`},
	{"a later waiter of the process has the seat", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		acquire fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000]
		acquire fair 4 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000 u:-4|20000 60000]
		acquire fair 3 30000 60000 10000 2 = wait 60000 -> {u:1:1} 60000, [u:-4|20000 60000 u:-2=3|10000 60000] ! redisson_lock__channel:@:u:-4 9 4 60000
		acquire fair 2 30000 60000 20000 = wait 0
		release fair 2 = 0
		release fair 1 = 1, 4 has it for 20000 -> {u:4:1} 20000, [u:-2=3|10000 60000]
		acquire fair 2 30000 60000 20000 = wait 0
		release fair 4 = 1, 3 has it for 10000 -> {u:3:1} 10000
		acquire fair 5 30000 60000 20000 2 = wait 10000 -> {u:3:1} 10000, [u:-2=5|20000 60000]
		release fair 3 0 2 = 1, 5 has it for 20000 -> {u:5:1} 20000
	`},
	{"the waiter that is first then learns of that, and one of Java's has its time", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		acquire fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000]
		java RPUSH redisson_lock_queue:@ j:1; ZADD redisson_lock_timeout:@ now+10000 j:1 -> {u:1:1} 60000, [u:-2|20000 60000 j:1 10000]
		acquire fair 3 30000 60000 10000 2 = wait 360000 -> {u:1:1} 60000, [j:1 360000 u:-2=3|10000 420000] ! redisson_lock__channel:@:j:1 0
	`},
	{"a lock that is kept tells the first waiter until when", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		park fair 9 50000 8 = 0
		acquire fenced_fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000|t 60000]
		acquire fair 3 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000|t 60000 u:-3|20000 60000]
		park fair 9 50000 1 = 1 -> {u:9:0} 50000, [u:-2|20000|t 60000 u:-3|20000 60000] ! redisson_lock__channel:@:u:-2 9 2 50000
		park fair 9 50000 1 = 1
		release fair 2 0 2 = 0 -> {u:9:0} 50000, [u:-3|20000 60000] ! redisson_lock__channel:@:u:-3 9 3 50000
	`},
	{"a ticket, and who adopts it, tell the first waiter when their leases end", `
		acquire fenced_fair 1 60000 60000 20000 = new token -> {u:1:1} 60000
		acquire fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000]
		export fenced_fair 9 50000 1 = 0 -> {u:9:1} 50000, [u:-2|20000 60000] ! redisson_lock__channel:@:u:-2 9 2 50000
		export fenced_fair 9 50000 1 = 0
		export fenced_fair 8 70000 9 = 0 -> {u:8:1} 70000, [u:-2|20000 60000] ! redisson_lock__channel:@:u:-2 9 2 70000
		adopt fenced_fair 7 40000 8 = new token -> {u:7:1} 40000, [u:-2|20000 60000] ! redisson_lock__channel:@:u:-2 9 2 40000
		adopt fenced_fair 7 40000 8 = same token
		adopt fenced_fair 6 40000 8 = -1
	`},
	{"who comes behind a waiter that nobody reaches watches the lease, and who comes behind one that lives does not", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		acquire fair 9 30000 100000 20000 = wait 60000 -> {u:1:1} 60000, [u:-9|20000 100000]
		acquire fair 2 30000 100000 20000 = wait 60000 -> {u:1:1} 60000, [u:-9|20000 100000 u:-2|20000 100000]
		release fair 9 0 9 = 0 -> {u:1:1} 60000, [u:-2|20000 100000] ! redisson_lock__channel:@:u:-2 9 2 60000
		acquire fair 3 30000 100000 20000 = wait 100000 -> {u:1:1} 60000, [u:-2|20000 100000 u:-3|20000 100000]
	`},
	{"a waiter that asks again learns that it was removed", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		acquire fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000]
		acquire fair 2 30000 60000 20000 0 1 = wait 60000
		java LREM redisson_lock_queue:@ 1 u:-2; ZREM redisson_lock_timeout:@ u:-2 -> {u:1:1} 60000, line []
		acquire fair 2 30000 60000 20000 0 1 = missed, wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000]
		acquire fair 2 30000 60000 20000 0 1 = wait 60000
		acquire fair 3 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000 u:-3|20000 60000]
	`},
	{"a number with a tombstone gets neither the lock nor a seat", `
		release fair 2 120000 = 0 -> free, redisson_unlock_latch:@:u
		acquire fair 2 30000 60000 20000 = wait 0
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000, redisson_unlock_latch:@:u
		acquire fair 2 30000 60000 20000 = wait 0
	`},
	{"Java's waiters have their turns", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		acquire fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000]
		java RPUSH redisson_lock_queue:@ j:1; ZADD redisson_lock_timeout:@ now+100000 j:1 -> {u:1:1} 60000, [u:-2|20000 60000 j:1 100000]
		acquire fair 3 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000 60000 j:1 100000 u:-3|20000 360000]
		release fair 1 = 1, 2 has it for 20000 -> {u:2:1} 20000, [j:1 320000 u:-3|20000 360000] ! redisson_lock__channel:@:j:1 0
		release fair 2 = 1 -> free, [j:1 320000 u:-3|20000 360000] ! redisson_lock__channel:@:j:1 0
		acquire fair 3 30000 60000 20000 = wait 320000 -> free, [j:1 320000 u:-3|20000 380000] ! redisson_lock__channel:@:j:1 0
		java LPOP redisson_lock_queue:@; ZREM redisson_lock_timeout:@ j:1; HSET $ j:1 1; PEXPIRE $ 30000 -> {j:1:1} 30000, [u:-3|20000 380000]
		java DEL $ -> free, [u:-3|20000 380000]
		acquire fair 3 30000 60000 20000 = 0 -> {u:3:1} 30000
	`},
	{"the scripts of a lock with tokens draw one, and the others have the waiter ask", `
		acquire fair 1 60000 60000 20000 = 0 -> {u:1:1} 60000
		acquire fenced_fair 2 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000|t 60000]
		acquire fair 3 30000 60000 10000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000|t 60000 u:-3|10000 60000]
		acquire fenced_fair 4 30000 60000 20000 = wait 60000 -> {u:1:1} 60000, [u:-2|20000|t 60000 u:-3|10000 60000 u:-4|20000|t 60000]
		release fair 1 = 1 -> free, [u:-2|20000|t 60000 u:-3|10000 60000 u:-4|20000|t 60000] ! redisson_lock__channel:@:u:-2 0
		acquire fenced_fair 2 30000 60000 20000 = new token -> {u:2:1} 30000, [u:-3|10000 60000 u:-4|20000|t 60000] ! redisson_lock__channel:@:u:-3 9 3 30000
		release fenced_fair 2 = 1, 3 has it for 10000 -> {u:3:1} 10000, [u:-4|20000|t 60000]
		force fenced_fair = 1 -> {u:4:1} 20000 ! redisson_lock__channel:@:u:-4 6 4 20000 token
		acquire fenced_fair 4 30000 60000 20000 = same token -> {u:4:1} 30000
		acquire fenced_fair 5 30000 60000 20000 = wait 30000 -> {u:4:1} 30000, [u:-5|20000|t 60000]
		release fenced_fair 4 = 1, 5 has it for 20000, new token -> {u:5:1} 20000
	`},
}

// inQueue runs a script of a fair lock.
func (g *golden) inQueue(script string, kind *wire.Kind, words []string) string {
	numbers := make([]int64, 6)
	for i, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		require.NoError(g, err)
		numbers[i] = n
	}
	names := wire.NewNames(kind, g.name, g.client.ID())
	holder := wire.NewHolder(kind, names, g.client.ID(), numbers[0])
	onSeat := func(i int) *wire.Seat {
		if numbers[i] == 0 {
			numbers[i] = numbers[0]
		}
		return wire.NewSeat(names, g.client.ID(), int(numbers[i]))
	}
	var call wire.Call
	switch {
	case script == "acquire" && len(words) < 3:
		call = holder.Acquire(names, millis(numbers[1]), nil)
	case script == "acquire":
		call = holder.Queue(names, millis(numbers[1]), millis(numbers[2]), millis(numbers[3]), onSeat(4), numbers[5] == 1)
	case script == "release":
		call = holder.Leave(names, millis(numbers[1]), onSeat(2))
	case script == "force":
		call = kind.ForceCall(names, false)
	}
	r, err := testkit.RunCall(g.rdb, call)
	require.NoError(g, err)
	place, refused := r.Position()
	switch {
	case refused:
		require.InDelta(g, g.now()*1000, place.At, 30_000_000)
		require.Equal(g, len(words) > 2, place.Ahead == 0)
		what := "wait"
		if place.Missed {
			what = "missed, wait"
		}
		return fmt.Sprintf("%s %d", what, tens(-1-r.N))
	case script == "acquire" && r.N < 0:
		return fmt.Sprintf("wait %d", tens(-1-r.N))
	case script == "acquire" && kind.Tokens:
		return g.issued(r.N)
	}
	reply := strconv.FormatInt(r.N, 10)
	if m, ok := r.GaveHere(); ok {
		require.InDelta(g, g.now()*1000, m.At, 30_000_000)
		reply += fmt.Sprintf(", %d has it for %d", m.Number, m.Term.Milliseconds())
		if m.Token > 0 {
			reply += ", " + g.issued(int64(m.Token))
		}
	}
	return reply
}

// replace runs a script that puts another holder in the place of the last one. The words are the number of the one, its ms, and the number of
// the other.
func (g *golden) replace(script string, kind *wire.Kind, words []string) string {
	var numbers [3]int64
	for i, word := range words {
		numbers[i], _ = strconv.ParseInt(word, 10, 64)
	}
	names := wire.NewNames(kind, g.name, g.client.ID())
	next, last := wire.NewHolder(kind, names, g.client.ID(), numbers[0]), wire.NewHolder(kind, names, g.client.ID(), numbers[2])
	lease := millis(numbers[1])
	var c wire.Call
	switch script {
	case "export":
		c = next.Export(names, &last, lease, true)
	case "adopt":
		c = next.Adopt(names, last.Field, lease, true)
	default:
		c = next.Park(names, &last, lease, true)
	}
	r, err := testkit.RunCall(g.rdb, c)
	require.NoError(g, err)
	if script == "adopt" && kind.Tokens && r.N >= 0 {
		return g.issued(r.N)
	}
	return strconv.FormatInt(r.N, 10)
}

// seat returns what is known about a waiter that has a seat.
func (g *golden) seat(waiter string) string {
	key := g.long("redisson_unlock_latch:@:waiters")
	entry := g.rdb.HGet(context.Background(), key, waiter).Val()
	if entry == "" {
		return ""
	}
	require.InDelta(g, 300_000, g.pttl(key), 100_000, "the seats have a lifetime")
	number, term, _ := strings.Cut(entry, "|")
	name := ""
	if !strings.HasSuffix(waiter, ":-"+number) {
		name = "=" + number
	}
	if strings.HasPrefix(term, "0") {
		return name
	}
	return name + "|" + term
}

func TestGoldenFair(t *testing.T) { // the subtests share a server
	t.Parallel()
	testGolden(t, fairVectors)
}
