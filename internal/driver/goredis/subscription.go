package goredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// Subscribe opens a subscription connection. go-redis connects at the first SUBSCRIBE, and bounds that by the context it
// gets there. It does not notice that a context ends while it receives: only Close ends a Receive.
func (d *Driver) Subscribe(ctx context.Context, at driver.Node, sharded bool) driver.Subscription {
	s := &subscription{driver: d, sharded: sharded, leaving: make(map[string]struct{})}
	if sharded {
		s.conn = d.listener(at).SSubscribe(ctx)
	} else {
		s.conn = d.listener(at).Subscribe(ctx)
	}
	return s
}

// listener returns the client that opens subscription connections. Hooks never see what these send.
func (d *Driver) listener(at driver.Node) redis.UniversalClient {
	if r := d.to(at); r != nil {
		return r[0]
	}
	return d.rdb
}

// subscription is one subscription connection. After an error, go-redis connects again at the next Receive. On a sharded
// one that fails for several channels: go-redis asks for all of them at once, which a cluster refuses as CROSSSLOT.
//
// go-redis forgets a channel whose UNSUBSCRIBE it has sent. If Redis refuses that for now, as while it runs a script for long, it would go on
// counting this subscription, so the command is sent again.
type subscription struct {
	driver  *Driver
	conn    *redis.PubSub
	sharded bool

	mu      sync.Mutex
	leaving map[string]struct{} // the channels that are unsubscribed, until Redis has confirmed it
	again   time.Time           // when to send that again; zero means never
}

// refusedFor is how long after a refusal Redis is asked again.
const refusedFor = time.Second

// Subscribe sends SUBSCRIBE. A sharded subscription sends SSUBSCRIBE for each channel by itself, because a cluster takes
// only channels of one slot in one command.
func (s *subscription) Subscribe(ctx context.Context, channels ...string) *fault.Error {
	s.stays(channels...)
	if !s.sharded {
		if len(channels) == 0 {
			return nil // go-redis would send a command that Redis refuses
		}
		return s.driver.classify(s.conn.Subscribe(ctx, channels...))
	}
	for _, channel := range channels {
		if err := s.conn.SSubscribe(ctx, channel); err != nil {
			return s.driver.classify(err)
		}
	}
	return nil
}

// Unsubscribe sends UNSUBSCRIBE, also of channels for which Redis has refused that a while ago. A sharded subscription sends SUNSUBSCRIBE for
// each channel by itself, and returns the first error after it has tried all of them.
func (s *subscription) Unsubscribe(ctx context.Context, channels ...string) *fault.Error {
	channels = s.leave(channels)
	if !s.sharded {
		if len(channels) == 0 {
			return nil // Redis would take it for all channels
		}
		return s.driver.classify(s.conn.Unsubscribe(ctx, channels...))
	}
	var first error
	for _, channel := range channels {
		if err := s.conn.SUnsubscribe(ctx, channel); first == nil {
			first = err
		}
	}
	return s.driver.classify(first)
}

// leave notes that channels are to be unsubscribed, and returns which are now.
func (s *subscription) leave(channels []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, channel := range channels {
		s.leaving[channel] = struct{}{}
	}
	if s.again.IsZero() || time.Now().Before(s.again) {
		return channels
	}
	s.again = time.Time{}
	return slices.Collect(maps.Keys(s.leaving))
}

// stays notes that channels need not be unsubscribed, or are.
func (s *subscription) stays(channels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, channel := range channels {
		delete(s.leaving, channel)
	}
}

// failed notes an error, which may be the reply to an UNSUBSCRIBE.
func (s *subscription) failed(f *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !f.Replied():
		clear(s.leaving) // a new connection has none of them
	case f.Transient && s.again.IsZero():
		s.again = time.Now().Add(refusedFor)
	}
}

// Ping sends PING and does not wait for the reply, which Receive returns.
func (s *subscription) Ping(ctx context.Context) *fault.Error {
	return s.driver.classify(s.conn.Ping(ctx))
}

// Receive waits for what arrives next.
func (s *subscription) Receive(ctx context.Context) (driver.Message, *fault.Error) {
	message, err := s.conn.Receive(ctx)
	if err != nil {
		f := s.driver.classify(err)
		if errors.Is(err, redis.ErrClosed) {
			f.Err = fmt.Errorf("%w: %w", driver.ErrSubscriptionClosed, f.Err)
		}
		s.failed(f)
		return driver.Message{}, f
	}
	switch m := message.(type) {
	case *redis.Message:
		return driver.Message{Sort: driver.Published, Channel: m.Channel, Payload: m.Payload}, nil
	case *redis.Subscription:
		switch m.Kind {
		case "subscribe", "ssubscribe":
			return driver.Message{Sort: driver.Subscribed, Channel: m.Channel}, nil
		case "unsubscribe", "sunsubscribe":
			s.stays(m.Channel)
			return driver.Message{Sort: driver.Unsubscribed, Channel: m.Channel}, nil
		}
	}
	return driver.Message{}, nil
}

// Close closes the connection. It waits while go-redis connects.
func (s *subscription) Close() error { return s.conn.Close() }
