package rlockrueidis

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// Subscribe opens a subscription on a connection of its own. It connects at the first SUBSCRIBE.
func (d *conn) Subscribe(_ context.Context, at driver.Node, sharded bool) driver.Subscription {
	return &subscription{
		conn: d, node: at, sharded: sharded, channels: make(map[string]struct{}), news: make(chan struct{}, 1),
		closed: make(chan struct{}),
	}
}

// subscription is one subscription connection. rueidis does not connect again by itself, so Receive does that.
//
// Each channel has a SUBSCRIBE of its own: a cluster takes only sharded channels of one slot in one command, and Redis refuses a whole
// command because of one channel.
type subscription struct {
	conn    *conn
	node    driver.Node
	sharded bool
	closed  chan struct{}
	news    chan struct{} // has a token when there is something to receive

	ordering sync.Mutex // held while commands are sent, so that they are sent in order

	mu       sync.Mutex
	line     *line // nil until it connects, and after it broke
	channels map[string]struct{}
	got      []received
	ended    bool
}

// line is a connection, and ends with it.
type line struct {
	client rueidis.DedicatedClient
}

// received is a message or an error.
type received struct {
	message driver.Message
	err     *fault.Error
}

// Subscribe sends a SUBSCRIBE for each channel, and returns once Redis has answered all of them.
func (s *subscription) Subscribe(ctx context.Context, channels ...string) *fault.Error {
	if len(channels) == 0 {
		return nil
	}
	s.ordering.Lock()
	defer s.ordering.Unlock()
	s.mu.Lock()
	for _, channel := range channels {
		s.channels[channel] = struct{}{}
	}
	fresh := s.line == nil
	s.mu.Unlock()
	if fresh {
		return s.connect(ctx) // which subscribes all channels
	}
	return s.send(ctx, s.current(), subscribe(s.sharded), channels)
}

// Unsubscribe sends an UNSUBSCRIBE for each channel.
func (s *subscription) Unsubscribe(ctx context.Context, channels ...string) *fault.Error {
	s.ordering.Lock()
	defer s.ordering.Unlock()
	s.mu.Lock()
	for _, channel := range channels {
		delete(s.channels, channel)
	}
	s.mu.Unlock()
	if l := s.current(); l != nil && len(channels) > 0 {
		return s.send(ctx, l, unsubscribe(s.sharded), channels)
	}
	return nil
}

// Ping sends PING. Receive returns the reply.
func (s *subscription) Ping(ctx context.Context) *fault.Error {
	l := s.current()
	if l == nil {
		return nil
	}
	r := l.client.Do(ctx, l.client.B().Arbitrary("PING").Build())
	if err := r.NonRedisError(); err != nil {
		return s.conn.classify(err)
	}
	s.put(l, received{})
	return nil
}

// Receive waits for what arrives next. After an error it connects again.
func (s *subscription) Receive(ctx context.Context) (driver.Message, *fault.Error) {
	for {
		s.mu.Lock()
		switch {
		case s.ended:
			s.mu.Unlock()
			return driver.Message{}, &fault.Error{Fate: fault.NotSent, Err: driver.ErrSubscriptionClosed}
		case len(s.got) > 0:
			next := s.got[0]
			s.got = s.got[1:]
			s.mu.Unlock()
			return next.message, next.err
		}
		broken := s.line == nil && len(s.channels) > 0
		s.mu.Unlock()
		if broken {
			if err := s.reconnect(ctx); err != nil {
				return driver.Message{}, err
			}
			continue
		}
		select {
		case <-s.news:
		case <-s.closed:
		case <-ctx.Done():
			return driver.Message{}, s.conn.classify(ctx.Err())
		}
	}
}

// Close closes the connection. It waits while rueidis connects.
func (s *subscription) Close() error {
	s.mu.Lock()
	ended := s.ended
	s.ended = true
	s.mu.Unlock()
	if ended {
		return nil
	}
	close(s.closed)
	s.ordering.Lock()
	defer s.ordering.Unlock()
	s.mu.Lock()
	l := s.line
	s.line = nil
	s.mu.Unlock()
	if l != nil {
		l.client.Close()
	}
	return nil
}

func (s *subscription) current() *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}

// reconnect connects after the connection broke, unless another goroutine has done so.
func (s *subscription) reconnect(ctx context.Context) *fault.Error {
	s.ordering.Lock()
	defer s.ordering.Unlock()
	if s.current() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.conn.timeout)
	defer cancel()
	return s.connect(ctx)
}

// connect takes a connection, and subscribes all channels. s.ordering must be held.
func (s *subscription) connect(ctx context.Context) *fault.Error {
	client, f := s.conn.listener(s.node)
	if f != nil {
		return f
	}
	dedicated, _ := client.Dedicate()
	l := &line{client: dedicated}
	broke := dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			s.put(l, received{message: driver.Message{Sort: driver.Published, Channel: m.Channel, Payload: m.Message}})
		},
		OnSubscription: func(m rueidis.PubSubSubscription) { s.put(l, received{message: confirmation(m)}) },
	})
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		dedicated.Close()
		return nil
	}
	s.line = l
	channels := make([]string, 0, len(s.channels))
	for channel := range s.channels {
		channels = append(channels, channel)
	}
	s.mu.Unlock()
	go func() {
		if err := <-broke; err != nil {
			s.lose(l, err)
		}
	}()
	err := s.send(ctx, l, subscribe(s.sharded), channels)
	if err != nil {
		s.lose(l, nil)
	}
	return err
}

// lose gives a broken connection up. Receive returns the error, unless it is nil.
func (s *subscription) lose(l *line, err error) {
	if err != nil && !errors.Is(err, rueidis.ErrClosing) {
		s.put(l, received{err: s.conn.classify(err)})
	}
	s.mu.Lock()
	lost := s.line == l
	if lost {
		s.line = nil
	}
	s.mu.Unlock()
	if lost {
		l.client.Close()
		s.wake()
	}
}

// put adds something to receive, unless its connection has been given up.
func (s *subscription) put(l *line, r received) {
	s.mu.Lock()
	present := s.line == l && !s.ended
	if present {
		s.got = append(s.got, r)
	}
	s.mu.Unlock()
	if present {
		s.wake()
	}
}

func (s *subscription) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// send sends a command for each channel, and waits for the replies. Receive returns the errors that Redis replies.
func (s *subscription) send(
	ctx context.Context, l *line, command func(rueidis.Builder, string) rueidis.Completed, channels []string,
) *fault.Error {
	if l == nil || len(channels) == 0 {
		return nil
	}
	cmds := make([]rueidis.Completed, len(channels))
	for i, channel := range channels {
		cmds[i] = command(l.client.B(), channel)
	}
	var first *fault.Error
	for _, r := range l.client.DoMulti(ctx, cmds...) {
		switch err := r.Error(); {
		case err == nil:
		case r.NonRedisError() == nil:
			s.put(l, received{err: s.conn.classify(err)})
		case first == nil:
			first = s.conn.classify(err)
		}
	}
	return first
}

// subscribe and unsubscribe return the command for one channel.
func subscribe(sharded bool) func(rueidis.Builder, string) rueidis.Completed {
	if sharded {
		return func(b rueidis.Builder, channel string) rueidis.Completed {
			return b.Ssubscribe().Channel(channel).Build()
		}
	}
	return func(b rueidis.Builder, channel string) rueidis.Completed {
		return b.Subscribe().Channel(channel).Build()
	}
}

func unsubscribe(sharded bool) func(rueidis.Builder, string) rueidis.Completed {
	if sharded {
		return func(b rueidis.Builder, channel string) rueidis.Completed {
			return b.Sunsubscribe().Channel(channel).Build()
		}
	}
	return func(b rueidis.Builder, channel string) rueidis.Completed {
		return b.Unsubscribe().Channel(channel).Build()
	}
}

func confirmation(m rueidis.PubSubSubscription) driver.Message {
	switch m.Kind {
	case "subscribe", "ssubscribe":
		return driver.Message{Sort: driver.Subscribed, Channel: m.Channel}
	case "unsubscribe", "sunsubscribe":
		return driver.Message{Sort: driver.Unsubscribed, Channel: m.Channel}
	}
	return driver.Message{}
}

// listener returns the client that takes a subscription connection: any node of a cluster has the messages of channels that are not
// sharded.
func (d *conn) listener(at driver.Node) (rueidis.Client, *fault.Error) {
	if at != nil || !d.cluster {
		return d.at(at)
	}
	for _, client := range d.client.Nodes() { // in any order
		return client, nil
	}
	return nil, unknownNode(rueidis.ErrNoSlot)
}
