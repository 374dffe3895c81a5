package wire_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// latchVectors are those of the specification, and some of rlock's own. A line is
//
//	call number [count] = reply -> value ! messages // where Redisson differs: reason
//
// The value is that of the latch, and - means that there is no key. Without a value nothing changes. A line that begins with
// "java" runs Redis commands instead.
var latchVectors = []struct{ claim, lines string }{
	{"23 latch: it opens at zero, and nothing is left of it", `
		down 1 = 0 // nil: all replies are numbers
		delete 2 = 0
		set 3 2 = 1 -> 2 ! 1
		set 4 3 = 0
		down 5 = 1 -> 1
		down 6 = 0 -> - ! 0
		down 7 = 0
	`},
	{"24 latch: a delete says that it is closed, and a count that is not positive is open without a message", `
		set 1 1 = 1 -> 1 ! 1
		delete 2 = 1 -> - ! 1
		set 3 0 = 1 -> 0 ! 1
		set 4 5 = 0
		down 5 = 0 -> -
		set 6 -2 = 1 -> -2 ! 1
		count = -2
		down 7 = 0 -> -
	`},
	{"rlock's own: a repeated call replies the same and changes nothing", `
		set 1 2 = 1 -> 2 ! 1
		set 1 2 = 1
		set 1 9 = 1
		set 2 3 = 0
		down 3 = 1 -> 1
		down 3 = 1
		set 2 3 = 0
		down 4 = 0 -> - ! 0
		down 3 = 1
		set 1 2 = 1
		set 2 3 = 0
		set 5 1 = 1 -> 1 ! 1
		down 4 = 0
		delete 6 = 1 -> - ! 1
		set 7 1 = 1 -> 1 ! 1
		delete 6 = 1
		count = 1
	`},
	{"rlock's own: a number that was given up changes nothing", `
		mark 1 = 0
		mark 1 = 1
		set 1 2 = 0
		set 2 2 = 1 -> 2 ! 1
		mark 2 = 1
		mark 3 = 0
		down 3 = 0
		mark 4 = 0
		delete 4 = 0
		set 2 2 = 1
		count = 2
	`},
	{"rlock's own: large counts are exact", `
		set 1 9007199254740991 = 1 -> 9007199254740991 ! 1
		down 2 = 9007199254740990 -> 9007199254740990
		down 2 = 9007199254740990
		count = 9007199254740990
	`},
	{"rlock's own: what is not a count stays as it is", `
		java SET $ abc -> abc
		set 1 2 = ERR the value is not a count: "abc" // 0: the user should know
		down 2 = ERR the value is not a count: "abc"
		count = ERR the value is not a count: "abc"
		delete 3 = ERR the value is not a count: "abc" // 1: a name has one kind of object
		java SET $ 2.5 -> 2.5
		down 2 = ERR the value is not a count: "2.5"
		java SET $ 1234567890123456789 -> 1234567890123456789
		down 2 = ERR the value is not a count: "1234567890123456789" // it counts: a script has no more than 18 digits
		java SET $ 1 -> 1
		down 2 = 0 -> - ! 0
		java HSET $ j:1 1 -> hash
		set 5 2 = WRONGTYPE
		down 6 = WRONGTYPE
		delete 7 = WRONGTYPE
		count = WRONGTYPE
	`},
	{"rlock's own: a lease of the key, which only an operator gives, stays", `
		java SET $ 3 PX 60000 -> 3 60000
		down 1 = 2 -> 2 60000
	`},
}

func TestGoldenLatch(t *testing.T) { // the subtests share a server
	t.Parallel()
	for server, start := range testkit.Servers {
		t.Run(server, func(t *testing.T) {
			rdb := start(t)
			for _, v := range latchVectors {
				t.Run(v.claim, func(t *testing.T) {
					for _, name := range []string{testkit.NewName(), "{" + testkit.NewName() + "}:braced"} {
						l := wire.NewLatch(name, "u")
						require.Equal(t, "redisson_countdownlatch__channel__{"+name+"}", l.Channel)
						(&goldenLatch{T: t, rdb: rdb, name: name, latch: l}).run(v.lines)
					}
				})
			}
		})
	}
}

// goldenLatch is the latch of a vector.
type goldenLatch struct {
	*testing.T
	rdb   redis.UniversalClient
	name  string
	latch *wire.Latch
}

func (g *goldenLatch) run(lines string) {
	ctx := context.Background()
	sub := g.rdb.Subscribe(ctx, g.latch.Channel)
	defer sub.Close()
	_, err := sub.Receive(ctx)
	require.NoError(g, err)
	before := "-"
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		rest, _, _ := strings.Cut(strings.TrimSpace(line), " // ")
		rest, message, _ := strings.Cut(rest, " ! ")
		rest, value, changes := strings.Cut(rest, " -> ")
		call, reply, _ := strings.Cut(rest, " = ")
		if !changes {
			value = before
		}
		if rest, java := strings.CutPrefix(call, "java "); java {
			var args []any
			for word := range strings.FieldsSeq(strings.ReplaceAll(rest, "$", g.name)) {
				args = append(args, word)
			}
			if args[0] == "HSET" {
				require.NoError(g, g.rdb.Del(ctx, g.name).Err())
			}
			require.NoError(g, g.rdb.Do(ctx, args...).Err())
		} else {
			require.Equal(g, reply, g.do(strings.Fields(call)), line)
		}
		require.Equal(g, value, g.value(), line)
		require.NoError(g, g.rdb.Publish(ctx, g.latch.Channel, "end").Err())
		var heard []string
		for m := testkit.Within(g, line, sub.Channel()); m.Payload != "end"; m = testkit.Within(g, line, sub.Channel()) {
			heard = append(heard, m.Payload)
		}
		require.Equal(g, message, strings.Join(heard, " "), line)
		before = value
	}
	ttl := g.rdb.PTTL(ctx, fmt.Sprintf("redisson_unlock_latch:{%s}:u", g.name)).Val()
	if ttl != -2 { // nothing was noted
		require.InDelta(g, 2*time.Minute, ttl, float64(20*time.Second), "the marks do not stay")
	}
}

// do makes a call, and returns the reply as a line has it.
func (g *goldenLatch) do(words []string) string {
	var numbers [2]int64
	for i, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		require.NoError(g, err)
		numbers[i] = n
	}
	var c wire.Call
	switch words[0] {
	case "set":
		c = g.latch.TrySet(numbers[0], numbers[1])
	case "down":
		c = g.latch.CountDown(numbers[0])
	case "delete":
		c = g.latch.Delete(numbers[0])
	case "count":
		c = g.latch.Count()
	case "mark":
		c = g.latch.Mark(numbers[0])
	}
	r, err := testkit.RunCall(g.rdb, c)
	if err == nil {
		return strconv.FormatInt(r.N, 10)
	}
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return "WRONGTYPE"
	}
	return err.Error()
}

// value returns what the latch has, and how long it still has it.
func (g *goldenLatch) value() string {
	ctx := context.Background()
	if g.rdb.Type(ctx, g.name).Val() == "hash" {
		return "hash"
	}
	value, err := g.rdb.Get(ctx, g.name).Result()
	if err != nil {
		require.ErrorIs(g, err, redis.Nil)
		return "-"
	}
	if ttl := g.rdb.PTTL(ctx, g.name).Val(); ttl > 0 {
		value += " " + strconv.FormatInt(tens(ttl.Milliseconds()), 10)
	}
	return value
}

// TestLatchNamesOnACluster is vector 25: the names that rlock accepts are those with which Redisson's scripts work.
func TestLatchNamesOnACluster(t *testing.T) {
	t.Parallel()
	for name, works := range map[string]bool{
		"{a}b": false, "x{a}y": false, "a}b": false, "a{}b": false, "{m}:k:countdownlatch": false, "plain": true, "a{b": true,
	} {
		l := wire.NewLatch(name, "u")
		require.Equal(t, works, wire.CheckLatch(name, true) == nil, name)
		require.NoError(t, wire.CheckLatch(name, false), name)
		if !works {
			continue
		}
		for _, key := range append(l.CountDown(1).Keys, any(l.Channel)) {
			require.Equal(t, wire.Slot(name), wire.Slot(key.(string)), key)
		}
	}
	require.Error(t, wire.CheckLatch("", false))
	require.ErrorContains(t, wire.CheckLatch("{a}b", true),
		`rlock: invalid name: the braces of "{a}b" put the keys of the latch into different slots of the cluster`)
}

// TestALatchWithoutMemory: when Redis is out of memory, a latch can be counted down and deleted, but not set.
func TestALatchWithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client(t)
	ctx := t.Context()
	l := wire.NewLatch("latch", "u")
	do := func(c wire.Call) int64 {
		r, err := testkit.RunCall(rdb, c)
		require.NoError(t, err)
		return r.N
	}
	require.EqualValues(t, 1, do(l.TrySet(1, 3)))
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	require.EqualValues(t, 2, do(l.CountDown(2)))
	require.EqualValues(t, 2, do(l.CountDown(2)))
	other := wire.NewLatch("latch", "v") // which has no marks yet
	require.EqualValues(t, 0, do(other.Mark(1)))
	require.NoError(t, rdb.Del(ctx, "redisson_unlock_latch:{latch}:v").Err())
	require.EqualValues(t, 1, do(other.CountDown(2)))
	require.EqualValues(t, 0, do(l.Mark(3)))
	require.EqualValues(t, 0, do(l.CountDown(3)))
	require.EqualValues(t, 1, do(l.Count()))
	require.EqualValues(t, 1, do(l.Delete(4)))
	_, err := testkit.RunCall(rdb, l.TrySet(5, 1))
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
	require.EqualValues(t, 1, do(l.TrySet(5, 1)), "the refused call left no mark")
}

// TestMarksOfCallsThatAreOverGo: a call removes the marks of earlier ones, and no others.
func TestMarksOfCallsThatAreOverGo(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		name := testkit.NewName()
		l := wire.NewLatch(name, "u")
		marks := func() []string {
			keys, err := rdb.HKeys(t.Context(), "redisson_unlock_latch:{"+name+"}:u").Result()
			require.NoError(t, err)
			return keys
		}
		do := func(c wire.Call, over any) {
			c.Args.Other = over
			_, err := testkit.RunCall(rdb, c)
			require.NoError(t, err)
		}
		do(l.TrySet(1, 9), nil)
		do(l.CountDown(2), nil)
		do(l.Mark(3), nil)
		require.ElementsMatch(t, []string{"1", "2", "3"}, marks())
		do(l.CountDown(4), "2")
		require.ElementsMatch(t, []string{"1", "3", "4"}, marks())
		do(l.Delete(15), "1 4 77")
		require.ElementsMatch(t, []string{"3", "15"}, marks())
		do(l.TrySet(16, 1), "15")
		require.ElementsMatch(t, []string{"3", "16"}, marks())
	})
}
