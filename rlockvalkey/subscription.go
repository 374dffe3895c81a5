// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// Subscribe opens a subscription on a connection of its own. It connects at the first SUBSCRIBE.
func (d *conn) Subscribe(_ context.Context, at driver.Node, sharded bool) driver.Subscription {
	return &subscription{
		conn: d, node: at, sharded: sharded, channels: make(map[string]struct{}), connecting: make(chan struct{}, 1),
		news: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// subscription is one subscription. valkey-go does not connect again by itself, so Receive does that.
//
// It sends UNSUBSCRIBE in a transaction. Behind one that is sent by itself, valkey-go sends PING, and panics in a goroutine of its own if
// Redis replies an error to that, such as BUSY or MISCONF (v1.0.79).
type subscription struct {
	conn       *conn
	node       driver.Node
	sharded    bool
	connecting chan struct{} // has a token while a goroutine connects
	news       chan struct{} // has a token when there is something to receive
	closed     chan struct{}

	mu       sync.Mutex
	line     *line // nil until it connects, and after it broke
	channels map[string]struct{}
	got      []received
	ended    bool
}

// received is a message or an error.
type received struct {
	message driver.Message
	err     *fault.Error
}

// Subscribe connects if it must, and sends a SUBSCRIBE for each channel. It does not wait for the replies.
func (s *subscription) Subscribe(ctx context.Context, channels ...string) *fault.Error {
	s.mu.Lock()
	for _, channel := range channels {
		s.channels[channel] = struct{}{}
	}
	if l := s.line; l != nil {
		l.send(subscribes, channels)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if len(channels) == 0 {
		return nil
	}
	return s.connect(ctx)
}

// unsubscribeWithin is how long Unsubscribe waits for Redis. What the caller sends next should find that this client does not listen.
const unsubscribeWithin = 200 * time.Millisecond

// Unsubscribe drops the messages of channels from now on, and has Redis send no more.
func (s *subscription) Unsubscribe(ctx context.Context, channels ...string) *fault.Error {
	s.mu.Lock()
	for _, channel := range channels {
		delete(s.channels, channel)
	}
	l := s.line
	var done <-chan struct{}
	if l != nil {
		done = l.send(unsubscribes, channels)
	}
	s.mu.Unlock()
	if done == nil {
		return nil
	}
	enough := time.NewTimer(unsubscribeWithin)
	defer enough.Stop()
	select {
	case <-done:
	case <-l.ended:
	case <-ctx.Done():
	case <-enough.C:
	}
	return nil
}

// Ping sends PING. Receive returns the reply, whatever it is.
func (s *subscription) Ping(context.Context) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil {
		s.line.send(pings, []string{""})
	}
	return nil
}

// Receive waits for what arrives next. If there is no connection any more, it connects again.
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
			if err := s.connect(ctx); err != nil {
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

// Close closes the connection. If the server is silent, that takes valkey-go a second.
func (s *subscription) Close() error {
	s.mu.Lock()
	ended, l := s.ended, s.line
	s.ended, s.line = true, nil
	s.mu.Unlock()
	if ended {
		return nil
	}
	close(s.closed)
	if l != nil {
		l.close()
	}
	return nil
}

// connect takes a connection, and subscribes all channels, unless another goroutine has done so.
func (s *subscription) connect(ctx context.Context) *fault.Error {
	ctx, cancel := context.WithTimeout(ctx, s.conn.timeout)
	defer cancel()
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-s.closed:
		return nil
	case <-ctx.Done():
		return s.conn.classify(ctx.Err())
	}
	s.mu.Lock()
	done := s.line != nil || s.ended
	s.mu.Unlock()
	if done {
		return nil
	}
	client, f := s.conn.listener(s.node)
	if f != nil {
		return f
	}
	l, err := s.dial(ctx, client)
	if err != nil {
		return s.conn.classify(err)
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		l.close()
		return nil
	}
	s.line = l
	l.send(subscribes, slices.Collect(maps.Keys(s.channels)))
	s.mu.Unlock()
	go s.watch(l)
	return nil
}

// watch waits until a connection breaks, or is given up.
func (s *subscription) watch(l *line) {
	select {
	case err := <-l.broke:
		s.lose(l, err)
	case <-l.ended:
	}
}

// lose gives up a connection that broke. Receive returns the error, unless it is nil.
func (s *subscription) lose(l *line, err error) {
	s.mu.Lock()
	lost := s.line == l
	if lost {
		s.line = nil
		kept := s.got[:0]
		for _, r := range s.got { // a confirmation would stand for a subscription that is over
			if r.message.Sort != driver.Subscribed {
				kept = append(kept, r)
			}
		}
		s.got = kept
		if err != nil && !errors.Is(err, valkey.ErrClosing) {
			s.got = append(s.got, received{err: s.conn.classify(err)})
		}
	}
	s.mu.Unlock()
	if lost {
		l.close()
		s.wake()
	}
}

// put adds something to receive from a connection, unless it was given up, or nobody wants it any more.
func (s *subscription) put(l *line, r received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, wanted := s.channels[r.message.Channel]; s.line == l && (wanted || r.message.Sort != driver.Published) {
		s.got = append(s.got, r)
		s.wake()
	}
}

// wants reports whether a connection is in use, and a channel is to be subscribed on it.
func (s *subscription) wants(l *line, channel string) (inUse, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, wanted = s.channels[channel]
	return s.line == l, wanted
}

func (s *subscription) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// listener returns the client that takes a subscription connection: any node of a cluster has the messages of channels that are not
// sharded.
func (d *conn) listener(at driver.Node) (valkey.Client, *fault.Error) {
	if at != nil || !d.cluster {
		return d.at(at)
	}
	for _, client := range d.client.Nodes() { // in any order
		return client, nil
	}
	return nil, unknownNode(valkey.ErrNoSlot)
}
