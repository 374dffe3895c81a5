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

	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestLineScriptsInAnyOrder runs the scripts of the line for several clients in a random order, late and repeatedly. Some
// clients cannot be reached, and Redisson's clients come in between.
func TestLineScriptsInAnyOrder(t *testing.T) {
	t.Parallel()
	onBothSorts(t, testLineScriptsInAnyOrder)
}

func testLineScriptsInAnyOrder(t *testing.T, sort sort) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := onLine(t, sort)
	for round := range uint64(15) {
		l.name = testkit.NewName()
		w := &world{
			line: l, random: rand.New(rand.NewPCG(seed, round)), subs: map[string]*redis.PubSub{}, over: map[string]bool{},
			tombs: map[string]bool{}, stood: map[string]bool{},
		}
		for range 250 {
			w.step()
		}
		w.close()
	}
}

// world is one lock and its clients.
type world struct {
	*line
	random *rand.Rand
	log    []string

	subs   map[string]*redis.PubSub // of the clients that can be reached
	others []*redis.PubSub
	number int
	alive  []string // those that hold the lock or wait for it, as in fB7
	over   map[string]bool
	tombs  map[string]bool // have a tombstone
	stood  map[string]bool // have stood in the line
	late   []wire.Call     // may be repeated at any time
	token  uint64

	reading []string // those that read, or did before Redis lost the lock

	before  state
	granted string // by a message or by the reply of the script that ran last
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) step() {
	w.granted, w.before = "", w.read()
	before := w.before
	steps := 16
	if w.rw() {
		steps = 20
	}
	switch w.random.IntN(steps) {
	case 0, 1, 2, 3:
		w.number++
		who := fmt.Sprintf("%c%d", 'A'+w.random.IntN(5), w.number)
		if w.random.IntN(3) == 0 {
			who = "f" + who
		}
		w.alive = append(w.alive, who)
		w.ask(who, before)
	case 4:
		if who := w.pick(); who != "" {
			w.ask(who, before)
		}
	case 5, 6, 7, 8:
		if before.holder == readers {
			w.leaveReading()
			break
		}
		w.leave(before.holder, before, w.random.IntN(2) == 0)
	case 9:
		w.leave(w.pick(), before, w.random.IntN(2) == 0)
	case 10:
		if len(w.late) > 0 {
			c := w.late[w.random.IntN(len(w.late))]
			w.say("again %v", c.Args)
			if w.run(c); c.Script == wire.Plain.Line.Release || c.Script == wire.Fenced.Line.Release { // a reader never stood there
				w.passedOn(before)
			}
		}
	case 11:
		kind := w.kind()
		w.say("pump %s", kind.Name())
		r := w.run(w.about(kind).pump())
		require.True(w, r.N >= 0 || before.offered, "%v", w.log)
		w.passedOn(before)
	case 12:
		if w.random.IntN(2) == 0 {
			w.say("force")
			w.run(w.about(w.kind()).force())
			w.passedOn(before)
		} else {
			w.say("expires")
			w.rdb.Del(context.Background(), w.name)
			return
		}
	case 13:
		w.java(before)
		return
	case 14:
		w.connect()
		return
	case 15:
		w.aged(before)
		return
	case 16, 17:
		w.takeRead(before)
	case 18, 19:
		w.leaveReading()
	}
	w.check()
}

// readers is the holder that several readers are together.
const readers = "readers"

func (w *world) rw() bool { return w.sort.plain == wire.Write }

// takeRead makes an attempt to read, which never stands in the line.
func (w *world) takeRead(before state) {
	w.number++
	who := fmt.Sprintf("r%c%d", 'A'+w.random.IntN(5), w.number)
	got := w.reads(who, "", time.Minute)
	w.say("%s reads: %v", who, got)
	require.Equal(w, before.holder == "" || before.holder == readers, got, "%v", w.log)
	require.Equal(w, before.waiters, w.read().waiters, "%v", w.log)
	if got {
		w.reading, w.granted = append(w.reading, who), readers
	}
}

// leaveReading ends a read hold, or one that Redis has lost.
func (w *world) leaveReading() {
	if len(w.reading) == 0 {
		return
	}
	before := w.read()
	i := w.random.IntN(len(w.reading))
	who := w.reading[i]
	w.reading = slices.Delete(w.reading, i, i+1)
	h, _, _ := w.holder(who)
	had := w.rdb.HExists(context.Background(), w.name, h.Field.(string)).Val()
	c := w.giveCall(who, time.Duration(w.random.IntN(2))*time.Minute, "")
	w.say("%s has read", who)
	r := w.run(c)
	w.late = append(w.late, c)
	given := r.Gave()
	require.Equal(w, had, given.Freed, "%v", w.log)
	if given.What == wire.ToPublic {
		require.True(w, before.offered, "%v", w.log)
		return
	}
	if left := w.read().holder; given.What == wire.ToWaiter {
		require.NotEqual(w, readers, left, "%v", w.log)
	} else if had {
		require.Contains(w, []string{readers, ""}, left, "%v", w.log)
	}
	if had {
		before.offered = false // a reader leaves the lock to the line nevertheless
		w.passedOnBy("r", before)
	}
}

func (w *world) kind() *wire.Kind {
	if w.random.IntN(2) == 0 {
		return w.sort.fenced
	}
	return w.sort.plain
}

func (w *world) pick() string {
	if len(w.alive) == 0 {
		return ""
	}
	return w.alive[w.random.IntN(len(w.alive))]
}

// ask makes an attempt.
func (w *world) ask(who string, before state) {
	wait := term
	if !w.stood[who] && w.random.IntN(4) == 0 {
		wait = 0
	}
	c := w.standCall(who, wait)
	w.say("ask %s %v", who, wait)
	r := w.run(c)
	if !r.Acquired() {
		w.stood[who] = w.stood[who] || wait > 0
		place, ok := r.Position()
		require.True(w, ok, "%v", w.log)
		if wait > 0 && w.read().holder != who {
			require.Equal(w, w.ahead(who, before), int(place.Ahead), "%v", w.log)
		}
		return
	}
	require.Contains(w, []string{"", who}, before.holder, "%v", w.log)
	require.Equal(w, who, w.read().holder, "%v", w.log)
	if before.holder == "" {
		w.granted = who
		w.draws(who, uint64(r.N))
		for _, ahead := range before.waiters {
			if ahead == who || wait == 0 && before.offered {
				break
			}
			w.notReached(who, ahead)
		}
	}
}

// ahead returns how many stand before a waiter that has just asked. If it stood far behind already, the dead ones at the front do
// not count.
func (w *world) ahead(who string, before state) int {
	waiters := w.read().waiters
	place := slices.Index(waiters, who)
	if place <= 3 || !slices.Contains(before.waiters, who) {
		return place
	}
	dead := slices.IndexFunc(waiters[:place], w.reached)
	if dead < 0 {
		return 0
	}
	return place - dead
}

// notReached checks that a waiter was passed over with reason. A script that cannot draw tokens passes over a fenced waiter
// that it told to ask 3 s before.
func (w *world) notReached(who, ahead string) {
	w.Helper()
	require.True(w, w.over[ahead] || !w.reached(ahead) || strings.HasPrefix(ahead, "f"), "%s overtook %s: %v", who, ahead, w.log)
}

// leave releases or leaves, with or without a next holder. If an earlier command is in doubt, it may be repeated later.
func (w *world) leave(who string, before state, inDoubt bool) {
	if who == "" || who == "java" || who == readers {
		return
	}
	next, tombstone := "", time.Duration(0)
	if w.random.IntN(2) == 0 {
		w.number++
		next = fmt.Sprintf("%s%d", strings.TrimRight(who, "0123456789"), w.number)
		w.alive = append(w.alive, next)
		if w.random.IntN(8) == 0 { // it has left; the release that names it is in doubt
			w.leave(next, before, true)
			w.check()
			before = w.before
		}
	}
	if inDoubt {
		tombstone = time.Minute
		w.tombs[who] = true
		w.late = append(w.late, w.standCall(who, term)) // in doubt
	}
	w.alive = slices.DeleteFunc(w.alive, func(s string) bool { return s == who })
	w.over[who] = true
	c := w.giveCall(who, tombstone, next)
	w.say("leave %s %v next %s", who, tombstone, next)
	r := w.run(c)
	w.late = append(w.late, c)
	given := r.Gave()
	require.Equal(w, before.holder == who, given.Freed, "%v", w.log)
	after := w.read()
	switch given.What {
	case wire.ToNext:
		require.Equal(w, next, after.holder, "%v", w.log)
		require.False(w, w.over[next], "%v", w.log)
		w.granted = next
		w.draws(next, given.Token)
		for _, ahead := range before.waiters {
			w.notReached(next, ahead)
		}
	case wire.ToPublic:
		require.Empty(w, after.holder)
		require.True(w, given.Freed && given.Others > 0 || before.offered, "%v", w.log) // or it may be a repetition
	case wire.ToWaiter:
		if next != "" && given.Freed && !w.over[next] {
			require.Equal(w, next, after.waiters[len(after.waiters)-1], "%v", w.log)
			w.stood[next] = true
		}
	case wire.ToNobody:
	}
	if given.What != wire.ToPublic {
		w.passedOn(before)
	} else if next != "" && given.Freed && !w.over[next] {
		w.stood[next] = true
	}
}

// passedOn checks that a lock that was or became free is not kept from a waiter that can be reached.
func (w *world) passedOn(before state) { w.passedOnBy("", before) }

func (w *world) passedOnBy(reader string, before state) {
	after := w.read()
	if after.holder != "" || before.offered || after.offered && reader == "" {
		return
	}
	for _, waiter := range after.waiters {
		if w.reached(waiter) {
			require.True(w, strings.HasPrefix(waiter, "f"), "%s is kept waiting: %v", waiter, w.log)
			for got := ""; got != "8"; {
				m, err := w.subs[waiter[1:2]].ReceiveTimeout(context.Background(), 5*time.Second)
				require.NoError(w, err, "%v", w.log)
				got = m.(*redis.Message).Payload
			}
			return
		}
	}
}

// draws checks a new token.
func (w *world) draws(who string, token uint64) {
	if strings.HasPrefix(who, "f") {
		require.Greater(w, token, w.token, "%v", w.log)
		w.token = token
	} else {
		require.Zero(w, token, "%v", w.log)
	}
}

func (w *world) reached(who string) bool { return w.subs[strings.TrimPrefix(who, "f")[:1]] != nil }
