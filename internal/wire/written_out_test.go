package wire_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// twins are two servers in virtual time that get the same calls. One runs the scripts without what is written out.
type twins struct {
	*testing.T
	random  *rand.Rand
	scripts map[any]variants
	reached map[string]int // how often each return was
	now     time.Time
	servers [2]*simredis.Server
	heard   [2][]string
	subs    map[string][2]*simredis.Subscriber
	log     []string

	steps  int // which it takes: the last ones disturb the line
	number int64
	past   []wire.Call
	terms  map[string]time.Duration // with which a holder stood in the line
	known  []*wire.Holder
}

func newTwins(t *testing.T, scripts map[any]variants, reached map[string]int, random *rand.Rand) *twins {
	t.Helper()
	w := &twins{
		T: t, random: random, scripts: scripts, reached: reached, now: time.Unix(1_700_000_000, 0), subs: map[string][2]*simredis.Subscriber{},
		terms: map[string]time.Duration{},
	}
	for i := range w.servers {
		w.servers[i] = simredis.New(func() time.Time { return w.now })
	}
	return w
}

func (w *twins) one(n int) bool { return w.random.IntN(n) == 0 }

// do runs a command on both.
func (w *twins) do(args ...string) {
	for _, s := range w.servers {
		s.Do(args...)
	}
}

// run runs a call on both, and compares what they reply, what they say, and what they have then.
func (w *twins) run(c wire.Call) {
	w.Helper()
	c.Args.Publish = []wire.Publish{
		wire.PublishPlain, wire.PublishPlain, wire.PublishPlain, wire.PublishPlain, wire.PublishSharded, wire.PublishSharded,
	}[w.random.IntN(6)]
	args := simredis.Command(&c, true)
	w.log = append(w.log, fmt.Sprintf("%v %q", w.now.Sub(time.Unix(1_700_000_000, 0)), args[2:]))
	var replies [2]any
	var states [2][]string
	texts := w.scripts[c.Script.Digest]
	for i, text := range []string{texts.general, texts.counted} {
		w.heard[i] = nil
		args[1] = text
		replies[i] = w.servers[i].Do(args...)
		if err, failed := replies[i].(simredis.Err); failed {
			replies[i], _, _ = strings.Cut(string(err), " script:") // the digest and the line follow
		}
		states[i] = w.state(w.servers[i])
	}
	said := func() string { return strings.Join(w.log[max(0, len(w.log)-40):], "\n") }
	require.Equal(w, replies[0], replies[1], "%s", said())
	require.Equal(w, w.heard[0], w.heard[1], "%s", said())
	require.Equal(w, states[0], states[1], "%s", said())
	fields, _ := w.servers[1].Do("HKEYS", counts).([]any)
	for _, field := range fields {
		w.reached[fmt.Sprint(field)]++
	}
	w.do("DEL", counts)
	w.past = append(w.past, c)
}

// state returns what a server has.
func (w *twins) state(s *simredis.Server) (all []string) {
	for _, key := range s.Keys() {
		var value any
		switch kind := s.Do("TYPE", key); {
		case key == counts:
			continue
		case kind == simredis.Status("hash"):
			fields, _ := s.Do("HGETALL", key).([]any)
			pairs := make([]string, 0, len(fields)/2)
			for i := 0; i < len(fields); i += 2 {
				pairs = append(pairs, fmt.Sprint(fields[i:i+2]))
			}
			slices.Sort(pairs)
			value = pairs
		case kind == simredis.Status("zset"):
			value = s.Do("ZRANGE", key, "0", "-1", "WITHSCORES")
		default:
			value = s.Do("GET", key)
		}
		all = append(all, fmt.Sprintf("%q %v %q", key, s.Do("PTTL", key), value))
	}
	return all
}

// listen subscribes somebody to a channel, or ends that.
func (w *twins) listen(who, channel string) {
	key := who + " " + channel
	subs, on := w.subs[key]
	if on {
		delete(w.subs, key)
	} else {
		for i := range subs {
			subs[i] = &simredis.Subscriber{Send: func(channel, payload string) {
				w.heard[i] = append(w.heard[i], fmt.Sprint(who, " hears ", channel, " ", payload))
			}}
		}
		w.subs[key] = subs
	}
	w.log = append(w.log, fmt.Sprint(key, " ", !on))
	for i, s := range w.servers {
		for _, sharded := range []bool{false, true} {
			if on {
				s.Unsubscribe(channel, subs[i], sharded)
			} else {
				s.Subscribe(channel, subs[i], sharded)
			}
		}
	}
}

// pass lets time pass: mostly little, sometimes as much as a wait or a lease.
func (w *twins) pass() {
	w.now = w.now.Add(time.Duration(w.random.IntN(3000)) * time.Microsecond)
	if w.one(12) {
		w.now = w.now.Add([]time.Duration{20 * time.Millisecond, 900 * time.Millisecond, 2 * time.Second, 3100 * time.Millisecond, 11 * time.Second}[w.random.IntN(5)])
	}
}

// holder returns a new holder of a client.
func (w *twins) holder(k *wire.Kind, n *wire.Names, client string) *wire.Holder {
	w.number++
	h := wire.NewHolder(k, n, clientID(client), w.number)
	w.known = append(w.known, &h)
	w.known = w.known[max(0, len(w.known)-40):]
	return &h
}

// TestWhatIsWrittenOutDoesTheSame runs the scripts beside themselves without what is written out, in any order.
func TestWhatIsWrittenOutDoesTheSame(t *testing.T) {
	t.Parallel()
	scripts, returns := writtenOut(t)
	require.NotEmpty(t, returns)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	reached := map[string]int{}
	steps := []func(*twins, string){
		(*twins).stepOfLocks, (*twins).stepOfLocks, (*twins).stepOfWriteLocks,
	}
	for round := range 25 {
		w := newTwins(t, scripts, reached, rand.New(rand.NewPCG(seed, uint64(round))))
		w.steps = 38 + round%3
		if round%2 == 0 {
			w.steps = 36
		}
		for range 300 {
			w.pass()
			steps[round%len(steps)](w, []string{"x", "{x}"}[round%2])
		}
	}
	t.Log(reached)
	require.Subset(t, slices.Collect(maps.Keys(reached)), returns, "a return that no call reached")
}

func (w *twins) stepOfLocks(name string) {
	w.stepOfLine(name, wire.Plain, wire.Plain, wire.Plain, wire.Fenced, wire.Spin)
}

func (w *twins) stepOfWriteLocks(name string) {
	w.stepOfLine(name, wire.Write, wire.Write, wire.FencedWrite)
}

// stepOfLine does something with a lock of one of these kinds.
func (w *twins) stepOfLine(name string, kinds ...*wire.Kind) {
	k, client := kinds[w.random.IntN(len(kinds))], string(rune('A'+w.random.IntN(5)))
	n := wire.NewNames(k, name, clientID(client))
	if len(w.log) == 0 {
		for _, client := range "ABCDE" {
			w.listen(string(client), wire.NewNames(k, name, clientID(string(client))).Own())
		}
	}
	switch w.random.IntN(w.steps) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
		terms := []time.Duration{wire.FirstTerm, wire.FirstTerm, wire.FirstTerm, wire.FirstTerm, time.Second, 20 * time.Second, wire.Woken, 0}
		h, term := w.holder(k, n, client), terms[w.random.IntN(len(terms))]
		w.terms[h.Field.(string)] = term
		c := h.Stand(n, []time.Duration{time.Second, 3 * time.Second, 30 * time.Second}[w.random.IntN(3)], term)
		if w.one(10) {
			c.Args.Millis = math.MaxInt64 // Redis refuses it
		}
		w.run(c)
	case 12, 13:
		if len(w.past) > 0 {
			w.run(w.past[len(w.past)-1-w.random.IntN(min(len(w.past), 10))])
		}
	case 36:
		if w.one(2) {
			w.do("HSET", name, "0f0e0d0c-0b0a-4908-8706-050403020100:1", "1")
			break
		}
		fallthrough
	case 37:
		w.do("DEL", name)
		if w.one(3) {
			w.do("FLUSHALL")
		}
	case 38:
		w.listen(client, n.Own())
	case 39:
		switch who := fmt.Sprint(client, " as one of the others"); {
		case w.one(2) || w.listens(who, n.Base()):
			w.listen(who, n.Base())
		default:
			w.listen(client, n.Base())
			w.listen(client, n.Twin())
		}
	default:
		w.give(k, n, name)
	}
}

// listens reports whether somebody is subscribed to a channel.
func (w *twins) listens(who, channel string) bool {
	_, on := w.subs[who+" "+channel]
	return on
}

// give releases the lock, if one of the known holders has it, or whatever else is known.
func (w *twins) give(k *wire.Kind, n *wire.Names, name string) {
	if len(w.known) == 0 {
		return
	}
	h := w.known[len(w.known)-1-w.random.IntN(min(len(w.known), 20))]
	for _, other := range w.known {
		if w.servers[0].Do("HEXISTS", name, other.Field.(string)) == int64(1) && !w.one(5) {
			h = other
		}
	}
	field, _ := h.Field.(string)
	client := wire.Client(field)[len(wire.Client(field))-1:]
	var tombstone time.Duration
	if w.one(6) {
		tombstone = time.Minute
	}
	term := w.terms[field]
	if w.one(4) {
		term = 0
	}
	var next *wire.Next
	if w.one(3) {
		next = &wire.Next{Holder: w.holder(k, n, client), Lease: time.Minute, Term: wire.FirstTerm}
		if w.one(4) {
			next.Holder = w.known[w.random.IntN(len(w.known))]
		}
		w.terms[next.Holder.Field.(string)] = next.Term
	}
	w.run(h.Give(n, tombstone, term, next))
}
