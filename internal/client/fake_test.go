package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// server is a Redis in memory that knows the scripts of the plain locks. It is safe for concurrent use.
type server struct {
	mu     sync.Mutex
	locks  map[string]*lockInRedis
	tombs  map[string]map[int64]time.Time
	lines  map[string]*lineInRedis
	tokens int64
	counts map[string]int64           // of the latches
	marks  map[string]map[int64]int64 // what the calls that count once have answered, by their numbers
	subs   []*subscription
	test   string   // whose server it is
	base   string   // Redisson's channel of the tests' lock
	frees  []string // what a release announces there
	sent   []string // the commands that were carried out

	// intercept, if it is not nil, carries out the commands in place of the server. It runs them by run.
	intercept func(command string, run func() wire.Reply) wire.Reply
	// confirms is how long Redis takes to confirm a subscription.
	confirms time.Duration
	// late is how long a grant is on its way to the waiter.
	late time.Duration
	// denied means that the user lacks a right that the scripts of the line need.
	denied bool
	// deaf is a channel to which Redis lets no client subscribe, nor to its twin. It says nothing about that.
	deaf string
}

// lockInRedis is the hash of a lock, which has one field.
type lockInRedis struct {
	holder  string
	count   int
	expires time.Time
}

func newServer() *server {
	return &server{
		locks: make(map[string]*lockInRedis), tombs: make(map[string]map[int64]time.Time), lines: make(map[string]*lineInRedis),
		counts: make(map[string]int64), marks: make(map[string]map[int64]int64),
		base: wire.NewNames(wire.Plain, name, "").Base(), frees: []string{"0"},
	}
}

// commands has the names of the scripts that know of no line.
var commands = map[*wire.Script]string{
	wire.Plain.Acquire: "acquire", wire.Fenced.Acquire: "acquire", wire.Plain.Count: "count", wire.Plain.Release: "release",
	wire.Plain.Renew: "renew", wire.Plain.Force: "force", wire.Plain.Inspect: "inspect", wire.Plain.HandOver: "hand over",
	wire.Fenced.HandOver: "hand over",
	wire.Write.Acquire:   "acquire", wire.FencedWrite.Acquire: "acquire", wire.Write.Release: "release", wire.Write.Force: "force",
	wire.Write.Inspect: "inspect",
}

// run carries out a call, or has the test do so.
func (s *server) run(c wire.Call) wire.Reply {
	s.mu.Lock()
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil {
		return intercept(cmp.Or(commands[c.Script], lineScripts[c.Script], others[c.Script]), func() wire.Reply { return s.execute(&c) })
	}
	return s.execute(&c)
}

// instead sets what carries out the commands. Nil means the server.
func (s *server) instead(intercept func(command string, run func() wire.Reply) wire.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = intercept
}

// took returns the commands that were carried out since it was last called.
func (s *server) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// held returns the tests' lock as it is now, while it is held, or nil.
func (s *server) held() *lockInRedis {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.get(name)
	if l != nil {
		now := *l
		now.expires = now.expires.Add(-time.Millisecond) // it lives through this one
		l = &now
	}
	return l
}

// deny takes a right from the user that the scripts of the line need, or returns it.
func (s *server) deny(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = denied
}

// drop deletes the tests' lock without a message, as an operator does.
func (s *server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.locks, name)
	s.raw("DEL", name)
}

// get returns a lock that has not expired. The mutex must be held, as for all methods below.
func (s *server) get(key string) *lockInRedis {
	l := s.locks[key]
	if l != nil && !time.Now().Before(l.expires) {
		delete(s.locks, key)
		return nil
	}
	return l
}

func (l *lockInRedis) extend(millis int64) {
	if expires := until(millis); expires.After(l.expires) {
		l.expires = expires
	}
}

func (s *server) execute(c *wire.Call) (r wire.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listeners := s.listening()
	defer func() {
		if r.Err != nil {
			s.raw()
			return
		}
		s.called(c, r, listeners)
	}()
	command := cmp.Or(commands[c.Script], lineScripts[c.Script], others[c.Script])
	s.sent = append(s.sent, command)
	if others[c.Script] != "" {
		return s.other(command, c)
	}
	if command == "renew" {
		return s.renew(c)
	}
	if lineScripts[c.Script] != "" {
		if s.denied {
			return rejected("NOPERM")
		}
		return s.inLine(command, c)
	}
	l := s.get(c.Key())
	holder, _ := c.Args.Holder.(string)
	holds := l != nil && l.holder == holder
	switch command {
	case "acquire":
		return wire.Reply{N: s.acquire(c, l, holder)}
	case "hand over":
		return wire.Reply{N: s.handOver(c, l, holder)}
	case "count":
		if !holds {
			return wire.Reply{}
		}
		l.count, _ = c.Args.Extra.(int)
		l.extend(c.Args.Millis)
		return wire.Reply{N: 1}
	case "release", "force":
		if c.Args.Millis > 0 && command == "release" {
			s.tombsOf(c)[c.Args.Number] = time.Now().Add(time.Duration(c.Args.Millis) * time.Millisecond)
		}
		if !holds && (command == "release" || l == nil) {
			return wire.Reply{}
		}
		delete(s.locks, c.Key())
		channel, _ := c.Args.Channel.(string)
		if heard := s.announce(channel); command == "release" {
			return wire.Reply{N: 1 + heard}
		}
		return wire.Reply{N: 1}
	case "inspect":
		if l == nil {
			return wire.Reply{List: []int64{wire.NoKey, 0, 0}}
		}
		held := int64(0)
		if holds {
			held = 1
		}
		return wire.Reply{List: []int64{left(l.expires), 1, held}}
	}
	return rejected("unknown")
}

func (s *server) tombsOf(c *wire.Call) map[int64]time.Time {
	key, _ := c.Keys[len(c.Keys)-1].(string)
	if s.tombs[key] == nil {
		s.tombs[key] = make(map[int64]time.Time)
	}
	return s.tombs[key]
}

func (s *server) acquire(c *wire.Call, l *lockInRedis, holder string) int64 {
	if until, ok := s.tombsOf(c)[c.Args.Number]; ok && time.Now().Before(until) {
		return -1
	}
	switch {
	case l == nil:
		l = &lockInRedis{holder: holder, count: 1}
		s.locks[c.Key()] = l
		s.tokens++
	case l.holder != holder:
		return -1 - left(l.expires)
	}
	l.extend(c.Args.Millis)
	return s.token(c)
}

func (s *server) handOver(c *wire.Call, l *lockInRedis, next string) int64 {
	if until, ok := s.tombsOf(c)[c.Args.Number]; ok && time.Now().Before(until) {
		return -2
	}
	switch {
	case l == nil || l.holder != next && l.holder != c.Args.Channel:
		return wire.LastGone
	case l.holder != next:
		*l = lockInRedis{holder: next, count: 1}
		s.tokens++
	}
	l.extend(c.Args.Millis)
	return s.token(c)
}

func (s *server) token(c *wire.Call) int64 {
	if c.Script == wire.Fenced.Acquire || c.Script == wire.FencedWrite.Acquire || c.Script == wire.Fenced.HandOver {
		return s.tokens
	}
	return 0
}

func (s *server) renew(c *wire.Call) wire.Reply {
	list := make([]int64, len(c.Keys))
	millis, _ := c.Argv[0].(int64)
	for i, key := range c.Keys {
		name, _ := key.(string)
		if l := s.get(name); l != nil && l.holder == c.Argv[i+1] {
			l.extend(millis)
			list[i] = 1
		}
	}
	return wire.Reply{List: list}
}

// announce tells those who listen to a channel that a lock is free. It returns how many the last message reaches.
func (s *server) announce(channel string) (heard int64) {
	for _, message := range s.frees {
		heard = s.publish(channel, message)
	}
	return heard
}

// publish sends a message, and returns how many it reaches.
func (s *server) publish(channel, payload string) (heard int64) {
	for _, sub := range s.subs {
		if !slices.Contains(sub.channels, channel) {
			continue
		}
		heard++
		m := driver.Message{Sort: driver.Published, Channel: channel, Payload: payload}
		if s.late > 0 && strings.HasPrefix(payload, "6 ") {
			time.AfterFunc(s.late, func() { sub.arrives <- m })
			continue
		}
		sub.arrives <- m
	}
	return heard
}

// numsub returns how many listen to a channel.
func (s *server) numsub(channel string) (n int64) {
	for _, sub := range s.subs {
		if slices.Contains(sub.channels, channel) {
			n++
		}
	}
	return n
}

// client is a driver of one process.
type client struct {
	driver.Driver // the methods that these tests never need

	server *server
	info   driver.Info
	closed atomic.Bool
}

func (d *client) Info() driver.Info { return d.info }

func (d *client) Refresh() {}

func (d *client) Close(context.Context) { d.closed.Store(true) }

func (d *client) Node(context.Context, string) (driver.Node, *fault.Error) { return nil, nil }

func (d *client) Run(_ context.Context, _ driver.Node, c wire.Call) wire.Reply {
	return d.server.run(c)
}

func (d *client) Pipe(_ context.Context, _ driver.Node, calls []wire.Call, _ *driver.Acks, out []wire.Reply) {
	for i, c := range calls {
		out[i] = d.server.run(c)
	}
}

func (d *client) Subscribe(context.Context, driver.Node, bool) driver.Subscription {
	sub := newSubscription(d.server)
	d.server.mu.Lock()
	defer d.server.mu.Unlock()
	d.server.subs = append(d.server.subs, sub)
	return sub
}

var errConnectionReset = errors.New("connection reset")

// network is a command whose reply was lost.
func network() wire.Reply {
	return wire.Reply{N: -1, Err: &fault.Error{
		Fate: fault.InDoubt, Transient: true, Stale: true, Err: errConnectionReset,
	}}
}

// rejected is an error reply that waiting does not help.
func rejected(code string) wire.Reply {
	return wire.Reply{N: -1, Err: &fault.Error{Fate: fault.Rejected, Code: code, Err: errors.New(code + " says the server")}}
}

// busy is an error reply that waiting helps.
func busy() wire.Reply {
	r := rejected("LOADING")
	r.Err.Transient = true
	return r
}
