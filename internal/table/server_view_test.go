package table

import (
	"crypto/sha1" // by which a script marks the deadline of a waiter
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/lua"
)

// view is what a server has of its lock after a command, with what the invariants know of those who wait.
type view struct {
	mode    string // of a read-write lock
	holders []holder
	expiry  clock.Instant // when the lock is gone; of the last one while nobody holds it
	token   int64
	line    redisLine
	queue   []seated
}

// holder is a field of the lock's hash.
type holder struct {
	field  string
	expiry clock.Instant // of the key that a read hold has of its own; zero means that it has none
}

// redisLine is the line of a name: who waits for its lock in Redis, by arrival.
type redisLine struct{ waiters []inLine }

// inLine is a waiter in the line.
type inLine struct {
	field  string
	missed clock.Instant // since when it is not reached; zero means that it is
	epoch  int           // in which it arrived
	late   bool          // a late hand-over gave it the lock after it had asked by itself; its release takes it out
}

// seated is a waiter in the queue of a fair lock.
type seated struct {
	seat     string
	field    string
	deadline clock.Instant
	state    state
	epoch    int           // in which it arrived
	at       clock.Instant // of the world, when it was last looked at
}

// state is what is known of a waiter since it last asked.
type state uint8

const (
	asked   state = iota
	missed        // a message did not reach it
	awaited       // a message reached it, but it did not come
)

// The times of waiters that a message did not reach.
const (
	passedOver = 3 * time.Second       // for how long a waiter of the line keeps its place
	placeKept  = 3 * time.Second       // until one of a queue is removed
	lockLeft   = 50 * time.Millisecond // until others may take the lock
)

func (l *redisLine) index(field string) int {
	return slices.IndexFunc(l.waiters, func(m inLine) bool { return m.field == field })
}

func (v *view) find(field string) *holder {
	for i := range v.holders {
		if v.holders[i].field == field {
			return &v.holders[i]
		}
	}
	return nil
}

// live returns the holder if its hold is not over.
func (s *server) live(field string) *holder {
	if h := s.find(field); h != nil && (h.expiry == 0 || h.expiry > s.now) {
		return h
	}
	return nil
}

func (s *server) seatOf(seat string) int {
	return slices.IndexFunc(s.queue, func(p seated) bool { return p.seat == seat })
}

func clientOf(field string) string { return field[:strings.LastIndexByte(field, ':')] }

// writes reports whether a field is that of a writer of a read-write lock.
func writes(field string) bool { return strings.HasSuffix(field, ":write") }

// ownChannel returns the channel of the process to which a field belongs.
func (s *server) ownChannel(base, field string) string {
	client, _, _ := strings.Cut(field, ":")
	ending := ""
	if strings.HasPrefix(s.lock, "{") {
		ending = "{}"
	}
	return base + ":" + client + ending
}

// list returns the reply to a command that replies texts.
func (s *server) list(args ...string) []any {
	list, _ := s.redis.Do(args...).([]any)
	return list
}

// look reads what the server has now.
func (s *server) look() {
	s.saved = nil
	before := s.view
	s.view = view{expiry: before.expiry}
	all := s.list("HGETALL", s.lock)
	for i := 0; i < len(all); i += 2 {
		if field := text(all[i]); field == "mode" {
			s.mode = text(all[i+1])
		} else {
			h := holder{field: field}
			if s.reads && !writes(field) {
				h.expiry = max(s.end(s.holdKey(field)), 1) // long ago, if it is over
			}
			s.holders = append(s.holders, h)
		}
	}
	if len(s.holders) > 0 {
		s.expiry = s.end(s.lock)
	}
	s.token, _ = strconv.ParseInt(text(s.redis.Do("GET", s.tokenKey)), 10, 64)
	if s.queueKeys == nil {
		s.lookAtLine(&before)
	} else {
		s.lookAtQueue(&before)
	}
}

// end returns when a key is gone, or zero if it is. Redis counts whole ms, and a key lives through its last one.
func (s *server) end(key string) clock.Instant {
	left, _ := s.redis.Do("PTTL", key).(int64)
	if left < 0 {
		return 0
	}
	return s.whole().Add(millis(left + 1))
}

const holdKey = ":rwlock_timeout:1"

// holdKey returns the key that a read hold has of its own.
func (s *server) holdKey(field string) string {
	if strings.HasPrefix(s.lock, "{") {
		return s.lock + ":" + field + holdKey
	}
	return "{" + s.lock + "}:" + field + holdKey
}

func (s *server) isHold(key string) bool { return strings.HasSuffix(key, holdKey) }

// lookAtLine reads the line: waiters by the us of their arrival, and marks behind them.
func (s *server) lookAtLine(before *view) {
	all := s.list("ZRANGE", s.lineKey, "0", "-1", "WITHSCORES")
	for i := 0; i < len(all); i += 2 {
		member := text(all[i])
		switch member[0] {
		case '#':
		case '!': // it was not reached
			field, _, _ := strings.Cut(member[1:], "|")
			if at := s.line.index(field); at >= 0 {
				score, _ := strconv.ParseFloat(text(all[i+1]), 64)
				s.line.waiters[at].missed = clock.Instant(millis(int64(score - lua.AwaitedScore)))
			}
		default:
			m := inLine{epoch: s.epoch}
			m.field, _, _ = strings.Cut(member, "|")
			if at := before.line.index(m.field); at >= 0 {
				old := before.line.waiters[at]
				m.epoch, m.late = old.epoch, old.late
			}
			s.line.waiters = append(s.line.waiters, m)
		}
	}
}

// lookAtQueue reads the queue of a fair lock.
func (s *server) lookAtQueue(before *view) {
	for _, seat := range s.list("LRANGE", text(s.queueKeys[0]), "0", "-1") {
		p := seated{seat: text(seat), epoch: s.epoch}
		entry := text(s.redis.Do("HGET", text(s.queueKeys[2]), p.seat))
		number, _, _ := strings.Cut(entry, "|")
		p.field = clientOf(p.seat) + ":" + number
		score, _ := strconv.ParseFloat(text(s.redis.Do("ZSCORE", text(s.queueKeys[1]), p.seat)), 64)
		p.deadline = clock.Instant(millis(int64(score)))
		sum := sha1.Sum([]byte(p.seat)) // as the script does
		first := int64(binary.BigEndian.Uint32(sum[:]))%lua.NameParts*2 + 1
		p.state = state((int64(score*lua.DeadlineParts)%lua.DeadlineParts - first) / lua.StateParts)
		if i := slices.IndexFunc(before.queue, func(q seated) bool { return q.seat == p.seat && q.field == p.field }); i >= 0 {
			p.epoch = before.queue[i].epoch
		}
		s.queue = append(s.queue, p)
	}
}
