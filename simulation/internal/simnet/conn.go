package simnet

import (
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"

	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// conn is one connection of a subscription. What is sent on it arrives in order, in both directions.
type conn struct {
	sub    *subscription
	server *simredis.Subscriber

	mu     sync.Mutex
	outAt  time.Time // when the last packet arrives at the server
	inAt   time.Time // when the last packet arrives at the client
	broken bool      // no packet arrives at the client any more, nor at the server
	gone   bool      // the server knows it
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

// publish has a message on its way. The server is locked.
func (c *conn) publish(channel, payload string) {
	l := c.sub.link
	l.server.trace.Note("%s tells %s on %s: %s", l.server.name, l.name, channel, payload)
	c.arrive(driver.Message{Sort: driver.Published, Channel: channel, Payload: payload}, nil)
}

// arrive has something arrive at the client. The server may be locked.
func (c *conn) arrive(m driver.Message, err *fault.Error) {
	l := c.sub.link
	way := l.delay("in", m.Channel, m.Payload)
	l.mu.Lock()
	cut := max(time.Until(l.cut), 0)
	l.mu.Unlock()
	c.mu.Lock()
	d := after(&c.inAt, way+cut)
	c.mu.Unlock()
	time.AfterFunc(d, func() {
		c.mu.Lock()
		lost := c.broken && err == nil
		c.mu.Unlock()
		if lost || l.Dead() {
			return
		}
		select {
		case c.sub.in <- arrival{c, m, err}:
		case <-c.sub.closed:
		}
	})
}

// send has something happen at the server.
func (c *conn) send(f func(r *simredis.Server), event ...string) {
	l := c.sub.link
	d := l.delay(event...) + l.blocked()
	c.mu.Lock()
	d = after(&c.outAt, d)
	broken := c.broken
	c.mu.Unlock()
	if broken || l.Dead() {
		return
	}
	time.AfterFunc(d, func() {
		c.mu.Lock()
		gone := c.gone
		c.mu.Unlock()
		if !gone && !l.server.IsDown() {
			l.server.With(f)
		}
	})
}

func (c *conn) subscribe(channels []string) {
	l := c.sub.link
	c.send(func(r *simredis.Server) {
		l.server.trace.Note("%s subscribes %v", l.name, channels)
		for _, channel := range channels {
			r.Subscribe(channel, c.server, c.sub.sharded)
			c.arrive(driver.Message{Sort: driver.Subscribed, Channel: channel}, nil)
		}
	}, "subscribe", strings.Join(channels, " "))
}

func (c *conn) unsubscribe(channels []string) {
	l := c.sub.link
	c.send(func(r *simredis.Server) {
		l.server.trace.Note("%s unsubscribes %v", l.name, channels)
		for _, channel := range channels {
			r.Unsubscribe(channel, c.server, c.sub.sharded)
			c.arrive(driver.Message{Sort: driver.Unsubscribed, Channel: channel}, nil)
		}
	}, "unsubscribe", strings.Join(channels, " "))
}

// lostByServer has the server notice after a while that the connection is gone.
func (c *conn) lostByServer(d time.Duration) {
	l := c.sub.link
	drop := func() {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		l.server.With(func(r *simredis.Server) {
			l.server.trace.Note("%s loses a subscriber of %s", l.server.name, l.name)
			r.Drop(c.server)
		})
	}
	if d <= 0 {
		drop()
		return
	}
	time.AfterFunc(d, drop)
}
