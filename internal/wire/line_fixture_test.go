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

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// line is one lock with its line. Its clients are A, B, C and so on.
type line struct {
	*testing.T
	rdb  redis.UniversalClient
	name string
	sort sort
}

// sort is what the lock of a line is: its kinds, and what a release announces to others.
type sort struct {
	plain, fenced *wire.Kind
	free          []string
}

var (
	plainSort = sort{wire.Plain, wire.Fenced, []string{"0"}}
	writeSort = sort{wire.Write, wire.FencedWrite, []string{"1", "0"}}
)

// onBothLines runs a test on the embedded server and on a real one, for plain locks and for write locks.
func onBothLines(t *testing.T, test func(*line)) {
	t.Helper()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		onBothSorts(t, func(t *testing.T, sort sort) {
			t.Helper()
			test(&line{t, rdb, testkit.NewName(), sort})
		})
	})
}

func onBothSorts(t *testing.T, test func(*testing.T, sort)) {
	t.Helper()
	for name, sort := range map[string]sort{"plain": plainSort, "write": writeSort} {
		t.Run(name, func(t *testing.T) { test(t, sort) })
	}
}

// onLine runs a test on a real server.
func onLine(t *testing.T, sort sort) *line {
	t.Helper()
	return &line{t, redistest.Start(t).Client(t), testkit.NewName(), sort}
}

func clientID(client string) string { return "00000000-0000-4000-8000-00000000000" + client }

func (l *line) names(kind *wire.Kind, client string) *wire.Names {
	return wire.NewNames(kind, l.name, clientID(client))
}

// holder returns the call's holder and names. who is a client and a number, as in B7, and before them f for a fenced lock, or r
// for a reader.
func (l *line) holder(who string) (wire.Holder, *wire.Names, *wire.Kind) {
	kind := l.sort.plain
	if rest, fenced := strings.CutPrefix(who, "f"); fenced {
		kind, who = l.sort.fenced, rest
	} else if rest, reads := strings.CutPrefix(who, "r"); reads {
		kind, who = wire.Read, rest
	}
	number, err := strconv.ParseInt(who[1:], 10, 64)
	require.NoError(l, err)
	n := l.names(kind, who[:1])
	return wire.NewHolder(kind, n, clientID(who[:1]), number), n, kind
}

const term = 20 * time.Second

// standCall is the call of a waiter, or of an attempt that does not wait if the term is zero.
func (l *line) standCall(who string, term time.Duration) wire.Call {
	h, n, _ := l.holder(who)
	return h.Stand(n, time.Minute, term)
}

func (l *line) stand(who string) wire.Reply {
	l.Helper()
	l.wait(0)
	return l.run(l.standCall(who, term))
}

// wait waits until the server's clock has moved by more than d. The clock of the embedded server moves in steps, and whoever
// comes within one of them comes at the same time.
func (l *line) wait(d time.Duration) {
	l.Helper()
	begin := l.rdb.Time(context.Background()).Val()
	redistest.Eventually(l, "the clock moves", func() bool { return l.rdb.Time(context.Background()).Val().Sub(begin) > d })
}

// try is an attempt that does not wait.
func (l *line) try(who string) wire.Reply {
	l.Helper()
	return l.run(l.standCall(who, 0))
}

func (l *line) run(c wire.Call) wire.Reply {
	l.Helper()
	r, err := testkit.RunCall(l.rdb, c)
	require.NoError(l, err)
	return r
}

func (l *line) giveCall(who string, tombstone time.Duration, next string) wire.Call {
	h, n, _ := l.holder(who)
	if next == "" {
		return h.Give(n, tombstone, term, nil)
	}
	behind, _, _ := l.holder(next)
	return h.Give(n, tombstone, term, &wire.Next{Holder: &behind, Lease: time.Minute, Term: term})
}

// give releases, or leaves. next may be empty.
func (l *line) give(who, next string) wire.Given {
	l.Helper()
	l.wait(0)
	r := l.run(l.giveCall(who, 0, next))
	return r.Gave()
}

// listen subscribes a client to its own channel, and returns what arrives there.
func (l *line) listen(client string) *redis.PubSub {
	return l.subscribe(l.names(l.sort.plain, client).Own())
}

func (l *line) subscribe(channels ...string) *redis.PubSub {
	l.Helper()
	sub := l.rdb.Subscribe(context.Background(), channels...)
	l.Cleanup(func() { _ = sub.Close() })
	for range channels {
		_, err := sub.Receive(context.Background())
		require.NoError(l, err)
	}
	return sub
}

// hears checks what arrives next. A grant is written without its times.
func (l *line) hears(sub *redis.PubSub, want string) {
	l.Helper()
	m, err := sub.ReceiveTimeout(context.Background(), 5*time.Second)
	require.NoError(l, err, want)
	got := m.(*redis.Message).Payload
	if g, ok := wire.ParseMessage(got); ok && g.Subject == wire.Granted {
		got = fmt.Sprintf("granted %d", g.Number)
	}
	require.Equal(l, want, got)
}

func (l *line) hearsNothing(sub *redis.PubSub) {
	l.Helper()
	_, err := sub.ReceiveTimeout(context.Background(), 20*time.Millisecond)
	require.Error(l, err)
}

// holds checks who has the lock. Empty means nobody.
func (l *line) holds(who string) {
	l.Helper()
	fields := testkit.Holders(l, l.rdb, l.name)
	if who == "" {
		require.Empty(l, fields)
		return
	}
	h, _, _ := l.holder(who)
	want := map[string]string{h.Field.(string): "1"}
	if l.sort.plain == wire.Write {
		want["mode"] = "write"
	}
	require.Equal(l, want, fields)
	require.Positive(l, l.rdb.PTTL(context.Background(), l.name).Val(), "a lock has a lease")
}

// makeHolder makes a holder without a lease.
func (l *line) makeHolder(who string) error {
	h, _, _ := l.holder(who)
	fields := []any{h.Field, 1}
	if l.sort.plain == wire.Write {
		fields = append(fields, "mode", "write")
	}
	return l.rdb.HSet(context.Background(), l.name, fields...).Err()
}

func (l *line) key() string {
	key, _ := l.names(l.sort.plain, "A").LineKeys[1].(string)
	return key
}

// member returns the member of the line that stands for a waiter.
func (l *line) member(who string) string {
	h, _, kind := l.holder(who)
	member := fmt.Sprintf("%s|%d", h.Field, term.Milliseconds())
	if kind.Tokens {
		member += "|t"
	}
	return member
}

// stands checks which members the line has, in their order: waiters and marks, as in "B7 #w !C8".
func (l *line) stands(want string) {
	l.Helper()
	members := l.rdb.ZRange(context.Background(), l.key(), 0, -1).Val()
	for i, m := range members {
		mark := ""
		if strings.HasPrefix(m, "!") {
			mark, m = "!", m[1:]
		}
		if uuid, rest, ok := strings.Cut(m, ":"); ok {
			number, standing, _ := strings.Cut(strings.Replace(rest, ":write", "", 1), "|")
			m = uuid[len(uuid)-1:] + number
			if strings.HasSuffix(standing, "|t") {
				m = "f" + m
			}
		}
		members[i] = mark + m
	}
	require.Equal(l, want, strings.Join(members, " "))
}

// age makes a mark of the line older, in units of its score.
func (l *line) age(mark string, units float64) {
	l.Helper()
	l.ageIn(l.key(), mark, units)
}

func (l *line) ageIn(key, mark string, units float64) {
	l.Helper()
	ctx := context.Background()
	score, err := l.rdb.ZScore(ctx, key, mark).Result()
	require.NoError(l, err)
	require.NoError(l, l.rdb.ZAdd(ctx, key, redis.Z{Score: score - units, Member: mark}).Err())
}

// hearsFree checks that the others are told of a free lock.
func (l *line) hearsFree(sub *redis.PubSub) {
	l.Helper()
	for _, message := range l.sort.free {
		l.hears(sub, message)
	}
}

// others subscribes others, which know of no line.
func (l *line) others(n int) (subs []*redis.PubSub) {
	l.Helper()
	for range n {
		subs = append(subs, l.subscribe(l.names(l.sort.plain, "A").Base()))
	}
	return subs
}

func (l *line) tombstoned(who string) int64 {
	l.Helper()
	require.NoError(l, l.rdb.Del(context.Background(), l.name).Err())
	r := l.stand(who)
	require.Empty(l, r.List)
	return r.N
}

// kindOf makes the calls that are about a lock and no holder.
type kindOf struct {
	kind  *wire.Kind
	names *wire.Names
}

func (l *line) about(kind *wire.Kind) kindOf { return kindOf{kind, l.names(kind, "A")} }

func (k kindOf) pump() wire.Call { return k.kind.PumpCall(k.names, "") }

func (k kindOf) force() wire.Call { return k.kind.ForceCall(k.names, true) }

func evalIn(pipe redis.Pipeliner, c wire.Call) *redis.Cmd {
	c.Args.Publish = wire.PublishPlain
	keys := make([]string, len(c.Keys))
	for i, key := range c.Keys {
		keys[i], _ = key.(string)
	}
	return pipe.Eval(context.Background(), c.Script.Source, keys, c.AppendArgv(nil)...)
}
