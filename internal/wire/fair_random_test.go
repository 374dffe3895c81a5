package wire_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestFairScriptsInAnyOrder runs the scripts of a fair lock for several clients in a random order, late and repeatedly. The
// waiters of a client have few seats, one after the other, perhaps before the last one's leaving arrives. Some clients cannot be
// reached. Redisson's waiters come in between.
func TestFairScriptsInAnyOrder(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rdb := redistest.Start(t).Client(t)
	for round := range uint64(15) {
		w := &hall{
			T: t, rdb: rdb, random: rand.New(rand.NewPCG(seed, round)), name: testkit.NewName(),
			subs: make(map[string]*redis.PubSub), over: make(map[string]bool), seated: make(map[string]*guest),
		}
		for range 250 {
			w.step()
		}
		for _, sub := range w.subs {
			require.NoError(t, sub.Close())
		}
	}
}

// hall is one fair lock and its clients.
type hall struct {
	*testing.T
	rdb    *redis.Client
	random *rand.Rand
	name   string
	log    []string

	subs   map[string]*redis.PubSub // of the clients that can be reached
	number int64
	guests []*guest          // those that hold the lock or wait for it
	seated map[string]*guest // the latest one on each seat
	over   map[string]bool   // fields of those that have left
	late   []wire.Call       // may be repeated at any time
	token  uint64

	before hallState
}

// guest is a waiter, or the holder.
type guest struct {
	client, field, seat string
	kind                *wire.Kind
	holder              wire.Holder
	names               *wire.Names
	on                  *wire.Seat
	stands              bool // in the queue, as far as it knows
}

// hallState is what Redis has.
type hallState struct {
	holder string
	queue  []string // seats, and Redisson's waiters
	passed []string // those of them that were not reached the last time
}

const seatsOfClient = 3

func (w *hall) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *hall) step() {
	w.before = w.read()
	switch w.random.IntN(16) {
	case 0, 1, 2, 3:
		w.ask(w.newGuest())
	case 4, 5:
		if len(w.guests) > 0 {
			w.ask(w.guests[w.random.IntN(len(w.guests))])
		}
	case 6, 7, 8, 9:
		for _, g := range w.guests {
			if g.field == w.before.holder {
				w.leave(g)
				break
			}
		}
	case 10:
		if len(w.guests) > 0 {
			w.leave(w.guests[w.random.IntN(len(w.guests))])
		}
	case 11:
		if len(w.late) > 0 {
			c := w.late[w.random.IntN(len(w.late))]
			w.say("again %v", c.Args)
			w.settled(w.run(c), c.Args.Holder.(string), nil)
		}
	case 12:
		w.say("force")
		n := wire.NewNames(wire.Fair, w.name, clientID("A"))
		w.settled(w.run(wire.Fair.ForceCall(n, false)), "", nil)
	case 13:
		w.say("expires")
		require.NoError(w, w.rdb.Del(w.Context(), w.name).Err())
	case 14:
		w.connect()
	case 15:
		w.others()
	}
}

func (w *hall) newGuest() *guest {
	w.number++
	client := string(rune('A' + w.random.IntN(4)))
	g := &guest{client: client, kind: wire.Fair}
	if w.random.IntN(3) == 0 {
		g.kind = wire.FencedFair
	}
	g.names = wire.NewNames(g.kind, w.name, clientID(client))
	g.holder = wire.NewHolder(g.kind, g.names, clientID(client), w.number)
	g.field, _ = g.holder.Field.(string)
	seat := 1 + w.random.IntN(seatsOfClient)
	g.on = wire.NewSeat(g.names, clientID(client), seat)
	g.seat = fmt.Sprintf("%s:-%d", clientID(client), seat)
	if last := w.seated[g.seat]; last != nil && slices.Contains(w.guests, last) { // it leaves, but that comes late
		w.guests = slices.DeleteFunc(w.guests, func(other *guest) bool { return other == last })
		if last.field == w.before.holder {
			w.say("%s releases", last.field)
			w.settled(w.run(last.holder.Leave(last.names, time.Minute, last.on)), last.field, nil)
			w.before = w.read()
		} else {
			w.late = append(w.late, last.holder.Leave(last.names, time.Minute, last.on))
		}
	}
	w.seated[g.seat] = g
	w.guests = append(w.guests, g)
	return g
}

func (w *hall) run(c wire.Call) wire.Reply {
	w.Helper()
	r, err := testkit.RunCall(w.rdb, c)
	require.NoError(w, err, "%v", w.log)
	return r
}

func (w *hall) ask(g *guest) {
	c := g.holder.Queue(g.names, time.Minute, time.Minute, term, g.on, g.stands)
	w.say("ask %s on %s, %s", g.field, g.seat, g.kind.Name())
	r := w.run(c)
	w.settled(r, g.field, g)
	switch {
	case !r.Acquired():
		place, ok := r.Position()
		require.True(w, ok && place.Ahead == 0, "%v", w.log)
		g.stands = true
		require.True(w, w.read().holder == g.field || slices.Contains(w.read().queue, g.seat), "%v", w.log)
	case g.kind.Tokens && w.before.holder == "":
		require.Greater(w, uint64(r.N), w.token, "%v", w.log)
		w.token = uint64(r.N)
	}
}

// leave releases or leaves. If an earlier command is in doubt, it may come later.
func (w *hall) leave(g *guest) {
	w.guests = slices.DeleteFunc(w.guests, func(other *guest) bool { return other == g })
	tombstone := time.Duration(0)
	if w.random.IntN(2) == 0 {
		tombstone = time.Minute
		w.late = append(w.late, g.holder.Queue(g.names, time.Minute, time.Minute, term, g.on, g.stands))
	}
	c := g.holder.Leave(g.names, tombstone, g.on)
	w.late = append(w.late, c)
	w.say("leave %s, %v", g.field, tombstone)
	r := w.run(c)
	w.over[g.field] = true
	require.Equal(w, w.before.holder == g.field, r.N == 1, "%v", w.log)
	w.settled(r, g.field, nil)
}

// settled checks what a script has changed. asker is the one that asked.
func (w *hall) settled(r wire.Reply, field string, asker *guest) {
	w.Helper()
	after := w.read()
	here, told := r.GaveHere()
	if told {
		client, _, _ := strings.Cut(field, ":")
		require.Equal(w, fmt.Sprintf("%s:%d", client, here.Number), after.holder, "%v", w.log)
		require.Equal(w, term, here.Term)
	}
	given := after.holder != w.before.holder && after.holder != ""
	i := -1
	switch {
	case !given:
	case asker != nil && after.holder == asker.field && r.Acquired():
		i = slices.Index(w.before.queue, asker.seat)
		if i < 0 {
			i = len(w.before.queue)
		}
	default:
		i = slices.IndexFunc(w.before.queue, func(seat string) bool { return w.seated[seat] != nil && w.seated[seat].field == after.holder })
		if i < 0 && slices.ContainsFunc(w.late, func(c wire.Call) bool { return c.Args.Holder == after.holder }) {
			return // one that was late, and has left here but not in Redis
		}
		require.GreaterOrEqual(w, i, 0, "%s has the lock: %v", after.holder, w.log)
		g := w.seated[w.before.queue[i]]
		if !told {
			here = w.told(g)
		}
		if g.kind.Tokens {
			require.Greater(w, here.Token, w.token, "%v", w.log)
			w.token = here.Token
		} else {
			require.Zero(w, here.Token, "%v", w.log)
		}
	}
	for _, ahead := range w.before.queue[:max(i, 0)] {
		require.True(w, w.passes(ahead), "%s overtook %s: %v", after.holder, ahead, w.log)
	}
	// Nobody else loses the place or overtakes.
	last := -1
	for _, seat := range w.before.queue {
		at, g := slices.Index(after.queue, seat), w.seated[seat]
		switch {
		case g == nil || g == asker || g.field == field || slices.Contains(w.before.passed, seat) || !slices.Contains(w.guests, g):
		case at >= 0:
			require.Greater(w, at, last, "%s was overtaken: %v", seat, w.log)
			last = at
		default:
			require.Equal(w, after.holder, g.field, "%s has lost its place: %v", seat, w.log)
		}
	}
}

// passes reports whether a waiter may be passed over: one that cannot be reached, or could not be at last, or one that has left
// and whose seat has a new waiter.
func (w *hall) passes(seat string) bool {
	g := w.seated[seat]
	return g == nil || !g.stands || w.subs[g.client] == nil || slices.Contains(w.before.passed, seat) || !slices.Contains(w.guests, g)
}

// told returns the message by which a waiter learns that it has the lock.
func (w *hall) told(g *guest) wire.Message {
	w.Helper()
	require.NotNil(w, w.subs[g.client], "%s was not reached: %v", g.field, w.log)
	for {
		m, err := w.subs[g.client].ReceiveTimeout(context.Background(), 5*time.Second)
		require.NoError(w, err, "%s is not told: %v", g.field, w.log)
		message, ok := m.(*redis.Message)
		if !ok || message.Channel != g.on.Channel {
			continue
		}
		if got, ok := wire.ParseMessage(message.Payload); ok && got.Subject == wire.Granted && got.Number == g.holder.Number {
			require.Equal(w, term, got.Term)
			return got
		}
	}
}

func (w *hall) connect() {
	client := string(rune('A' + w.random.IntN(4)))
	w.say("connect %s", client)
	if sub := w.subs[client]; sub != nil {
		delete(w.subs, client)
		require.NoError(w, sub.Close())
		redistest.Eventually(w, "Redis has noticed", func() bool {
			return len(w.rdb.PubSubChannels(w.Context(), "*"+w.name+"*"+clientID(client)+"*").Val()) == 0
		})
		return
	}
	n := wire.NewNames(wire.Fair, w.name, clientID(client))
	var channels []string
	for seat := range seatsOfClient {
		channels = append(channels, wire.NewSeat(n, clientID(client), seat+1).Channel)
	}
	sub := w.rdb.Subscribe(w.Context(), channels...)
	for range channels {
		require.NoError(w, testkit.Second(sub.Receive(w.Context())))
	}
	w.subs[client] = sub
}

// others has a waiter of Redisson come or go, or lets 3 s pass.
func (w *hall) others() {
	ctx, keys := w.Context(), wire.NewNames(wire.Fair, w.name, "").Keys
	queue, deadlines := keys[1].(string), keys[2].(string)
	switch w.random.IntN(3) {
	case 0:
		w.number++
		java := fmt.Sprintf("java:%d", w.number)
		w.say("%s queues", java)
		w.rdb.RPush(ctx, queue, java)
		w.rdb.ZAdd(ctx, deadlines, redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMilli()), Member: java})
	case 1:
		for _, waiter := range w.before.queue {
			if strings.HasPrefix(waiter, "java") {
				w.say("%s leaves", waiter)
				w.rdb.LRem(ctx, queue, 1, waiter)
				w.rdb.ZRem(ctx, deadlines, waiter)
				return
			}
		}
	case 2:
		w.say("3 s pass")
		for _, waiter := range w.before.queue {
			w.rdb.ZIncrBy(ctx, deadlines, -3001, waiter)
		}
	}
}

// read returns what Redis has, and checks what must always be so.
func (w *hall) read() (s hallState) {
	w.Helper()
	ctx, keys := w.Context(), wire.NewNames(wire.Fair, w.name, "").Keys
	fields := w.rdb.HKeys(ctx, w.name).Val()
	require.LessOrEqual(w, len(fields), 1, "%v", w.log)
	if len(fields) == 1 {
		s.holder = fields[0]
		require.Positive(w, w.rdb.PTTL(ctx, w.name).Val(), "%v", w.log)
		require.False(w, w.over[s.holder], "%s is over: %v", s.holder, w.log)
	}
	s.queue = w.rdb.LRange(ctx, keys[1].(string), 0, -1).Val()
	for seat, entry := range w.rdb.HGetAll(ctx, keys[3].(string)).Val() {
		require.Contains(w, s.queue, seat, "only waiters have seats: %v", w.log)
		number, _, _ := strings.Cut(entry, "|")
		client, _, _ := strings.Cut(seat, ":")
		require.False(w, w.over[client+":"+number], "%s:%s is over, and queues: %v", client, number, w.log)
		require.NotEqual(w, s.holder, client+":"+number, "%v", w.log)
	}
	for _, z := range w.rdb.ZRangeWithScores(ctx, keys[2].(string), 0, -1).Val() {
		waiter, _ := z.Member.(string)
		require.Contains(w, s.queue, waiter, "only waiters have deadlines: %v", w.log)
		if state := z.Score - float64(int64(z.Score)) - mark(waiter); state != 0 {
			s.passed = append(s.passed, waiter)
		}
	}
	return s
}
