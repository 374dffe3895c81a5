package client

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// lineScripts are the names of the scripts that know of the line.
var lineScripts = map[*wire.Script]string{
	wire.Plain.Line.Acquire: "acquire", wire.Fenced.Line.Acquire: "acquire",
	wire.Plain.Line.Release: "release", wire.Fenced.Line.Release: "release",
	wire.Plain.Line.Force: "force", wire.Fenced.Line.Force: "force",
	wire.Plain.Line.Pump: "pump", wire.Fenced.Line.Pump: "pump",
}

// lineInRedis is the line of a lock. It has at least one waiter.
type lineInRedis struct {
	waiters []*waiterInRedis // in the order of their arrival
	offered time.Time        // when the lock was last released publicly
	asked   time.Time        // when a process was last asked to watch
	turns   int64            // grants since the last public release
}

// waiterInRedis is a member of a line.
type waiterInRedis struct {
	member    string
	came      time.Time
	unreached time.Time // when a message first did not reach it
}

// parts returns what a member of a line says.
func parts(member string) (holder, client string, number, term int64, token bool) {
	words := strings.Split(member, "|")
	client, after, _ := strings.Cut(words[0], ":")
	number, _ = strconv.ParseInt(strings.TrimSuffix(after, ":write"), 10, 64)
	term, _ = strconv.ParseInt(words[1], 10, 64)
	return words[0], client, number, term, len(words) == 3
}

// inLine carries out a script that knows of the line. The mutex must be held, as for all methods below.
func (s *server) inLine(command string, c *wire.Call) wire.Reply {
	t := &turn{server: s, call: c, now: time.Now(), tokens: len(c.Keys) == 4}
	t.base, _ = c.Args.Channel.(string)
	t.key, _ = c.Keys[1].(string)
	defer t.tidy()
	switch command {
	case "acquire":
		return t.acquire()
	case "release":
		return t.release()
	case "force":
		return t.force()
	}
	return t.pump()
}

// turn is one run of a script of the line.
type turn struct {
	*server

	call   *wire.Call
	now    time.Time
	tokens bool // whether it can draw tokens
	base   string
	key    string // of the line
}

func short(n int64) wire.Reply { return wire.Reply{N: n} }

func long(list ...int64) wire.Reply { return wire.Reply{N: list[0], List: list} }

// queue returns the line, and makes it if there is none.
func (t *turn) queue() *lineInRedis {
	q := t.lines[t.key]
	if q == nil {
		q = new(lineInRedis)
		t.lines[t.key] = q
	}
	return q
}

// tidy removes a line without a waiter, with all that is noted there.
func (t *turn) tidy() {
	if q := t.lines[t.key]; q != nil && len(q.waiters) == 0 {
		delete(t.lines, t.key)
	}
}

func (t *turn) lock() *lockInRedis { return t.get(t.call.Key()) }

// create makes a holder, and draws a token if it needs one.
func (t *turn) create(holder string, lease int64, token bool) int64 {
	l := &lockInRedis{holder: holder, count: 1}
	t.locks[t.call.Key()] = l
	l.extend(lease)
	if !token {
		return 0
	}
	t.server.tokens++
	return t.server.tokens
}

func (t *turn) abandoned(number int64) bool {
	until, ok := t.tombsOf(t.call)[number]
	return ok && t.now.Before(until)
}

// listeners returns how many listen that know of no line, and how many watch.
func (t *turn) listeners() (others, watchers int64) {
	watchers = t.numsub(t.base + ":rlock-twin")
	return max(t.numsub(t.base)-watchers, 0), watchers
}

func (t *turn) isOffered() bool { return t.now.Sub(t.queue().offered) < 10*time.Millisecond }

// unwatched reports whether a process has to be asked to watch, and notes that one is.
func (t *turn) unwatched(watchers int64, urgent bool) bool {
	q := t.queue()
	if watchers >= 2 || t.now.UnixMilli()-q.asked.UnixMilli() < 1000 && (!urgent || watchers != 0) {
		return false
	}
	q.asked = t.now
	return true
}

func (q *lineInRedis) find(member string) int {
	return slices.IndexFunc(q.waiters, func(w *waiterInRedis) bool { return w.member == member })
}

func (q *lineInRedis) add(member string) {
	if i := q.find(member); i >= 0 {
		q.waiters[i].unreached = time.Time{}
		return
	}
	q.waiters = append(q.waiters, &waiterInRedis{member: member, came: time.Now()})
	slices.SortFunc(q.waiters, func(a, b *waiterInRedis) int {
		return cmp.Or(cmp.Compare(a.came.UnixMicro(), b.came.UnixMicro()), cmp.Compare(a.member, b.member))
	})
}

func (q *lineInRedis) remove(member string) {
	if i := q.find(member); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
	if len(q.waiters) == 0 { // the last one takes along what is noted there
		*q = lineInRedis{}
	}
}

// grant gives a free lock to the first waiter that is reached. It returns that one, or the asker, and otherwise whether one was
// told to ask.
func (t *turn) grant(asker string) (given string, asked bool) {
	q := t.queue()
	left := 0 // how many were removed
	for i, w := range slices.Clone(q.waiters) {
		if w.member == asker {
			return asker, false
		}
		holder, client, number, term, token := parts(w.member)
		if term == 0 || token && !t.tokens {
			asked = t.publish(t.base+":"+client, "8") > 0
		} else if t.numsub(t.base+":"+client) > 0 {
			drawn := t.create(holder, term, token)
			t.publish(t.base+":"+client, fmt.Sprintf("6 %d %d %d %d", number, t.now.UnixMicro(), term, drawn))
			q.remove(w.member)
			t.count(q.turns + 1)
			t.forewarn(i-left, term)
			return w.member, false
		}
		switch {
		case !w.unreached.IsZero() && t.now.Sub(w.unreached) >= 3*time.Second:
			q.remove(w.member)
			left++
			asked = false
			continue
		case w.unreached.IsZero():
			w.unreached = t.now
		}
		if asked {
			return "", true
		}
	}
	return "", false
}

// count notes, while others listen and somebody waits, how often the lock was given since the last public release.
func (t *turn) count(turns int64) {
	if others, _ := t.listeners(); others > 0 && len(t.queue().waiters) > 0 {
		t.queue().turns = turns
	}
}

// forewarn tells the waiter at a place in the line when a short lease ends, if it may not ask in time by itself.
func (t *turn) forewarn(place int, lease int64) {
	for _, w := range t.queue().waiters[min(place, len(t.queue().waiters)):] {
		if lease > 3000 || lease == 3000 && t.now.Sub(w.came) < 2*time.Second {
			return
		}
		_, client, number, _, _ := parts(w.member)
		if t.publish(t.base+":"+client, fmt.Sprintf("9 %d %d", number, lease)) > 0 {
			return
		}
	}
}

func (t *turn) acquire() wire.Reply {
	c, l, q := t.call, t.lock(), t.queue()
	holder, _ := c.Args.Holder.(string)
	if t.abandoned(c.Args.Number) {
		return short(-1)
	}
	if l != nil && l.holder == holder {
		l.extend(c.Args.Millis)
		if t.tokens {
			return short(t.server.tokens)
		}
		return short(0)
	}
	term, waits := c.Args.Extra.(int64)
	member := fmt.Sprintf("%s|%d", holder, term)
	if t.tokens {
		member += "|t"
	}
	take := func() wire.Reply {
		if q.find(member) >= 0 {
			q.remove(member)
			t.forewarn(0, c.Args.Millis)
			t.count(q.turns + 1)
		}
		return short(t.create(holder, c.Args.Millis, t.tokens))
	}
	hint := int64(0)
	switch {
	case l == nil && len(q.waiters) == 0:
		return take()
	case l == nil && t.isOffered() && !waits:
		return take()
	case l == nil && t.isOffered():
		hint = 10
	case l == nil:
		given, asked := t.grant(member)
		if asked {
			hint = 20
		} else if given == "" || given == member {
			return take()
		}
	}
	if l = t.lock(); l != nil {
		hint = left(l.expires)
	}
	watch, place := int64(0), -1
	if waits {
		stood := q.find(member) >= 0
		q.add(member)
		if place = q.find(member); stood && place > 3 {
			place = t.ahead(place)
		}
		if _, watchers := t.listeners(); t.unwatched(watchers, false) {
			watch = 1
		}
		_, client, _, _, _ := parts(member)
		if t.numsub(t.base+":"+client) == 0 {
			watch += 2
		} else {
			watch += 4
		}
	}
	return long(-1-hint, t.now.UnixMicro(), watch, int64(place))
}

// ahead returns how many wait before a place, without those at the front whom nobody reaches.
func (t *turn) ahead(place int) int {
	for dead, w := range t.queue().waiters[:min(place, 64)] {
		if _, client, _, _, _ := parts(w.member); t.numsub(t.base+":"+client) > 0 {
			return place - dead
		}
	}
	return max(place-64, 0)
}

func (t *turn) release() wire.Reply {
	c, l, q := t.call, t.lock(), t.queue()
	holder, _ := c.Args.Holder.(string)
	next, _ := c.Args.Other.(string)
	freed := int64(0)
	if l != nil && l.holder == holder {
		delete(t.locks, c.Key())
		freed, l = 1, nil
	}
	if c.Args.Millis > 0 {
		t.tombsOf(c)[c.Args.Number] = t.now.Add(time.Duration(c.Args.Millis) * time.Millisecond)
	}
	if freed == 0 || next != "" && t.abandoned(c.Args.NextNumber) {
		next = ""
	}
	others, watchers := t.listeners()
	if l == nil && len(q.waiters) == 0 && (next == "" || others == 0) {
		if next != "" {
			to, _, _, _, token := parts(next)
			return long(1, t.now.UnixMicro(), int64(wire.ToNext), t.create(to, c.Args.NextMillis, token && t.tokens), 0, 0)
		}
		if freed == 1 {
			t.announce(t.base)
		}
		return short(freed)
	}
	if stood, _ := c.Args.Extra.(string); stood != "" {
		q.remove(holder + "|" + stood)
	}
	if l != nil {
		return short(freed)
	}
	if freed == 0 && t.isOffered() {
		return long(0, t.now.UnixMicro(), int64(wire.ToPublic), 0, 0, others)
	}
	what, drawn := t.passOn(freed == 1, next, others)
	watch := int64(0)
	if len(q.waiters) > 0 && others > 0 && t.unwatched(watchers, what == wire.ToPublic) {
		if next != "" {
			watch = 1
		} else {
			_, client, _, _, _ := parts(q.waiters[len(q.waiters)-1].member)
			t.publish(t.base+":"+client, "7")
		}
	}
	return long(freed, t.now.UnixMicro(), int64(what), drawn, watch, others)
}

// passOn passes a free lock on: to the others, to the line, or to the next holder.
func (t *turn) passOn(freed bool, next string, others int64) (what wire.What, drawn int64) {
	q := t.queue()
	waiting := int64(len(q.waiters))
	if next != "" {
		waiting++
	}
	if freed && waiting > 0 && others > 0 && (q.turns+1)*others >= waiting {
		if next != "" {
			q.add(next)
		}
		q.offered, q.turns = t.now, 0
		t.announce(t.base)
		return wire.ToPublic, 0
	}
	turns := q.turns + 1
	given, asked := t.grant("")
	switch {
	case given != "" || asked:
		if next != "" && next != given {
			q.add(next)
		}
		if given != "" && next != "" {
			t.count(turns) // once more, because the line may have been gone in between
		}
		return wire.ToWaiter, 0
	case next != "":
		q.remove(next)
		t.count(q.turns + 1)
		to, _, _, _, token := parts(next)
		return wire.ToNext, t.create(to, t.call.Args.NextMillis, token && t.tokens)
	case freed:
		t.announce(t.base)
	}
	return wire.ToNobody, 0
}

func (t *turn) force() wire.Reply {
	if t.lock() == nil {
		return short(0)
	}
	delete(t.locks, t.call.Key())
	if given, asked := t.grant(""); given == "" && !asked {
		t.announce(t.base)
	}
	return long(1, t.now.UnixMicro())
}

func (t *turn) pump() wire.Reply {
	switch {
	case t.lock() != nil || len(t.queue().waiters) == 0:
		return short(0)
	case t.now.Sub(t.queue().offered) < time.Millisecond:
		return short(-2)
	}
	if given, asked := t.grant(""); given != "" || asked {
		return short(1)
	}
	return short(0)
}
