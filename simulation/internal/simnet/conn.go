package simnet

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// conn is one connection of a subscription. What is sent on it arrives in order, in both directions.
type conn struct {
	sub    *subscription
	link   *Link
	server *simredis.Conn

	mu     sync.Mutex
	outAt  time.Time // when the last packet arrives at the server
	inAt   time.Time // when the last packet arrives at the client
	broken bool      // no packet arrives at the client any more, nor at the server
	gone   bool      // the server knows it
}

// connect connects a subscription to the server. It returns nil if the server refuses that.
func (l *Link) connect(sub *subscription) *conn {
	c := &conn{sub: sub, link: l}
	var err error
	l.server.With(func(r *simredis.Server) {
		c.server, err = r.Connect("127.0.0.1:1", c.publish, nil)
	})
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c
}

// after returns the moment at which a packet arrives that takes so long, but not before the last one.
func after(last *time.Time, d time.Duration) time.Duration {
	at := time.Now().Add(d)
	if !at.After(*last) {
		at = last.Add(time.Nanosecond)
	}
	*last = at
	return time.Until(at)
}

// publish has something on its way that the server sends by itself. The server is locked.
func (c *conn) publish(message []any) {
	kind, channel := text(message[0]), text(message[1])
	if kind == "sunsubscribe" {
		c.link.server.trace.Note("%s ends the subscription of %s to %s", c.link.server.name, c.link.name, channel)
		c.arrive(driver.Message{Sort: driver.Unsubscribed, Channel: channel}, nil)
		return
	}
	payload := text(message[2])
	c.link.server.trace.Note("%s tells %s on %s: %s", c.link.server.name, c.link.name, channel, payload)
	c.arrive(driver.Message{Sort: driver.Published, Channel: channel, Payload: payload}, nil)
}

// arrive has something arrive at the client. The server may be locked.
func (c *conn) arrive(m driver.Message, err *fault.Error) {
	l := c.link
	way := l.delay("in", m.Channel, m.Payload)
	l.mu.Lock()
	cut := max(time.Until(l.cut), 0)
	if l.clog.Messages {
		cut = max(cut, time.Until(l.clog.until))
	}
	l.mu.Unlock()
	c.mu.Lock()
	d := after(&c.inAt, way+cut)
	c.mu.Unlock()
	later(d, func() {
		c.mu.Lock()
		lost := c.broken && (err == nil || err.Replied())
		c.mu.Unlock()
		if lost || l.Dead() {
			return
		}
		select {
		case c.sub.in <- arrival{c, m, err, time.Now()}:
		case <-c.sub.closed:
		}
	})
}

// send has something happen at the server.
func (c *conn) send(f func(), event ...string) {
	l := c.link
	d := l.delay(event...) + l.blocked()
	c.mu.Lock()
	d = after(&c.outAt, d)
	broken := c.broken
	c.mu.Unlock()
	if broken || l.Dead() {
		return
	}
	later(d, func() {
		c.mu.Lock()
		gone := c.gone
		c.mu.Unlock()
		if !gone && !l.server.IsDown() {
			l.server.With(func(*simredis.Server) { f() })
		}
	})
}

// subscribe and unsubscribe send the command. On a sharded connection each channel has one of its own.
func (c *conn) subscribe(channels []string) {
	c.command("SUBSCRIBE", "subscribes", driver.Subscribed, channels)
}

func (c *conn) unsubscribe(channels []string) {
	c.command("UNSUBSCRIBE", "unsubscribes", driver.Unsubscribed, channels)
}

// unsubscribeAgain does so for what Redis has refused to unsubscribe, and nobody wants now either.
func (c *conn) unsubscribeAgain(channels []string) {
	c.sub.mu.Lock()
	channels = slices.DeleteFunc(slices.Clone(channels), func(name string) bool { return slices.Contains(c.sub.channels, name) })
	c.sub.mu.Unlock()
	if len(channels) > 0 {
		c.unsubscribe(channels)
	}
}

func (c *conn) command(name, verb string, sort driver.MessageSort, channels []string) {
	l, size := c.link, len(channels)
	if c.sub.sharded {
		name, size = "S"+name, 1
	}
	c.send(func() {
		l.server.trace.Note("%s %s %v", l.name, verb, channels)
		for some := range slices.Chunk(channels, size) {
			switch reply := c.server.Do(append([]string{name}, some...)...).(type) {
			case simredis.Err:
				l.server.trace.Note("%s refuses that to %s: %s", l.server.name, l.name, reply)
				f := driver.Rejected(reply, string(reply), l.server.kin.isCluster())
				if c.arrive(driver.Message{}, f); f.Transient && sort == driver.Unsubscribed {
					later(time.Second, func() { c.unsubscribeAgain(some) })
				}
			case simredis.Several:
				for _, channel := range some {
					c.arrive(driver.Message{Sort: sort, Channel: channel}, nil)
				}
			}
		}
	}, strings.ToLower(name), strings.Join(channels, " "))
}

// lostByServer has the server notice after a while that the connection is gone.
func (c *conn) lostByServer(d time.Duration) {
	l := c.link
	drop := func() {
		c.mu.Lock()
		known := c.gone
		c.gone = true
		c.mu.Unlock()
		if known {
			return
		}
		l.mu.Lock()
		l.conns = slices.DeleteFunc(l.conns, func(o *conn) bool { return o == c })
		l.mu.Unlock()
		l.server.With(func(*simredis.Server) {
			l.server.trace.Note("%s loses a subscriber of %s", l.server.name, l.name)
			c.server.Close()
		})
	}
	if d <= 0 {
		drop()
		return
	}
	later(d, drop)
}

// breaks breaks the connection, see [Link.BreakSubscriptions].
func (c *conn) breaks(silent bool, serverAfter time.Duration) {
	c.mu.Lock()
	known := c.broken
	c.broken = true
	c.mu.Unlock()
	if known && silent {
		return
	}
	if !silent {
		c.arrive(driver.Message{}, inDoubt(errReset))
	}
	c.lostByServer(serverAfter)
}
