package client

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// subscription is a subscription connection. The server's mutex guards its channels.
type subscription struct {
	server   *server
	arrives  chan driver.Message
	breaks   chan *fault.Error
	once     sync.Once
	closed   chan struct{}
	channels []string
	foreign  bool // it belongs to no client
	sub      *simredis.Subscriber
}

func newSubscription(of *server) *subscription {
	s := &subscription{
		server: of, arrives: make(chan driver.Message, 1000), breaks: make(chan *fault.Error, 10), closed: make(chan struct{}),
	}
	s.sub = &simredis.Subscriber{Send: func(channel, payload string) {
		if of.loses != nil && of.loses(payload) {
			return
		}
		m := driver.Message{Sort: driver.Published, Channel: channel, Payload: payload}
		if of.late > 0 && strings.HasPrefix(payload, "6 ") {
			time.AfterFunc(of.late, func() { s.arrives <- m })
			return
		}
		s.arrives <- m
	}}
	return s
}

// deafen ends all subscriptions. The server's mutex must be held.
func (s *subscription) deafen() {
	s.server.redis.Drop(s.sub)
	s.channels = nil
}

func (s *subscription) Subscribe(_ context.Context, channels ...string) *fault.Error {
	if s.server.confirms == 0 {
		s.confirm(channels)
	} else {
		time.AfterFunc(s.server.confirms, func() { s.confirm(channels) })
	}
	return nil
}

// confirm subscribes channels, and confirms that, unless it is closed: nobody reads it any more then, so that whoever sends to it would block
// with the mutex, and nothing in the bubble could go on.
func (s *subscription) confirm(channels []string) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	select {
	case <-s.closed:
		return
	default:
	}
	for _, channel := range channels {
		if s.server.deaf != "" && (channel == s.server.deaf || channel == s.server.deaf+":rlock-twin") {
			continue
		}
		if !slices.Contains(s.channels, channel) {
			s.channels = append(s.channels, channel)
			s.server.redis.Subscribe(channel, s.sub, false)
		}
		s.arrives <- driver.Message{Sort: driver.Subscribed, Channel: channel}
	}
}

func (s *subscription) Unsubscribe(_ context.Context, channels ...string) *fault.Error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.channels = slices.DeleteFunc(s.channels, func(channel string) bool { return slices.Contains(channels, channel) })
	for _, channel := range channels {
		s.server.redis.Unsubscribe(channel, s.sub, false)
		s.arrives <- driver.Message{Sort: driver.Unsubscribed, Channel: channel}
	}
	return nil
}

func (s *subscription) Ping(context.Context) *fault.Error {
	s.arrives <- driver.Message{}
	return nil
}

func (s *subscription) Receive(ctx context.Context) (driver.Message, *fault.Error) {
	select {
	case m := <-s.arrives:
		return m, nil
	case err := <-s.breaks:
		return driver.Message{}, err
	case <-s.closed:
		return driver.Message{}, &fault.Error{Err: driver.ErrSubscriptionClosed}
	case <-ctx.Done():
		return driver.Message{}, &fault.Error{Err: ctx.Err()}
	}
}

func (s *subscription) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.deafen()
	})
	return nil
}
