package wire_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestGolden runs each vector for a name without a hash tag, and for a name with one.
func TestGolden(t *testing.T) { // the subtests share a server
	t.Parallel()
	testGolden(t, vectors)
}

func testGolden(t *testing.T, vectors []struct{ claim, lines string }) {
	t.Helper()
	for server, start := range testkit.Servers {
		t.Run(server, func(t *testing.T) {
			rdb := start(t)
			client := testkit.NewClient(t, rdb) // only for its names; it sends nothing
			for _, v := range vectors {
				t.Run(v.claim, func(t *testing.T) {
					bare, braced := testkit.NewName(), "{"+testkit.NewName()+"}:braced"
					(&golden{T: t, rdb: rdb, client: client, name: bare, tag: "{" + bare + "}"}).run(v.lines)
					(&golden{T: t, rdb: rdb, client: client, name: braced, tag: braced}).run(v.lines)
				})
			}
		})
	}
}

// golden is the lock of a vector.
type golden struct {
	*testing.T
	rdb       redis.UniversalClient
	client    *rlock.Client
	name, tag string
	token     int64 // the latest one
}

func (g *golden) run(lines string) {
	ctx := context.Background()
	sub := g.rdb.PSubscribe(ctx, "*"+g.name+"*")
	defer sub.Close()
	_, err := sub.Receive(ctx)
	require.NoError(g, err)
	var listening []string // a pattern does not count
	for _, kind := range []*wire.Kind{wire.Plain, wire.Write} {
		listening = append(listening, wire.NewNames(kind, g.name, g.client.ID()).Own())
	}
	for seat := range 6 {
		listening = append(listening, wire.NewSeat(wire.NewNames(wire.Fair, g.name, g.client.ID()), g.client.ID(), seat+1).Channel)
	}
	for thread := range 4 { // Java's waiters
		listening = append(listening, fmt.Sprintf("redisson_lock__channel:%s:%s:%d", g.tag, testkit.Stranger[:36], thread+1))
	}
	own := g.rdb.Subscribe(ctx, listening...)
	defer own.Close()
	for range listening {
		_, err = own.Receive(ctx)
		require.NoError(g, err)
	}
	before := "free"
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		rest, reason, differs := strings.Cut(strings.TrimSpace(line), " // ")
		require.Equal(g, differs, strings.Contains(reason, ": "), line)
		rest, message, _ := strings.Cut(rest, " ! ")
		rest, state, changes := strings.Cut(rest, " -> ")
		call, reply, _ := strings.Cut(rest, " = ")
		if !changes {
			state = before
		}
		require.Equal(g, reply, g.do(call), line)
		require.Equal(g, state, g.state(), line)
		require.NoError(g, g.rdb.Publish(ctx, g.name, "end").Err())
		var heard []string
		for m := testkit.Within(g, line, sub.Channel()); m.Payload != "end"; m = testkit.Within(g, line, sub.Channel()) {
			heard = append(heard, g.short(m.Channel)+" "+g.timeless(m.Payload))
		}
		require.Equal(g, message, strings.Join(heard, ", "), line)
		before = state
	}
}

// timeless returns a payload without the time, and without the value of a token.
func (g *golden) timeless(payload string) string {
	m, ok := wire.ParseMessage(payload)
	switch {
	case ok && m.Subject == wire.EndsSoon:
		return fmt.Sprintf("9 %d %d", m.Number, tens(m.Term.Milliseconds()))
	case !ok || m.Subject != wire.Granted:
		return payload
	}
	require.InDelta(g, g.now()*1000, m.At, 30_000_000)
	if m.Token > 0 {
		require.Equal(g, "new token", g.issued(int64(m.Token)))
		return fmt.Sprintf("6 %d %d token", m.Number, m.Term.Milliseconds())
	}
	return fmt.Sprintf("6 %d %d 0", m.Number, m.Term.Milliseconds())
}

// do makes a call and returns the reply, as a line writes it.
func (g *golden) do(call string) string {
	script, rest, _ := strings.Cut(call, " ")
	switch script {
	case "java":
		for command := range strings.SplitSeq(rest, "; ") {
			g.command(strings.Fields(command)...)
		}
		return ""
	case "left":
		return fmt.Sprintf("wait %d", tens(g.leftByJava()))
	}
	if lines[script] {
		return g.inLine(script, strings.Fields(rest))
	}
	words := strings.Fields(rest)
	kind, args := strings.ReplaceAll(words[0], "_", " "), words[1:]
	switch {
	case script == "renew":
		return g.renew(kind, args)
	case script == "park", script == "export", script == "adopt":
		return g.replace(script, wire.Kinds[kind], args)
	case strings.HasSuffix(kind, "fair") && script != "count":
		return g.inQueue(script, wire.Kinds[kind], args)
	}
	// defaults has the arguments that a line may leave out: the number, the ms, and ARGV from [6] on.
	defaults := map[string][]string{
		"acquire": {"", "", "-300000", ""}, "release": {"", "0", "300000"}, "force": {"0", "0", "300000", ""}, "handOver": {"", "", ""},
	}[script]
	if script == "force" && wire.Kinds[kind].Family == wire.RWFamily {
		defaults[2] = strings.TrimPrefix(kind, "fenced ") // the side
	}
	args = append(args, defaults[min(len(args), len(defaults)):]...)
	field := "u:" + args[0]
	if strings.HasSuffix(kind, "write") {
		field += ":write"
	}
	lock := testkit.Kinds[kind].Make(g.client, g.name).(*rlock.Lock)
	keys := testkit.Keys(lock)
	if kind == "read" {
		keys = slices.Insert(keys, 1, g.long("@:"+field+"#1"))
	}
	source, n := testkit.Script(kind, script)
	switch {
	case script == "acquire", script == "handOver", script == "release" && args[1] != "0":
		keys = append(keys[:n], keys[len(keys)-1])
	default:
		keys = keys[:n]
	}
	argv := []any{g.long(field), args[1], args[0]}
	if script != "handOver" {
		argv = append(argv, testkit.Channel(lock), "PUBLISH")
	}
	for _, arg := range args[2:] {
		argv = append(argv, g.long(arg))
	}
	reply, err := g.rdb.Eval(context.Background(), source, keys, argv...).Int64()
	require.NoError(g, err, call)
	switch {
	case reply < 0 && script == "acquire":
		return fmt.Sprintf("wait %d", tens(-1-reply))
	case reply >= 0 && strings.HasPrefix(kind, "fenced") && (script == "acquire" || script == "handOver"):
		return g.issued(reply)
	}
	return strconv.FormatInt(reply, 10)
}

// issued compares a token with the latest one.
func (g *golden) issued(token int64) string {
	require.EqualValues(g, token, g.command("INCRBY", "redisson_lock_token:@", "0"), "Java would continue from it")
	require.EqualValues(g, -1, g.command("PTTL", "redisson_lock_token:@"), "the token outlives the lock")
	last := g.token
	g.token = token
	switch {
	case token > last:
		return "new token"
	case token == last:
		return "same token"
	}
	return "old token"
}

// renew calls the renew script. The words are the lease, and then the lock and the field of each holder.
func (g *golden) renew(kind string, words []string) string {
	keys, args := []string(nil), []any{words[0]}
	for holder := range slices.Chunk(words[1:], 2) {
		keys = append(keys, g.long(holder[0]))
		if kind == "read" {
			keys = append(keys, g.long("@:"+holder[1]+"#1"))
		}
		args = append(args, g.long(holder[1]))
	}
	source, _ := testkit.Script(kind, "renew")
	reply, err := g.rdb.Eval(context.Background(), source, keys, args...).Slice()
	require.NoError(g, err)
	return fmt.Sprint(reply)
}

// command runs a Redis command. A word that begins with "now" becomes Unix time in ms.
func (g *golden) command(words ...string) any {
	args := make([]any, len(words))
	for i, word := range words {
		if ms, ok := strings.CutPrefix(word, "now"); ok {
			n, err := strconv.ParseInt(ms, 10, 64)
			require.NoError(g, err)
			word = strconv.FormatInt(g.now()+n, 10)
		}
		args[i] = g.long(word)
	}
	reply, err := g.rdb.Do(context.Background(), args...).Result()
	require.NoError(g, err, words)
	return reply
}

// leftByJava returns the lease that Java gives a lock when one of its readers leaves: the longest of the others.
func (g *golden) leftByJava() (longest int64) {
	for field, count := range testkit.Holders(g, g.rdb, g.name) {
		acquisitions, _ := strconv.Atoi(count) // zero for the field mode
		for i := range acquisitions {
			key := fmt.Sprintf("%s:%s:rwlock_timeout:%d", g.tag, field, i+1)
			longest = max(longest, g.pttl(key))
		}
	}
	return longest
}

// state returns all that Redis has of the lock, as a line writes it.
func (g *golden) state() string {
	keys, err := g.rdb.Keys(context.Background(), "*"+g.name+"*").Result()
	require.NoError(g, err)
	lock, rest := "free", []string(nil)
	for _, key := range keys {
		switch short := g.short(key); {
		case key == g.name:
			var fields []string
			for field, count := range testkit.Holders(g, g.rdb, key) {
				fields = append(fields, g.short(field)+":"+count)
			}
			slices.Sort(fields)
			lock = fmt.Sprintf("{%s} %d", strings.Join(fields, " "), tens(g.pttl(key)))
		case strings.Contains(short, "#"):
			rest = append(rest, fmt.Sprintf("%s %d", strings.TrimPrefix(short, "@:"), tens(g.pttl(key))))
		case short == "redisson_lock_queue:@":
			rest = append(rest, g.queue(key))
		case short == "redisson_lock_timeout:@":
			require.Contains(g, keys, g.long("redisson_lock_queue:@"), "only waiters have deadlines")
		case short == "redisson_unlock_latch:@:waiters" && slices.Contains(keys, g.long("redisson_lock_queue:@")):
			// see queue
		case short == "redisson_unlock_latch:@:waiters":
			rest = append(rest, fmt.Sprintf("line %v", g.line(key)))
		case short != "redisson_lock_token:@":
			rest = append(rest, short)
		}
	}
	slices.Sort(rest)
	return strings.Join(slices.Concat([]string{lock}, rest), ", ")
}

func (g *golden) queue(key string) string {
	ctx := context.Background()
	deadlines, dated := g.long("redisson_lock_timeout:@"), int64(0)
	waiters := g.rdb.LRange(ctx, key, 0, -1).Val()
	for i, waiter := range waiters {
		deadline, err := g.rdb.ZScore(ctx, deadlines, waiter).Result()
		waiters[i] = g.short(waiter) + " none"
		if err == nil {
			waiters[i] = fmt.Sprintf("%s%s %d", g.short(waiter), g.seat(waiter), tens(int64(deadline)-g.now()))
			dated++
		}
	}
	for seat := range g.rdb.HGetAll(ctx, g.long("redisson_unlock_latch:@:waiters")).Val() {
		require.Contains(g, g.rdb.LRange(ctx, key, 0, -1).Val(), seat, "only waiters have seats")
	}
	require.Equal(g, dated, g.rdb.ZCard(ctx, deadlines).Val(), "only waiters have deadlines")
	return fmt.Sprint(waiters)
}

func (g *golden) now() int64 { return g.rdb.Time(context.Background()).Val().UnixMilli() }

func (g *golden) pttl(key string) int64 {
	return g.rdb.PTTL(context.Background(), key).Val().Milliseconds()
}

// tens rounds a remaining time up to tens of seconds. It returns zero for a time that is over or has no end.
func tens(ms int64) int64 { return max(ms+9999, 0) / 10000 * 10000 }

// long expands the abbreviations of a line.
func (g *golden) long(s string) string {
	return strings.NewReplacer("$", g.name, "@", g.tag, "u:", g.client.ID()+":", "j:", testkit.Stranger[:37],
		"#", ":rwlock_timeout:").Replace(s)
}

// short is the reverse of long.
func (g *golden) short(s string) string {
	return strings.NewReplacer(g.tag, "@", g.client.ID(), "u", testkit.Stranger[:36], "j", ":rwlock_timeout:", "#").Replace(s)
}
