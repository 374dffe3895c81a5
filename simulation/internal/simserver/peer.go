package simserver

import (
	"bufio"
	"net"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// peer is one connection. The server's mu guards it.
type peer struct {
	server *Server
	id     int64
	conn   net.Conn
	out    writer
	name   string

	plain, sharded             *simredis.Subscriber
	channels, shards, patterns []string
	transaction                bool
	queued                     [][]string
	runs                       bool // a command of it runs: its output follows when that has ended
	quits                      bool
}

func newPeer(s *Server, id int64, conn net.Conn) *peer {
	p := &peer{server: s, id: id, conn: conn}
	p.out.protocol = 2
	p.plain = &simredis.Subscriber{
		Send:         func(channel, payload string) { p.push("message", channel, payload) },
		SendMatching: func(pattern, channel, payload string) { p.push("pmessage", pattern, channel, payload) },
	}
	p.sharded = &simredis.Subscriber{Send: func(channel, payload string) { p.push("smessage", channel, payload) }}
	return p
}

// serve runs the commands of the connection.
func (p *peer) serve() {
	s := p.server
	in := bufio.NewReader(p.conn)
	for {
		args, err := readCommand(in)
		s.awaitResume()
		if err != nil || p.quits {
			s.remove(p)
			s.mu.Unlock()
			return
		}
		s.ran(p.id, args)
		p.runs = true
		p.run(args)
		p.runs = false
		if in.Buffered() == 0 || p.quits {
			p.flush()
		}
		if p.quits {
			_ = p.conn.Close()
		}
		s.mu.Unlock()
	}
}

func (p *peer) flush() {
	_, _ = p.conn.Write(p.out.Bytes()) // a client that is gone gets nothing
	p.out.Reset()
}

// push sends what is not a reply.
func (p *peer) push(parts ...any) {
	p.out.push(parts)
	if !p.runs {
		p.flush()
	}
}

// subscribed returns how many channels and patterns it has, without those of shards.
func (p *peer) subscribed() int64 { return int64(len(p.channels) + len(p.patterns)) }

// run runs a command.
func (p *peer) run(args []string) {
	name := strings.ToUpper(args[0])
	switch {
	case p.out.protocol == 2 && p.subscribed()+int64(len(p.shards)) > 0 && !slices.Contains(whileSubscribed, name):
		p.out.reply(simredis.Err("ERR Can't execute '" + strings.ToLower(name) +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"))
	case p.transaction && !slices.Contains([]string{"EXEC", "DISCARD", "MULTI", "QUIT"}, name):
		p.queued = append(p.queued, args)
		p.out.reply(simredis.Status("QUEUED"))
	case strings.HasSuffix(name, "SUBSCRIBE"):
		p.server.count(args)
		p.subscription(name, args[1:])
	default:
		p.out.reply(p.do(name, args))
	}
}

// whileSubscribed are the commands that a subscribed connection may send in RESP2.
var whileSubscribed = []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "PING", "QUIT", "RESET"}

// do runs a command that has one reply.
func (p *peer) do(name string, args []string) any {
	s := p.server
	s.count(args)
	switch name {
	case "HELLO":
		return p.hello(args)
	case "CLIENT":
		return p.client(args)
	case "QUIT":
		p.quits = true
		return simredis.Status("OK")
	case "SELECT":
		if len(args) != 2 || args[1] != "0" {
			return simredis.Err("ERR DB index is out of range")
		}
		return simredis.Status("OK")
	case "MULTI", "EXEC", "DISCARD":
		return p.transact(name)
	case "INFO":
		return s.info(args[1:])
	case "CONFIG":
		if len(args) == 2 && strings.EqualFold(args[1], "RESETSTAT") {
			s.calls, s.opened = map[string]int{}, 0
			return simredis.Status("OK")
		}
	case "PING":
		if p.out.protocol == 2 && p.subscribed()+int64(len(p.shards)) > 0 {
			return []any{"pong", strings.Join(args[1:], "")}
		}
	}
	return s.redis.Do(args...)
}

// transact begins or ends a transaction.
func (p *peer) transact(name string) any {
	if name == "MULTI" {
		if p.transaction {
			return simredis.Err("ERR MULTI calls can not be nested")
		}
		p.transaction = true
		return simredis.Status("OK")
	}
	if !p.transaction {
		return simredis.Err("ERR " + name + " without MULTI")
	}
	queued := p.queued
	p.transaction, p.queued = false, nil
	if name == "DISCARD" {
		return simredis.Status("OK")
	}
	replies := []any{}
	for _, args := range queued {
		replies = append(replies, p.do(strings.ToUpper(args[0]), args))
	}
	return replies
}

// subscription subscribes or unsubscribes. The command has one reply for each channel.
func (p *peer) subscription(name string, channels []string) {
	r := p.server.redis
	list, count := &p.channels, p.subscribed
	var add, remove func(channel string)
	switch strings.TrimSuffix(strings.TrimSuffix(name, "SUBSCRIBE"), "UN") {
	case "S":
		list, count = &p.shards, func() int64 { return int64(len(p.shards)) }
		add = func(c string) { r.Subscribe(c, p.sharded, true) }
		remove = func(c string) { r.Unsubscribe(c, p.sharded, true) }
	case "P":
		list = &p.patterns
		add = func(c string) { r.SubscribePattern(c, p.plain) }
		remove = func(c string) { r.UnsubscribePattern(c, p.plain) }
	default:
		add = func(c string) { r.Subscribe(c, p.plain, false) }
		remove = func(c string) { r.Unsubscribe(c, p.plain, false) }
	}
	word := strings.ToLower(name)
	if !strings.Contains(word, "unsubscribe") {
		if len(channels) == 0 {
			p.out.reply(simredis.Err("ERR wrong number of arguments for '" + word + "' command"))
		}
		for _, c := range channels {
			if !slices.Contains(*list, c) {
				*list = append(*list, c)
			}
			add(c)
			p.out.push([]any{word, c, count()})
		}
		return
	}
	if len(channels) == 0 {
		channels = slices.Clone(*list)
	}
	for _, c := range channels {
		*list = slices.DeleteFunc(*list, func(other string) bool { return other == c })
		remove(c)
		p.out.push([]any{word, c, count()})
	}
	if len(channels) == 0 {
		p.out.push([]any{word, nil, count()})
	}
}
