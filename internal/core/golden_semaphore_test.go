package core_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

func TestGoldenSemaphores(t *testing.T) { // the subtests share a server
	t.Parallel()
	for server, start := range testkit.Servers {
		t.Run(server, func(t *testing.T) {
			rdb := start(t)
			for kind, all := range map[*wire.Kind][]struct{ claim, lines string }{
				wire.PlainPermit: plainVectors, wire.Permit: leasedVectors,
			} {
				for _, v := range all {
					t.Run(kind.Noun+" "+v.claim, func(t *testing.T) {
						names := wire.NewNames(kind, testkit.NewName(), clientID("a"))
						p := &permits{T: t, rdb: rdb, names: names, id: clientID("a"), calls: wire.NewSemaphore(names)}
						(&goldenSemaphore{permits: p, kind: kind}).run(v.lines)
					})
				}
			}
		})
	}
}

// goldenSemaphore is the semaphore of a vector.
type goldenSemaphore struct {
	*permits
	kind *wire.Kind
}

func (g *goldenSemaphore) key(i int) string {
	key, _ := g.names.Keys[i].(string)
	return key
}

func (g *goldenSemaphore) run(lines string) {
	ctx := g.Context()
	require.Equal(g, "redisson_sc:{"+g.key(0)+"}", g.names.Channel)
	sub := g.rdb.Subscribe(ctx, g.names.Channel)
	defer sub.Close()
	_, err := sub.Receive(ctx)
	require.NoError(g, err)
	before := "-"
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		rest, _, _ := strings.Cut(strings.TrimSpace(line), " // ")
		rest, message, _ := strings.Cut(rest, " ! ")
		rest, state, changes := strings.Cut(rest, " -> ")
		call, reply, calls := strings.Cut(rest, " = ")
		if !changes {
			state = before
		}
		if words := strings.Fields(call); calls {
			require.Equal(g, reply, g.do(words), line)
		} else {
			g.byHand(words)
		}
		require.Equal(g, state, g.state(), line)
		require.NoError(g, g.rdb.Publish(ctx, g.names.Channel, "end").Err())
		var heard []string
		for m := testkit.Within(g, line, sub.Channel()); m.Payload != "end"; m = testkit.Within(g, line, sub.Channel()) {
			heard = append(heard, m.Payload)
		}
		require.Equal(g, message, strings.Join(heard, " "), line)
		before = state
	}
}

// letter returns the holder that a line calls by a letter, of so many permits.
func (g *goldenSemaphore) letter(letter string, n int64) *core.Holder {
	return core.NewHolder(g.id, g.key(0), 1000+int64(letter[0]), int(n))
}

// first returns the id of a holder's first permit, as Redis has it.
func (g *goldenSemaphore) first(letter string) string {
	id, err := hex.DecodeString(g.letter(letter, 1).PermitIDs()[0])
	require.NoError(g, err)
	return string(id)
}

// byHand does what only Redisson, or time, does.
func (g *goldenSemaphore) byHand(words []string) {
	ctx := g.Context()
	switch words[0] {
	case "over": // the lease of every permit of a holder
		for _, id := range g.rdb.ZRange(ctx, g.key(1), 0, -1).Val() {
			if g.letterOf(id) == words[1] {
				require.NoError(g, g.rdb.ZAdd(ctx, g.key(1), redis.Z{Score: 1, Member: id}).Err())
			}
		}
	case "take": // by Redisson, without a lease
		require.NoError(g, g.rdb.Decr(ctx, g.key(0)).Err())
		require.NoError(g, g.rdb.ZAdd(ctx, g.key(1), redis.Z{Score: 922337203685477, Member: g.first(words[1])}).Err())
	case "never":
		require.NoError(g, g.rdb.ZAdd(ctx, g.key(1), redis.Z{Score: 922337203685477, Member: g.first(words[1])}).Err())
	default:
		var args []any
		for _, word := range words[1:] {
			if letter, ok := strings.CutPrefix(word, "$"); ok && letter != "" {
				word = g.first(letter)
			}
			args = append(args, strings.ReplaceAll(word, "$", g.key(0)))
		}
		if args[0] == "HSET" {
			require.NoError(g, g.rdb.Del(ctx, g.key(0)).Err())
		}
		require.NoError(g, g.rdb.Do(ctx, args...).Err())
	}
}

// do makes a call, and returns the reply as a line has it.
func (g *goldenSemaphore) do(words []string) string {
	numbers := make([]int64, 3)
	for i, word := range words[1:] {
		numbers[i], _ = strconv.ParseInt(word, 10, 64)
	}
	number, n := numbers[0], numbers[1]
	switch words[0] {
	case "acquire":
		return g.refusal(g.ask(g.letter(words[1], n).Acquire("try", time.Duration(numbers[2])*time.Second, soon())))
	case "release":
		return g.number(g.ask(g.letter(words[1], n).Release()))
	case "renew":
		holder := g.letter(words[1], int64(max(1, strings.Count(g.state(), words[1]+":"))))
		return fmt.Sprint(g.run1(holder.Renew(time.Duration(n) * time.Second)).List[0])
	case "count", "free":
		r, err := g.ask(g.calls.Count())
		if err == nil {
			return fmt.Sprint(r.List[0], r.List[1])
		}
		return g.number(r, err)
	case "back":
		var ids []string
		for _, letter := range words[2:] {
			ids = append(ids, g.first(letter))
		}
		return g.number(g.ask(g.calls.GiveBack(number, ids)))
	}
	once := map[string]func() wire.Call{
		"set":    func() wire.Call { return g.calls.SetUp(number, n, time.Duration(numbers[2])*time.Millisecond) },
		"total":  func() wire.Call { return g.calls.SetPermits(number, n) },
		"add":    func() wire.Call { return g.calls.AddPermits(number, n) },
		"give":   func() wire.Call { return g.calls.AddPermits(number, n) },
		"drain":  func() wire.Call { return g.calls.Drain(number) },
		"get":    func() wire.Call { return g.calls.Take(number, int(n)) },
		"undo":   func() wire.Call { return g.calls.Undo(number, int(n)) },
		"delete": func() wire.Call { return g.calls.Delete(number) },
	}
	return g.number(g.ask(once[words[0]]()))
}

func (g *goldenSemaphore) ask(c wire.Call) (wire.Reply, error) {
	c.Args.Publish = wire.PublishPlain
	return testkit.RunCall(g.rdb, c)
}

func (g *goldenSemaphore) run1(c wire.Call) wire.Reply {
	g.Helper()
	r, err := g.ask(c)
	require.NoError(g, err)
	return r
}

func (*goldenSemaphore) number(r wire.Reply, err error) string {
	switch {
	case err == nil:
		return strconv.FormatInt(r.N, 10)
	case strings.Contains(err.Error(), "WRONGTYPE"):
		return "WRONGTYPE"
	}
	return err.Error()
}

// refusal returns the reply to an acquire as a line has it.
func (g *goldenSemaphore) refusal(r wire.Reply, err error) string {
	switch {
	case err != nil:
		return g.number(r, err)
	case len(r.List) == 0:
		return "ok"
	case r.List[5] == -1:
		return "unset"
	case r.List[2] < 0 || r.List[2] >= (24*time.Hour).Milliseconds():
		return "no"
	}
	return "no " + seconds(r.List[2])
}

// seconds rounds up to tens of seconds, because the test takes some time.
func seconds(ms int64) string { return strconv.FormatInt((ms+9999)/10000*10, 10) }

func (g *goldenSemaphore) letterOf(id string) string {
	const number = 8 // where the number begins in an id
	return string(rune(int(id[number+4])<<8 + int(id[number+5]) - 1000))
}

// state returns what Redis has, as a line has it.
func (g *goldenSemaphore) state() string {
	ctx := g.Context()
	state := "hash"
	if g.rdb.Type(ctx, g.key(0)).Val() != "hash" {
		state = g.rdb.Get(ctx, g.key(0)).Val()
	}
	lifetime := func(key string) string {
		if ttl := g.rdb.PTTL(ctx, key).Val(); ttl > 0 {
			return " " + seconds(ttl.Milliseconds()) + "s"
		}
		return ""
	}
	if state == "" {
		state = "-"
	}
	state += lifetime(g.key(0))
	now := g.rdb.Time(ctx).Val().UnixMilli()
	var out []string
	for _, z := range g.rdb.ZRangeWithScores(ctx, g.key(1), 0, -1).Val() {
		left := "over"
		switch ms := int64(math.Round(z.Score)); {
		case ms == 922337203685477:
			left = "never"
		case ms > now:
			left = seconds(ms - now)
		}
		id, _ := z.Member.(string)
		out = append(out, " "+g.letterOf(id)+":"+left)
	}
	slices.Sort(out)
	return state + strings.Join(out, "") + lifetime(g.key(1))
}

// TestSemaphoreNamesOnACluster is vector 25: the names that rlock accepts are those with which Redisson's scripts work.
func TestSemaphoreNamesOnACluster(t *testing.T) {
	t.Parallel()
	for name, works := range map[string]bool{
		"a}b": false, "a{}b": false, "a{b": false, "plain": true, "{a}b": true, "x{a}y": true,
	} {
		for _, kind := range []*wire.Kind{wire.Permit, wire.PlainPermit} {
			require.Equal(t, works, kind.CheckName(name, true) == nil, name)
			names := wire.NewNames(kind, name, clientID("a"))
			together := true
			for _, key := range append(slices.Clone(names.Keys), names.Boxed) {
				together = together && wire.Slot(name) == wire.Slot(key.(string))
			}
			require.Equal(t, works, together, name)
		}
	}
}

// TestASemaphoreWithoutMemory is vector 8, and T-13 for leases: when Redis is out of memory, permits can be given back and renewed.
func TestASemaphoreWithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client(t)
	for _, kind := range []*wire.Kind{wire.Permit} {
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		names := wire.NewNames(kind, testkit.NewName(), clientID("a"))
		g := &goldenSemaphore{&permits{T: t, rdb: rdb, names: names, id: clientID("a"), calls: wire.NewSemaphore(names)}, kind}
		require.Equal(t, "-1", g.do(strings.Fields("set 1 5")))
		require.Equal(t, "ok", g.do(strings.Fields("acquire A 2 30")))
		require.Equal(t, "ok", g.do(strings.Fields("acquire B 1 30")))
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
		require.Contains(t, g.do(strings.Fields("acquire C 1 30")), "OOM")
		require.Equal(t, "1", g.do(strings.Fields("renew B 60")))
		require.Equal(t, "1", g.do(strings.Fields("release A 2")))
		require.Equal(t, "1", g.do(strings.Fields("release B 1")))
		require.Equal(t, "1", g.do(strings.Fields("delete 2")))
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		require.Equal(t, "unset", g.do(strings.Fields("acquire C 1 30")), "the refused command left nothing")
	}
}

// TestManyLeasesAreOver is vector 22: Redisson's queries fail with 8,000 of them.
func TestManyLeasesAreOver(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		p := newPermits(t, rdb, testkit.NewName(), "a")
		g := &goldenSemaphore{p, wire.Permit}
		p.run(p.calls.SetUp(1, 0, 0))
		over := make([]redis.Z, 8001)
		for i := range over {
			over[i] = redis.Z{Score: 1, Member: fmt.Sprintf("%016d", i)}
		}
		require.NoError(t, rdb.ZAdd(t.Context(), g.key(1), over...).Err())
		require.Equal(t, "8001 0", g.do([]string{"count"}))
		require.Equal(t, "ok", g.do(strings.Fields("acquire A 1 30")))
		require.Equal(t, "8000 A:30", g.state())
	})
}
