package simnet

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// sub is a subscription of a driver. It connects at the first Subscribe, and at the next Receive after its connection broke.
type sub struct {
	link    *Link
	sharded bool
	dialing chan struct{} // has a token while somebody connects; a mutex would stop the clock
	in      chan item
	closed  chan struct{}
	once    sync.Once

	mu       sync.Mutex
	conn     *conn
	channels []string
	dials    int
}

type item struct {
	conn *conn
	m    driver.Message
	err  *fault.Error
}

// conn is one connection of a subscription.
type conn struct {
	sub      *sub
	server   *simredis.Subscriber
	mu       sync.Mutex
	outAt    time.Time
	inAt     time.Time
	lostHere bool // nothing arrives any more
	gone     bool // for the server
	n        uint64
}

// Subscribe implements driver.Driver.
func (d *Driver) Subscribe(_ context.Context, _ driver.Node, sharded bool) driver.Subscription {
	return d.link.subscribe(sharded)
}

func (l *Link) subscribe(sharded bool) *sub {
	s := &sub{link: l, sharded: sharded, dialing: make(chan struct{}, 1), in: make(chan item, 1<<12), closed: make(chan struct{})}
	l.mu.Lock()
	l.subs[s] = struct{}{}
	l.order = append(l.order, s)
	l.mu.Unlock()
	return s
}

// NewSubscription is for foreign clients.
func (l *Link) NewSubscription() driver.Subscription { return l.subscribe(false) }

func (s *sub) channelsText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Sorted(slices.Values(s.channels))
	return strings.Join(all, " ")
}

// connect connects if there is no connection.
func (s *sub) connect() *fault.Error {
	select {
	case s.dialing <- struct{}{}:
	case <-s.closed:
		return closedError()
	}
	defer func() { <-s.dialing }()
	s.mu.Lock()
	have := s.conn != nil
	s.dials++
	s.mu.Unlock()
	if have {
		return nil
	}
	l := s.link
	time.Sleep(l.delay(key("dial")))
	switch {
	case l.Dead():
		time.Sleep(5 * time.Second)
		return notSent(errTimeout)
	case l.w.IsDown():
		return notSent(errRefused)
	}
	if b := l.blocked(); b > 0 {
		if b > 5*time.Second {
			time.Sleep(5 * time.Second)
			return notSent(errTimeout)
		}
		time.Sleep(b)
	}
	c := &conn{sub: s}
	c.server = &simredis.Subscriber{Send: func(channel, payload string) {
		l.w.Messages++
		l.w.record(Event{What: "message", Sub: c.server, Args: []string{channel, payload}})
		l.w.note("message to %s on %s: %s", l.Name, channel, payload)
		c.arrive(driver.Message{Sort: driver.Published, Channel: channel, Payload: payload}, nil)
	}}
	s.mu.Lock()
	s.conn = c
	s.mu.Unlock()
	return nil
}

func closedError() *fault.Error {
	return &fault.Error{Fate: fault.NotSent, Err: driver.ErrSubscriptionClosed}
}

// arrive has something arrive at the client, after everything that was sent before. The world may be locked.
func (c *conn) arrive(m driver.Message, err *fault.Error) {
	l := c.sub.link
	d := l.delay(key("in", m.Channel, m.Payload))
	l.mu.Lock()
	cut := time.Until(l.cut)
	l.mu.Unlock()
	if cut > 0 {
		d += cut
	}
	c.mu.Lock()
	at := time.Now().Add(d)
	if !at.After(c.inAt) {
		at = c.inAt.Add(time.Nanosecond)
	}
	c.inAt = at
	c.mu.Unlock()
	time.AfterFunc(time.Until(at), func() {
		c.mu.Lock()
		lost := c.lostHere && err == nil
		c.mu.Unlock()
		if lost || l.Dead() {
			return
		}
		select {
		case c.sub.in <- item{c, m, err}:
		case <-c.sub.closed:
		}
	})
}

// send has something happen at the server, after everything that was sent before.
func (c *conn) send(k uint64, f func(s *simredis.Server)) {
	l := c.sub.link
	d := l.delay(k)
	if b := l.blocked(); b > 0 {
		d += b
	}
	c.mu.Lock()
	at := time.Now().Add(d)
	if !at.After(c.outAt) {
		at = c.outAt.Add(time.Nanosecond)
	}
	c.outAt = at
	lost := c.lostHere
	c.mu.Unlock()
	if lost || l.Dead() {
		return
	}
	time.AfterFunc(time.Until(at), func() {
		c.mu.Lock()
		gone := c.gone
		c.mu.Unlock()
		if gone || l.w.IsDown() {
			return
		}
		l.w.With(f)
	})
}

func (s *sub) order(c *conn, channels []string) {
	k := key(append([]string{"subscribe"}, channels...)...)
	c.send(k, func(server *simredis.Server) {
		s.link.w.note("%s subscribes %v", s.link.Name, channels)
		s.link.w.record(Event{What: "subscribe", Sub: c.server, Args: channels})
		for _, channel := range channels {
			server.Subscribe(channel, c.server, s.sharded)
			c.arrive(driver.Message{Sort: driver.Subscribed, Channel: channel}, nil)
		}
	})
}

// Subscribe implements driver.Subscription.
func (s *sub) Subscribe(_ context.Context, channels ...string) *fault.Error {
	if len(channels) == 0 {
		return nil
	}
	s.mu.Lock()
	for _, c := range channels {
		if !slices.Contains(s.channels, c) {
			s.channels = append(s.channels, c)
		}
	}
	s.mu.Unlock()
	if err := s.connect(); err != nil {
		return err
	}
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil {
		s.order(c, slices.Clone(channels))
	}
	return nil
}

// Unsubscribe implements driver.Subscription.
func (s *sub) Unsubscribe(_ context.Context, channels ...string) *fault.Error {
	if len(channels) == 0 {
		return nil
	}
	s.mu.Lock()
	s.channels = slices.DeleteFunc(s.channels, func(c string) bool { return slices.Contains(channels, c) })
	c := s.conn
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	channels = slices.Clone(channels)
	k := key(append([]string{"unsubscribe"}, channels...)...)
	c.send(k, func(server *simredis.Server) {
		s.link.w.note("%s unsubscribes %v", s.link.Name, channels)
		s.link.w.record(Event{What: "unsubscribe", Sub: c.server, Args: channels})
		for _, channel := range channels {
			server.Unsubscribe(channel, c.server, s.sharded)
			c.arrive(driver.Message{Sort: driver.Unsubscribed, Channel: channel}, nil)
		}
	})
	return nil
}

// Ping implements driver.Subscription.
func (s *sub) Ping(context.Context) *fault.Error {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil {
		c.send(key("ping"), func(*simredis.Server) { c.arrive(driver.Message{}, nil) })
	}
	return nil
}

// Receive implements driver.Subscription.
func (s *sub) Receive(context.Context) (driver.Message, *fault.Error) {
	s.mu.Lock()
	again := s.conn == nil && s.dials > 0
	s.mu.Unlock()
	if again {
		if err := s.connect(); err != nil {
			return driver.Message{}, err
		}
		s.mu.Lock()
		c, channels := s.conn, slices.Clone(s.channels)
		s.mu.Unlock()
		if c != nil && len(channels) > 0 {
			slices.Sort(channels)
			s.order(c, channels)
		}
	}
	for {
		select {
		case <-s.closed:
			return driver.Message{}, closedError()
		case it := <-s.in:
			s.mu.Lock()
			mine := s.conn == it.conn
			if mine && it.err != nil {
				s.conn = nil
			}
			s.mu.Unlock()
			if !mine {
				continue
			}
			return it.m, it.err
		}
	}
}

// Close implements driver.Subscription.
func (s *sub) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.link.mu.Lock()
		delete(s.link.subs, s)
		s.link.order = slices.DeleteFunc(s.link.order, func(o *sub) bool { return o == s })
		s.link.mu.Unlock()
		s.serverLoses(s.link.delay(key("close")))
	})
	return nil
}

// serverLoses has the server notice a moment later that the connection is gone.
func (s *sub) serverLoses(after time.Duration) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.goneAfter(after)
}

func (c *conn) goneAfter(d time.Duration) {
	drop := func() {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		c.sub.link.w.With(func(server *simredis.Server) {
			c.sub.link.w.note("the server loses a subscriber of %s", c.sub.link.Name)
			c.sub.link.w.record(Event{What: "drop", Sub: c.server})
			server.Drop(c.server)
		})
	}
	if d <= 0 {
		drop()
		return
	}
	time.AfterFunc(d, drop)
}

func (s *sub) breaks(silent bool, serverAfter time.Duration) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	c.lostHere = true
	c.mu.Unlock()
	if !silent {
		c.arrive(driver.Message{}, inDoubt(errReset))
	}
	c.goneAfter(serverAfter)
}
