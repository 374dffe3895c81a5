package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/wire"
)

// server is Redis as far as the locks of one name need it. Its scripts follow those in internal/lua: TestPlayedServers of the module
// simulation compares all that they reply.
type server struct {
	now clock.Instant
	// skew is by how much its clock is ahead of the world's.
	skew      time.Duration
	steps     []clockStep
	announce  func(channel, payload string) (receivers int64)
	listeners func(channel string) int64 // PUBSUB NUMSUB
	watching  func(channel string) bool  // whether a table hears what is announced there
	counts    bool                       // the receivers of a message are all that there are

	mode    string // of a read-write lock
	holders []holder
	expiry  clock.Instant
	queue   []seated
	line    redisLine
	token   int64
	tombs   map[tomb]clock.Instant

	// What the invariants need to know.

	epoch int                      // raised when Redis loses or restores what it has, and by an unlock by force
	lost  int                      // how often Redis lost or restored what it has
	stood map[string]int           // how often that was when a field was last put into the line
	born  map[string]birth         // of every field that was a holder
	gone  map[string]string        // why a field is not a holder any more
	kept  map[string]clock.Instant // until when the lock was parked, by the field that left, in the world's time
	dead  map[string]int           // the epoch in which the tombstone of a field was written
	quiet bool                     // waiters may not know that the lock is free, because nobody could tell them
	// hushed is the process, counted from one, that freed the lock without a message. Its own waiters know nevertheless.
	hushed int
	public string // the field whose public release nobody has followed up
	cut    bool   // a hand-over shortened the lease, so that other processes sleep for too long
	told   bool   // a waiter was granted the lock in this step
	lined  bool   // there is a line
	ending string // of the channels that are rlock's
	longer bool   // the clock stepped back, which lengthened the lease
	back   string // a field with a tombstone that came back
}

// holder is a field of the lock's hash.
type holder struct {
	field  string
	count  int
	expiry clock.Instant // of the key that a read hold has of its own; zero means that it has none
}

// birth is how a field became a holder.
type birth struct {
	epoch  int
	token  int64
	chain  int           // hand-overs since the lock was last free
	lastly clock.Instant // when it was last free
	given  given
}

type tomb struct {
	key    string
	number int64
}

func newServer(announce func(channel, payload string) int64) *server {
	return &server{
		announce: announce, tombs: make(map[tomb]clock.Instant), born: make(map[string]birth),
		gone: make(map[string]string), dead: make(map[string]int), stood: make(map[string]int), kept: make(map[string]clock.Instant),
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func text(v any) string {
	s, _ := v.(string)
	return s
}

// tick removes what has expired.
func (s *server) tick(now clock.Instant) {
	s.now = now.Add(s.skew)
	if s.expiry <= s.now && len(s.holders) > 0 {
		s.quiet = s.quiet || s.lined // the waiters may know of a longer lease
		s.clear("expired")
	}
}

func (s *server) clear(why string) {
	for _, h := range s.holders {
		s.gone[h.field] = why
	}
	s.holders, s.mode = s.holders[:0], ""
}

func (s *server) find(field string) *holder {
	for i := range s.holders {
		if s.holders[i].field == field {
			return &s.holders[i]
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

// until returns when a key is gone that gets a lease of so many ms now. Redis counts whole ms, and a key lives through its last one.
func (s *server) until(lease int64) clock.Instant {
	return s.whole().Add(millis(lease + 1))
}

// whole returns the time without the part of a ms.
func (s *server) whole() clock.Instant { return s.now - s.now%clock.Instant(time.Millisecond) }

// left returns for how long a key lives that is gone at a moment, as PTTL says.
func (s *server) left(end clock.Instant) time.Duration { return end.Sub(s.whole()) - time.Millisecond }

func (s *server) extend(lease int64) { s.expiry = max(s.expiry, s.until(lease)) }

func (s *server) buried(c *wire.Call) bool {
	return len(s.tombs) > 0 && s.tombs[tomb{text(c.Keys[len(c.Keys)-1]), c.Args.Number}] > s.now
}

func (s *server) bury(c *wire.Call) {
	if c.Args.Millis > 0 {
		s.tombs[tomb{text(c.Keys[len(c.Keys)-1]), c.Args.Number}] = s.now.Add(millis(c.Args.Millis))
		s.dead[text(c.Args.Holder)] = s.epoch
	}
}

func (s *server) refused() int64 {
	return -1 - int64(s.left(s.expiry)/time.Millisecond)
}

// create adds a holder.
func (s *server) create(field, mode string, lease int64) {
	if len(s.holders) == 0 {
		s.expiry, s.longer = 0, false
		s.mode = mode
	}
	s.public = ""
	s.extend(lease)
	s.join(field, birth{epoch: s.epoch, token: s.token, lastly: s.world()})
}

func (s *server) join(field string, b birth) {
	if old, ok := s.born[field]; ok && old.epoch != s.epoch {
		b.epoch = old.epoch // a late repeat of its acquire brought back what was lost or unlocked by force
	}
	s.holders = append(s.holders, holder{field: field, count: 1})
	s.born[field] = b
	delete(s.gone, field)
	if epoch, ok := s.dead[field]; ok && epoch == s.epoch {
		s.back = field
	}
}

// remove deletes a holder, and the lock with the last one.
func (s *server) remove(field, why string) bool {
	for i := range s.holders {
		if s.holders[i].field == field {
			s.holders = append(s.holders[:i], s.holders[i+1:]...)
			s.gone[field] = why
			if len(s.holders) == 0 {
				s.mode = ""
			}
			return true
		}
	}
	return false
}

// tell announces that the lock is free, or says that nobody could be told.
func (s *server) tell(c *wire.Call, suffix string) int64 {
	channel := text(c.Args.Channel)
	if channel == "" {
		s.quiet = true
		return 0
	}
	s.quiet, s.hushed = false, 0
	s.quiet = s.lined && !s.watching(channel) // nobody hears it for the line, yet
	return s.announce(channel+suffix, "0")
}

// run executes a call.
func (s *server) run(c *wire.Call) wire.Reply {
	if r, ok := s.runLine(c); ok {
		return r
	}
	if r, ok := s.runFair(c); ok {
		return r
	}
	switch c.Script {
	case wire.Plain.Renew, wire.Read.Renew:
		panic("a renewal is about many names")
	case wire.Plain.Acquire, wire.Fenced.Acquire, wire.Write.Acquire, wire.FencedWrite.Acquire:
		return wire.Reply{N: s.acquire(c)}
	case wire.Read.Acquire:
		return wire.Reply{N: s.acquireRead(c)}
	case wire.Plain.HandOver, wire.Fenced.HandOver:
		return wire.Reply{N: s.handOver(c)}
	case wire.Plain.ExportScript(), wire.Fenced.AdoptScript():
		return wire.Reply{N: s.exportTo(c)}
	case wire.Plain.Park:
		return wire.Reply{N: s.park(c)}
	case wire.Plain.Count, wire.Read.Count:
		return wire.Reply{N: s.count(c)}
	case wire.Plain.Release, wire.Write.Release:
		return wire.Reply{N: s.release(c)}
	case wire.Read.Release:
		return wire.Reply{N: s.releaseRead(c)}
	}
	return wire.Reply{N: s.force(c)}
}

// repeat takes an acquire of a field that is a holder already. The table counts the hand-overs from the acquire that it
// relies on.
func (s *server) repeat(field string, lease int64) {
	s.extend(lease)
	b := s.born[field]
	b.lastly = s.world()
	s.born[field] = b
}

func (s *server) acquire(c *wire.Call) int64 {
	field := text(c.Args.Holder)
	fenced := c.Script == wire.Fenced.Acquire || c.Script == wire.FencedWrite.Acquire
	token := int64(0)
	if fenced {
		token = s.born[field].token
	}
	switch {
	case s.buried(c):
		return -1
	case s.find(field) != nil:
		s.repeat(field, c.Args.Millis)
		return token
	case len(s.holders) > 0:
		return s.refused()
	case fenced:
		s.token++
		token = s.token
	}
	mode := ""
	if c.Script == wire.Write.Acquire || c.Script == wire.FencedWrite.Acquire {
		mode = "write"
	}
	s.create(field, mode, c.Args.Millis)
	return token
}

func (s *server) acquireRead(c *wire.Call) int64 {
	field := text(c.Args.Holder)
	own := s.find(field)
	switch {
	case s.buried(c):
		return -1
	case len(s.holders) == 0, own == nil && (s.mode == "read" || s.find(text(c.Args.Other)) != nil):
		s.create(field, "read", c.Args.Millis)
		own = s.find(field)
	case own == nil:
		return s.refused()
	}
	own.expiry = max(own.expiry, s.until(c.Args.Millis))
	s.extend(c.Args.Millis)
	return 0
}

func (s *server) handOver(c *wire.Call) int64 {
	next, last := text(c.Args.Holder), text(c.Args.Channel)
	fenced := c.Script == wire.Fenced.HandOver
	switch {
	case s.buried(c):
		return -2
	case s.find(next) != nil:
		s.extend(c.Args.Millis)
	case s.find(last) == nil:
		return -1
	default:
		b := s.born[last]
		b.chain++
		b.given = given{}
		if fenced {
			s.token++
			b.token = s.token
		}
		mode := s.mode
		s.remove(last, "handed over")
		s.join(next, b)
		if i := s.line.index(next); i >= 0 {
			s.line.waiters[i].late = true
		}
		s.mode = mode
		expiry := s.until(c.Args.Millis)
		stray := len(s.holders) > 1 || s.longer // a read hold of the last writer, whose caller left
		s.cut = expiry < s.expiry && !stray
		s.quiet = s.quiet || expiry < s.expiry && stray
		s.expiry = expiry
	}
	if fenced {
		return s.born[next].token
	}
	return 0
}

func (s *server) count(c *wire.Call) int64 {
	h := s.live(text(c.Args.Holder))
	if h == nil {
		return 0
	}
	if c.Script == wire.Read.Count {
		h.expiry = max(h.expiry, s.until(c.Args.Millis))
	}
	s.extend(c.Args.Millis)
	h.count, _ = c.Args.Extra.(int)
	return 1
}

// renew renews one lock of a batch.
func (s *server) renew(field string, lease int64, read bool) int64 {
	h := s.live(field)
	if h == nil {
		return 0
	}
	if read {
		h.expiry = max(h.expiry, s.until(lease))
	}
	s.extend(lease)
	return 1
}
