package client

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// server is a Redis in memory, which runs the real scripts. It is safe for concurrent use.
type server struct {
	mu    sync.Mutex
	redis *simredis.Server
	subs  []*subscription
	base  string   // Redisson's channel of the tests' lock
	frees []string // what a release announces there
	sent  []string // the commands that were carried out

	// intercept, if it is not nil, carries out the commands in place of the server. It runs them by run.
	intercept func(command string, run func() wire.Reply) wire.Reply
	// confirms is how long Redis takes to confirm a subscription.
	confirms time.Duration
	// late is how long a grant is on its way to the waiter.
	late time.Duration
	// loses reports whether a message is lost. Nil means that none is.
	loses func(payload string) bool
	// denied means that the user lacks a right that the scripts of the line need.
	denied bool
	// deaf is a channel to which Redis lets no client subscribe, nor to its twin. It says nothing about that.
	deaf string
}

func newServer() *server {
	return &server{redis: simredis.New(time.Now), base: wire.NewNames(wire.Plain, name, "").Base(), frees: []string{"0"}}
}

// commands has the names of the scripts.
var commands = func() map[*wire.Script]string {
	all := make(map[*wire.Script]string)
	for name, s := range wire.Others {
		all[s] = name
	}
	for _, k := range []*wire.Kind{wire.Plain, wire.Fenced, wire.Write, wire.FencedWrite} {
		all[k.Acquire], all[k.Release], all[k.Force], all[k.HandOver] = "acquire", "release", "force", "hand over"
		all[k.Count], all[k.Renew], all[k.Inspect] = "count", "renew", "inspect"
		all[k.Line.Acquire], all[k.Line.Release], all[k.Line.Force], all[k.Line.Pump] = "acquire", "release", "force", "pump"
	}
	return all
}()

// run carries out a call, or has the test do so.
func (s *server) run(c wire.Call) wire.Reply {
	s.mu.Lock()
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil {
		return intercept(commands[c.Script], func() wire.Reply { return s.execute(&c) })
	}
	return s.execute(&c)
}

func (s *server) execute(c *wire.Call) wire.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, commands[c.Script])
	if s.denied && len(c.Keys) > 1 && c.Keys[1] == lineKey {
		return rejected("NOPERM")
	}
	return s.redis.Call(c)
}

// do runs a command of somebody else.
func (s *server) do(args ...string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redis.Do(args...)
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

// lockInRedis is what the hash of a lock with one holder says.
type lockInRedis struct {
	holder  string
	count   int
	expires time.Time
}

// held returns the tests' lock as it is now, while it is held, or nil.
func (s *server) held() *lockInRedis {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields, _ := s.redis.Do("HGETALL", name).([]any)
	var l *lockInRedis
	for i := 0; i < len(fields); i += 2 {
		if holder, count := text(fields[i]), text(fields[i+1]); holder != "mode" {
			l = &lockInRedis{holder: holder}
			l.count, _ = strconv.Atoi(count)
			left, _ := s.redis.Do("PTTL", name).(int64)
			l.expires = time.Now().Truncate(time.Millisecond).Add(time.Duration(left) * time.Millisecond)
		}
	}
	return l
}

func text(reply any) string {
	s, _ := reply.(string)
	return s
}

// deny takes a right from the user that the scripts of the line need, or returns it.
func (s *server) deny(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = denied
}

// drop deletes the tests' lock without a message, as an operator does.
func (s *server) drop() { s.do("DEL", name) }

// announce tells those who listen to Redisson's channel that the tests' lock is free.
func (s *server) announce() {
	for _, message := range s.frees {
		s.do("PUBLISH", s.base, message)
	}
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
