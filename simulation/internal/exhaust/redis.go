package exhaust

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// The clock ticks every one and a half seconds, so that few ticks make a grant, or a place old.
const (
	tick      = 1500 * time.Millisecond
	firstTerm = 2 // ticks for which a release gives the lock to a waiter
	lease     = 5 // ticks, which is longer
	timeout   = 1 // ticks, and a half, of a command
	old       = 2 // ticks after which the first of the line is told so
	epoch     = 1_700_000_000_000_000
	clients   = 3
	numbers   = 6 // of all clients, from 1
	redisson  = 7 // stands for the number of Redisson's
)

// until is a moment: none, passed, or that many ticks more than soon away.
type until uint8

const (
	none until = iota
	passed
	soon
)

// redis is what Redis has of the lock.
type redis struct {
	fields uint8          // who has it: a bit for each number
	ttl    uint8          // ticks
	line   [numbers]uint8 // who waits
	age    [numbers]uint8 // for how many ticks
	hears  uint8          // whose own channel is subscribed: a bit for each client
	others bool           // Redisson listens
}

// place returns where a number stands in the line, or -1.
func (r *redis) place(n uint8) int {
	for i, m := range r.line {
		if m == n {
			return i
		}
	}
	return -1
}

// command is what is sent to Redis.
type command struct {
	script script
	number uint8
	mode   mode  // of acquire
	leaves bool  // of release: the line, too
	next   uint8 // of release: whom it names
	left   until // its notAfter
	prompt bool  // it is on its way, and arrives before time passes
}

type script uint8

const (
	acquire script = iota + 1
	release
	renew
	peerLock
	peerUnlock
)

type mode uint8

const (
	modeTry mode = iota
	modeNew
	modeAgain
)

var modes = [...]string{"try", "new", "again"}

// The scripts of Redisson, as far as they matter.
const (
	peerLockText = `if redis.call('exists', KEYS[1]) == 0 then
redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return nil end
return redis.call('pttl', KEYS[1])`
	peerUnlockText = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1`
)

// reply is the list that a script replies, with times in ticks, or acquired instead of a number.
type reply struct {
	list     [6]int16
	acquired bool
	err      bool  // there is none, and the command may be executed still
	age      uint8 // ticks on its way
	open     bool  // when it was made, the attempt had something open that had not passed
}

// message is what a waiter is told.
type message struct{ kind, number, term, age uint8 }

const (
	granted  = '6'
	first    = '9'
	free     = '0'
	askAgain = '?'
)

// outcome is what comes of a command.
type outcome struct {
	redis
	reply reply
	told  [clients + 2]message
	to    [clients + 2]uint8 // the clients, or Redisson
}

// input is all that an outcome depends on. Below a millisecond the clock shows the draw, by which release.lua decides whose turn it is.
type input struct {
	redis
	command
	draw int16
}

var draws = [...]int16{0, 999}

// server runs the scripts as they are sent, each input once.
type server struct {
	texts  map[script]string
	owner  [numbers + 1]uint8 // the clients of the numbers
	memory map[input]*outcome
	redis  *simredis.Server
	now    int64
	keys   []string
	base   string
	subs   [clients + 1]*simredis.Subscriber // the last one is Redisson's
	told   int
	out    *outcome
}

// newServer returns a server whose scripts have been edited.
func newServer(owner [numbers + 1]uint8, edit func(text string) string) *server {
	keys, base := core.Plain.Keys("lock")
	a, r, n := core.Scripts()["acquire by turns"], core.Scripts()["release by turns"], core.Scripts()["renew by turns"]
	s := &server{owner: owner, memory: make(map[input]*outcome), base: base}
	s.texts = map[script]string{
		acquire: edit(a.Source), release: edit(r.Source), renew: edit(n.Source), peerLock: peerLockText, peerUnlock: peerUnlockText,
	}
	for _, key := range keys {
		s.keys = append(s.keys, fmt.Sprint(key))
	}
	s.redis = simredis.New(func() time.Time { return time.UnixMicro(s.now) })
	for c := range s.subs {
		s.subs[c] = &simredis.Subscriber{Send: func(_, payload string) { s.hear(uint8(c), payload) }}
	}
	return s
}

// args returns the number of keys, the keys and the arguments of a command. It is the one place that knows what core sends.
func (s *server) args(c command) []string {
	ms, field := strconv.FormatInt(inMillis(lease), 10), s.field(c.number)
	notAfter, member, next := int64(0), "", ""
	if c.left != none {
		notAfter = epoch + 1000*(inMillis(int64(c.left)-int64(soon))+inMillis(1)/2)
	}
	line := append([]string{"3"}, s.keys...)
	switch c.script {
	case acquire:
		return append(line, field, ms, strconv.FormatInt(notAfter, 10), modes[c.mode], "", "")
	case release:
		if c.leaves {
			member = s.member(c.number)
		}
		if c.next != 0 {
			next = s.member(c.next)
		}
		return append(line, field, s.base, member, next, strconv.FormatInt(notAfter, 10), "0", "")
	case renew:
		return []string{"1", s.keys[0], ms, field}
	case peerLock:
		return []string{"1", s.keys[0], field, ms}
	default:
		return []string{"2", s.keys[0], s.base, field}
	}
}

// result reads the reply to a command.
func result(c command, raw any) (r reply) {
	switch v := raw.(type) {
	case simredis.Err:
		panic(string(v))
	case nil:
		r.acquired = true
	case int64:
		r.acquired = c.script == acquire
		r.list[0] = int16(inTicks(v)) // of Redisson's
	case []any:
		for i, e := range v {
			switch n, _ := e.(int64); {
			case c.script == acquire && i == 2:
				r.list[i] = int16(inTicks(n))
			case c.script == renew || i != 1: // otherwise it is the present time
				r.list[i] = int16(n)
			}
		}
	}
	return r
}

func inMillis(ticks int64) int64 { return ticks * tick.Milliseconds() }

func inTicks(ms int64) int64 { return (ms + tick.Milliseconds() - 1) / tick.Milliseconds() }

// hear notes a message to a client.
func (s *server) hear(c uint8, payload string) {
	m, at, ms := message{kind: payload[0]}, int64(0), int64(0)
	switch m.kind {
	case granted:
		_, _ = fmt.Sscanf(payload, "6 %d %d %d", &m.number, &at, &ms)
	case first:
		_, _ = fmt.Sscanf(payload, "9 %d %d", &m.number, &ms)
	}
	m.term = uint8(inTicks(ms))
	s.out.told[s.told], s.out.to[s.told] = m, c
	s.told++
}

// id returns the UUID of a client. Those of Redisson have another version.
func id(c uint8) string {
	if c == clients {
		return "00000000-0000-4000-8000-000000000000"
	}
	return fmt.Sprintf("%08d-0000-8000-8000-000000000000", c)
}

func (s *server) field(n uint8) string {
	c := uint8(clients)
	if n != redisson {
		c = s.owner[n]
	}
	return id(c) + ":" + strconv.Itoa(int(n))
}

func (s *server) member(n uint8) string { return fmt.Sprintf("%s|%d|", s.field(n), inMillis(lease)) }

// run runs a command.
func (s *server) run(r *redis, c command, draw int16) *outcome {
	in := input{*r, c, draw}
	if out := s.memory[in]; out != nil {
		return out
	}
	s.out, s.told, s.now = &outcome{}, 0, epoch+int64(draw)
	s.put(r)
	s.out.reply = result(c, s.redis.Do(append([]string{"EVAL", s.texts[c.script]}, s.args(c)...)...))
	s.get(r, &s.out.redis)
	s.memory[in] = s.out
	return s.out
}

// put writes a state into the server.
func (s *server) put(r *redis) {
	s.redis.Put(nil)
	for n := uint8(1); n <= redisson; n++ {
		if r.fields&(1<<n) != 0 {
			s.redis.Do("HSET", s.keys[0], s.field(n), "1")
			s.redis.Do("PEXPIRE", s.keys[0], strconv.FormatInt(inMillis(int64(r.ttl)), 10))
		}
	}
	for i, n := range r.line {
		if n != 0 {
			came := epoch - 1000*inMillis(int64(r.age[i])) - int64(numbers-i)
			s.redis.Do("ZADD", s.keys[1], strconv.FormatInt(came, 10), s.member(n))
		}
	}
	for c, sub := range s.subs {
		s.redis.Drop(sub)
		switch {
		case c == clients && r.others:
			s.redis.Subscribe(s.base, sub, false)
		case c < clients && r.hears&(1<<c) != 0:
			for _, channel := range []string{s.base, s.base + ":rlock", s.keys[1] + ":" + id(uint8(c))} {
				s.redis.Subscribe(channel, sub, false)
			}
		}
	}
}

// get reads the state of the server, in which nobody has subscribed meanwhile.
func (s *server) get(before, r *redis) {
	number := func(text any) uint8 {
		field, _, _ := strings.Cut(fmt.Sprint(text), "|")
		return field[len(field)-1] - '0'
	}
	r.hears, r.others = before.hears, before.others
	fields, _ := s.redis.Do("HKEYS", s.keys[0]).([]any)
	for _, f := range fields {
		r.fields |= 1 << number(f)
	}
	if ms, _ := s.redis.Do("PTTL", s.keys[0]).(int64); ms > 0 {
		r.ttl = uint8(inTicks(ms))
	}
	line, _ := s.redis.Do("ZRANGE", s.keys[1], "0", "-1", "WITHSCORES").([]any)
	for i := 0; i+1 < len(line); i += 2 {
		came, _ := strconv.ParseFloat(fmt.Sprint(line[i+1]), 64)
		r.line[i/2], r.age[i/2] = number(line[i]), uint8(min(old, (s.now-int64(came))/tick.Microseconds()))
	}
}
