package wire_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// state is what Redis has.
type state struct {
	holder  string // empty means none; readers hold it together
	waiters []string
	offered bool
}

// java takes or releases the lock as Redisson does.
func (w *world) java(before state) {
	ctx := context.Background()
	switch before.holder {
	case "":
		w.say("java locks")
		fields := []any{testkit.Stranger, 1}
		if w.rw() {
			fields = []any{testkit.Stranger + ":write", 1, "mode", "write"}
		}
		require.NoError(w, w.rdb.HSet(ctx, w.name, fields...).Err())
		require.NoError(w, w.rdb.PExpire(ctx, w.name, time.Minute).Err())
	case "java":
		w.say("java unlocks")
		require.NoError(w, w.rdb.Del(ctx, w.name).Err())
		w.rdb.Publish(ctx, w.about(w.sort.plain).names.Base(), w.sort.free[0])
	}
}

// connect cuts a client off, or connects it, or adds or removes one of the others.
func (w *world) connect() {
	client := string(rune('A' + w.random.IntN(6)))
	w.say("connect %s", client)
	switch sub := w.subs[client]; {
	case client == "F" && len(w.others) > 0 && w.random.IntN(2) == 0:
		require.NoError(w, w.others[0].Unsubscribe(context.Background()))
		w.heardEnd(w.others[0])
		w.others = w.others[1:]
	case client == "F":
		w.others = append(w.others, w.line.others(1)...)
	case sub == nil:
		w.subs[client] = w.listen(client)
	default:
		require.NoError(w, sub.Unsubscribe(context.Background()))
		w.heardEnd(sub)
		delete(w.subs, client)
	}
}

// heardEnd reads a subscription to its end, and checks that no grant was left.
func (w *world) heardEnd(sub *redis.PubSub) {
	for {
		m, err := sub.ReceiveTimeout(context.Background(), 5*time.Second)
		require.NoError(w, err)
		if s, ok := m.(*redis.Subscription); ok {
			require.Equal(w, "unsubscribe", s.Kind)
			require.NoError(w, sub.Close())
			return
		}
		if m, ok := wire.ParseMessage(m.(*redis.Message).Payload); ok {
			require.NotEqual(w, wire.Granted, m.Subject, "a grant that changed nothing: %v", w.log)
		}
	}
}

func (w *world) close() {
	for _, sub := range slices.Concat(slices.Collect(func(yield func(*redis.PubSub) bool) {
		for _, sub := range w.subs {
			if !yield(sub) {
				return
			}
		}
	}), w.others) {
		require.NoError(w, sub.Unsubscribe(context.Background()))
		w.heardEnd(sub)
	}
}

// aged lets all marks of waiters that were not reached get older, or a mark of the line.
func (w *world) aged(state) {
	ctx := context.Background()
	w.say("time passes")
	for _, z := range w.rdb.ZRangeWithScores(ctx, w.key(), 0, -1).Val() {
		member, _ := z.Member.(string)
		if strings.HasPrefix(member, "!") || member == "#o" || member == "#w" {
			w.age(member, 3001)
		}
	}
}

// read returns what Redis has, and checks what must always be so.
func (w *world) read() (s state) {
	ctx := context.Background()
	fields := w.rdb.HKeys(ctx, w.name).Val()
	if w.rw() && len(fields) > 0 {
		fields = slices.DeleteFunc(fields, func(f string) bool { return f == "mode" })
		require.NotEmpty(w, fields, "%v", w.log)
		if w.rdb.HGet(ctx, w.name, "mode").Val() == "read" {
			s.holder, fields = readers, nil
			require.Positive(w, w.rdb.PTTL(ctx, w.name).Val(), "%v", w.log)
		}
	}
	require.LessOrEqual(w, len(fields), 1, "%v", w.log)
	if len(fields) == 1 {
		require.Positive(w, w.rdb.PTTL(ctx, w.name).Val(), "%v", w.log)
		s.holder = w.who(fields[0])
		require.False(w, w.over[s.holder], "%s is over: %v", s.holder, w.log)
	}
	for _, member := range w.rdb.ZRange(ctx, w.key(), 0, -1).Val() {
		switch {
		case member == "#o":
			s.offered = true
		case !strings.HasPrefix(member, "#") && !strings.HasPrefix(member, "!"):
			field, standing, _ := strings.Cut(member, "|")
			who := w.who(field)
			require.Equal(w, strings.HasSuffix(standing, "|t"), strings.HasPrefix(who, "f"), "%v", w.log)
			require.False(w, w.over[who], "%s is over, and in the line: %v", who, w.log)
			require.NotEqual(w, s.holder, who, "%v", w.log)
			s.waiters = append(s.waiters, who)
		}
	}
	if w.rdb.Exists(ctx, w.key()).Val() == 1 {
		require.NotEmpty(w, s.waiters, "nothing but marks is left: %v", w.log)
		require.Positive(w, w.rdb.PTTL(ctx, w.key()).Val(), "%v", w.log)
	}
	return s
}

// who returns the short form of a field.
func (w *world) who(field string) string {
	field = strings.TrimSuffix(field, ":write")
	if field == testkit.Stranger {
		return "java"
	}
	id, number, _ := strings.Cut(field, ":")
	who := id[len(id)-1:] + number
	if slices.Contains(w.alive, "f"+who) || w.over["f"+who] {
		return "f" + who
	}
	return who
}

// check checks that a new holder knows that it has the lock.
func (w *world) check() {
	before, after, granted := w.before, w.read(), w.granted
	w.before, w.granted = after, ""
	if after.holder == before.holder || after.holder == "" || after.holder == granted {
		return
	}
	who := after.holder
	require.Contains(w, before.waiters, who, "%v", w.log)
	sub := w.subs[strings.TrimPrefix(who, "f")[:1]]
	require.NotNil(w, sub, "%s was not reached: %v", who, w.log)
	for {
		m, err := sub.ReceiveTimeout(context.Background(), 5*time.Second)
		require.NoError(w, err, "%v", w.log)
		got, ok := wire.ParseMessage(m.(*redis.Message).Payload)
		require.True(w, ok, "%v", w.log)
		if got.Subject != wire.Granted {
			continue
		}
		number, err := strconv.ParseInt(strings.TrimPrefix(who, "f")[1:], 10, 64)
		require.NoError(w, err)
		require.Equal(w, number, got.Number, "%v", w.log)
		require.Equal(w, term, got.Term)
		w.draws(who, got.Token)
		break
	}
	for _, ahead := range before.waiters[:slices.Index(before.waiters, who)] {
		w.notReached(who, ahead)
	}
}
