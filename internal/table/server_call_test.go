package table

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// redisLine is the line of a name: who waits for its lock in Redis, by arrival.
type redisLine struct {
	waiters []inLine
	offered clock.Instant // of the latest public release; zero means none
	watched clock.Instant // when somebody was last asked to watch; zero means never
	turns   int           // grants since the latest public release
}

// inLine is a waiter in the line.
type inLine struct {
	field  string
	term   int64         // ms; zero means that it is woken instead
	token  bool          // it wants a token
	at     clock.Instant // its arrival, by Redis's clock
	missed clock.Instant // since when it is not reached; zero means that it is
	epoch  int           // in which it arrived
	late   bool          // a late hand-over gave it the lock after it had asked by itself; its release takes it out
}

func (l *redisLine) clone() redisLine {
	c := *l
	c.waiters = slices.Clone(l.waiters)
	return c
}

func (l *redisLine) index(field string) int {
	return slices.IndexFunc(l.waiters, func(m inLine) bool { return m.field == field })
}

// remove takes a waiter out. The marks go with the last one.
func (l *redisLine) remove(field string) {
	if i := l.index(field); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
	if len(l.waiters) == 0 {
		*l = redisLine{}
	}
}

// lineCall is the call of a script of the line.
type lineCall struct {
	*wire.Call
	holder, base, tombs string
	term                int64 // ms; zero means that it is woken instead
	waits               bool  // or stood in the line
	token               bool  // it has the token key

	next *inLine // of a release: the next holder
}

// lineCallOf reads a call of a script of the line.
func lineCallOf(c *wire.Call) *lineCall {
	l := &lineCall{
		Call: c, holder: text(c.Args.Holder), base: text(c.Args.Channel), tombs: text(c.Keys[len(c.Keys)-1]),
		token: len(c.Keys) == 4 && c.Script != wire.Read.Line.Release,
	}
	if ms, ok := c.Args.Extra.(int64); ok {
		l.term, l.waits = ms, true
	} else if standing := text(c.Args.Extra); standing != "" && c.Script.Argv > 7 {
		l.term, l.waits = memberOf("|"+standing).term, true
	}
	if next := text(c.Args.Other); next != "" {
		m := memberOf(next)
		l.next = &m
	}
	return l
}

// memberOf reads a member of the line: a field, the ms of a term, and a t if it wants a token.
func memberOf(member string) (m inLine) {
	parts := strings.Split(member, "|")
	m.field = parts[0]
	m.term, _ = strconv.ParseInt(parts[1], 10, 64)
	m.token = len(parts) == 3
	return m
}

// ownChannel returns the channel of the process to which a field belongs.
func (s *server) ownChannel(base, field string) string {
	client, _, _ := strings.Cut(field, ":")
	return base + ":" + client + s.ending
}

// heard says, in the reply to a waiter, whether somebody listens to its channel.
func (s *server) heard(channel string) int64 {
	if s.listeners(channel) == 0 {
		return 2
	}
	return 4
}

// writes reports whether a field is that of a writer of a read-write lock.
func writes(field string) bool { return strings.HasSuffix(field, ":write") }

// modeOf returns the mode of a lock that a waiter of the line gets.
func modeOf(field string) string {
	if writes(field) {
		return "write"
	}
	return ""
}

func (s *server) twin(base string) string { return base + ":rlock-twin" + s.ending }

func numbers(all []int64) string {
	var b strings.Builder
	for i, n := range all {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatInt(n, 10))
	}
	return b.String()
}

// numberOf returns the number in a field.
func numberOf(field string) int64 {
	_, number, _ := strings.Cut(strings.TrimSuffix(field, ":write"), ":")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n
}

// messagesOf returns what tells others that the lock is free.
func messagesOf(c *lineCall) []string {
	if writes(c.holder) || c.Args.Extra == "write" {
		return []string{"1", "0"}
	}
	return []string{"0"}
}
