package simredis

import (
	"slices"
	"strings"
)

// subscribed is what a connection has subscribed.
type subscribed struct {
	channels, patterns, shards []string
	plain, sharded             *Subscriber // nil before the first subscription
}

// subscriptions returns how many there are.
func (d *subscribed) subscriptions() int { return len(d.channels) + len(d.patterns) + len(d.shards) }

// listens reports whether the connection can do little else than listen.
func (c *Conn) listens() bool { return c.protocol == 2 && c.subscriptions() > 0 }

// dropSubscriptions ends all.
func (c *Conn) dropSubscriptions() {
	if c.plain != nil {
		c.server.Drop(c.plain)
		c.server.Drop(c.sharded)
	}
	c.subscribed = subscribed{}
}

// subscribers makes the subscribers of the connection.
func (c *Conn) subscribers() {
	if c.plain != nil {
		return
	}
	tell := func(message ...any) {
		if c.send != nil {
			c.send(message)
		}
	}
	c.plain = &Subscriber{
		Send:         func(channel, payload string) { tell("message", channel, payload) },
		SendMatching: func(pattern, channel, payload string) { tell("pmessage", pattern, channel, payload) },
	}
	c.sharded = &Subscriber{Send: func(channel, payload string) { tell("smessage", channel, payload) }}
}

// subscribing is one of the three sorts of subscriptions.
type subscribing struct {
	list func(c *Conn) *[]string
	in   func(s *Server) subscriptions
	sub  func(c *Conn) *Subscriber
}

var sorts = map[string]subscribing{
	"subscribe": {
		func(c *Conn) *[]string { return &c.channels }, func(s *Server) subscriptions { return s.plain },
		func(c *Conn) *Subscriber { return c.plain },
	},
	"psubscribe": {
		func(c *Conn) *[]string { return &c.patterns }, func(s *Server) subscriptions { return s.patterns },
		func(c *Conn) *Subscriber { return c.plain },
	},
	"ssubscribe": {
		func(c *Conn) *[]string { return &c.shards }, func(s *Server) subscriptions { return s.sharded },
		func(c *Conn) *Subscriber { return c.sharded },
	},
}

// count returns the number in a confirmation: of sharded channels, or of all others.
func (c *Conn) count(name string) int64 {
	if strings.HasPrefix(name, "s") && name != "subscribe" {
		return int64(len(c.shards))
	}
	return int64(len(c.channels) + len(c.patterns))
}

func cmdSubscribe(c *Conn, a []string) any {
	if c == c.server.own {
		return Err("ERR simredis subscribes by its methods")
	}
	c.subscribers()
	name := strings.ToLower(a[0])
	of := sorts[name]
	var replies Several
	for _, what := range a[1:] {
		if list := of.list(c); !slices.Contains(*list, what) {
			*list = append(*list, what)
			of.in(c.server).add(what, of.sub(c))
		}
		replies = append(replies, []any{name, what, c.count(name)})
	}
	return replies
}

func cmdUnsubscribe(c *Conn, a []string) any {
	name := strings.ToLower(a[0])
	of := sorts[strings.Replace(name, "un", "", 1)]
	list := of.list(c)
	names := a[1:]
	if len(names) == 0 {
		names = c.server.shuffle(slices.Clone(*list))
	}
	kind := strings.Replace(name, "un", "", 1)
	if len(names) == 0 {
		return Several{[]any{name, nil, c.count(kind)}}
	}
	var replies Several
	for _, what := range names {
		if i := slices.Index(*list, what); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			of.in(c.server).remove(what, of.sub(c))
		}
		replies = append(replies, []any{name, what, c.count(kind)})
	}
	return replies
}

// cmdPing is PING, which is another one while there are subscriptions.
func cmdPing(c *Conn, a []string) any {
	switch {
	case len(a) > 2:
		return errArity("ping")
	case c.listens() && len(a) == 1:
		return []any{"pong", ""}
	case c.listens():
		return []any{"pong", a[1]}
	case len(a) == 1:
		return Status("PONG")
	}
	return a[1]
}
