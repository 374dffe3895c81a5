package table

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// server is the Redis of one name, which runs the real scripts, and what the invariants need to know about it.
type server struct {
	view // after the last command

	redis *simredis.Server
	now   clock.Instant
	// skew is by how much its clock is ahead of the world's.
	skew     time.Duration
	steps    []clockStep
	watching func(channel string) bool // whether a table hears what is announced there
	listens  func(yield func(of subscriber) bool)
	deliver  func(to *process, channel, payload string)
	counts   bool // the receivers of a message are all that there are

	lock, lineKey, tokenKey string
	queueKeys               []any // the queue of a fair lock, the deadlines and the seats
	reads                   bool  // each read hold has a key of its own
	subs                    map[subscriber]*simredis.Subscriber
	got                     []string // the messages of the last command that somebody has received
	saved                   *backup  // of the present state; nil after a change

	epoch int                      // raised when Redis loses or restores what it has, and by an unlock by force
	lost  int                      // how often Redis lost or restored what it has
	stood map[string]int           // how often that was when a field was last put into the line
	born  map[string]birth         // of every field that was a holder
	gone  map[string]string        // why a field is not a holder any more
	kept  map[string]clock.Instant // until when the lock was parked, by the field that left, in the world's time
	dead  map[string]int           // the epoch in which the tombstone of a field was written
	quiet bool                     // waiters may not know that the lock is free, because nobody could tell them
	// hushed is the process, counted from one, that freed the lock without a message. Its own waiters know nevertheless.
	hushed  int
	public  string        // the field whose public release nobody has followed up
	offered clock.Instant // of the latest public release
	cut     bool          // a hand-over shortened the lease, so that other processes sleep for too long
	told    bool          // a waiter was granted the lock in this step
	lined   bool          // there is a line
	longer  bool          // the clock stepped back, which lengthened the lease
	back    string        // a field with a tombstone that came back
}

// subscriber is a process, or nil for a peer, that is subscribed to a channel.
type subscriber struct {
	proc    *process
	channel string
}

// birth is how a field became a holder.
type birth struct {
	epoch  int
	token  int64
	chain  int           // hand-overs since the lock was last free
	lastly clock.Instant // when it was last free
	given  given
}

// servers are those of worlds that are over: a new one takes as long as many scripts.
var servers = make(chan *simredis.Server, 16)

// newServer returns an empty server for a name.
func newServer(lock string, family wire.Family) *server {
	s := &server{
		subs: make(map[subscriber]*simredis.Subscriber), born: make(map[string]birth), gone: make(map[string]string),
		dead: make(map[string]int), stood: make(map[string]int), kept: make(map[string]clock.Instant), reads: family == wire.RWFamily,
	}
	kind := [wire.Families]*wire.Kind{wire.PlainFamily: wire.Fenced, wire.FairFamily: wire.FencedFair, wire.RWFamily: wire.FencedWrite}[family]
	names := wire.NewNames(kind, lock, "")
	s.lock, s.tokenKey = lock, text(names.Keys[len(names.Keys)-2])
	if kind.Queues {
		s.queueKeys = names.Keys[1:4]
	} else {
		s.lineKey = text(names.LineKeys[1])
	}
	select {
	case s.redis = <-servers:
		s.redis.Put(nil)
	default:
		s.redis = simredis.New(nil)
	}
	s.redis.Clock = func() time.Time { return time.UnixMicro(s.micros()) }
	return s
}

// leave leaves the Redis to another world.
func (s *server) leave() {
	for l, sub := range s.subs {
		s.redis.Unsubscribe(l.channel, sub, false)
	}
	select {
	case servers <- s.redis:
	default:
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// text returns an argument of a call, or a reply, that is a text.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// micros returns what Redis shows as its time.
func (s *server) micros() int64 { return int64(s.now) / 1000 }

// whole returns the time without the part of a ms.
func (s *server) whole() clock.Instant { return s.now - s.now%clock.Instant(time.Millisecond) }

// tick removes what has expired.
func (s *server) tick(now clock.Instant) {
	s.now = now.Add(s.skew)
	if s.expiry <= s.now && len(s.holders) > 0 {
		s.quiet = s.quiet || s.lined // the waiters may know of a longer lease
		s.redis.Do("EXISTS", s.lock) // removes the key, should the clock step back
		s.clear("expired")
		s.look()
	}
}

func (s *server) clear(why string) {
	for _, h := range s.holders {
		s.gone[h.field] = why
	}
}

// subscribe has Redis know who listens.
func (s *server) subscribe() {
	current := make(map[subscriber]bool, len(s.subs))
	for l := range s.listens {
		if current[l] = true; s.subs[l] != nil {
			continue
		}
		sub := &simredis.Subscriber{Send: func(channel, payload string) {
			s.got = append(s.got, payload)
			if l.proc != nil {
				s.deliver(l.proc, channel, payload)
			}
		}}
		s.subs[l] = sub
		s.redis.Subscribe(l.channel, sub, false)
	}
	for l, sub := range s.subs {
		if !current[l] {
			s.redis.Unsubscribe(l.channel, sub, false)
			delete(s.subs, l)
		}
	}
}

// do runs a command of somebody who is not rlock.
func (s *server) do(args ...string) {
	s.subscribe()
	s.redis.Do(args...)
	s.look()
}

// run executes a call.
func (s *server) run(c *wire.Call) wire.Reply {
	s.subscribe()
	s.got = s.got[:0]
	sent := *c
	if sent.Script.Announces != wire.Untold {
		sent.Args.Publish = wire.PublishPlain // the transport fills it in
		if s.queueKeys != nil && !s.counts {
			sent.Args.Publish = wire.PublishNode
		}
	}
	r := s.redis.Call(&sent)
	if r.Err != nil {
		panic(failure("Script: " + r.Err.Error()))
	}
	if r.N == 0 && len(r.List) > 1 {
		r.N = r.List[0]
	}
	s.notes(c, r)
	return r
}

// renew renews one lock of a batch.
func (s *server) renew(c *wire.Call) int64 {
	s.subscribe()
	r := s.redis.Call(c)
	s.look()
	if r.Err != nil || len(r.List) != 1 {
		panic(failure("Script: a renewal is not answered"))
	}
	return r.List[0]
}

// lose makes Redis forget the lock, its queue and its tombstones.
func (s *server) lose() { s.reset(nil) }

// reset gives Redis other data, but no other tokens.
func (s *server) reset(db *simredis.DB) {
	token, drawn := s.redis.Do("GET", s.tokenKey).(string)
	s.clear("lost")
	s.redis.Put(db)
	for _, key := range s.redis.Keys() {
		if key == s.lock || key == s.lineKey || slices.ContainsFunc(s.queueKeys, func(k any) bool { return k == key }) ||
			s.reads && s.isHold(key) {
			continue
		}
		s.redis.Do("DEL", key) // tombstones
	}
	if drawn {
		s.redis.Do("SET", s.tokenKey, token)
	}
	s.epoch++
	s.lost++
	s.public, s.quiet = "", true
	s.look()
}

// backup is an older state of a server, as a failover may bring back.
type backup struct {
	view

	db *simredis.DB
}

func (s *server) save() *backup {
	if s.saved == nil {
		s.saved = &backup{s.view, s.redis.DB().Clone()}
	}
	return s.saved
}

func (s *server) restore(b *backup) {
	if b == nil {
		s.lose()
		return
	}
	before := s.holders
	s.view = b.view // what is known of those who wait
	s.holders = before
	s.reset(b.db.Clone())
}
