package simnet

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// dialTimeout is how long a process waits for a connection.
const dialTimeout = 5 * time.Second

// subscription connects at the first Subscribe, and at the next Receive after its connection broke.
type subscription struct {
	to      func(channels []string) *Link // of the server to which it connects next
	sharded bool
	dialing chan struct{} // has a token while somebody connects
	in      chan arrival
	closed  chan struct{}
	once    sync.Once

	mu       sync.Mutex
	conn     *conn
	channels []string
	used     bool // it has connected before
}

// arrival is what arrives on a connection: a message, or the news that it broke.
type arrival struct {
	conn *conn
	m    driver.Message
	err  *fault.Error
	at   time.Time
}

// noticed is how long a message may lie on a connection before the log says that it is read.
const noticed = 10 * time.Millisecond

func newSubscription(sharded bool, to func(channels []string) *Link) *subscription {
	return &subscription{
		to: to, sharded: sharded, dialing: make(chan struct{}, 1), in: make(chan arrival, 1<<12), closed: make(chan struct{}),
	}
}

// current returns the connection, or nil.
func (s *subscription) current() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// wanted lists the channels.
func (s *subscription) wanted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(s.channels)), " ")
}

// connect connects if there is no connection.
func (s *subscription) connect() *fault.Error {
	select {
	case s.dialing <- struct{}{}:
	case <-s.closed:
		return errClosed()
	}
	defer func() { <-s.dialing }()
	if s.isClosed() {
		return errClosed()
	}
	s.mu.Lock()
	s.used = true
	s.mu.Unlock()
	if s.current() != nil {
		return nil
	}
	s.mu.Lock()
	channels := slices.Sorted(slices.Values(s.channels))
	s.mu.Unlock()
	l := s.to(channels)
	time.Sleep(l.delay("dial"))
	if b := l.blocked(); l.Dead() || b > 0 {
		if time.Sleep(min(b, dialTimeout)); l.Dead() || b > dialTimeout {
			time.Sleep(dialTimeout - min(b, dialTimeout))
			return notSent(errTimeout)
		}
	}
	if l.server.IsDown() {
		return notSent(errRefused)
	}
	c := l.connect(s)
	if c == nil {
		return notSent(errRefused)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() { // and Close has not seen this connection
		c.lostByServer(0)
		return errClosed()
	}
	s.conn = c
	return nil
}

func (s *subscription) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

func errClosed() *fault.Error {
	return &fault.Error{Fate: fault.NotSent, Err: driver.ErrSubscriptionClosed}
}

// Subscribe implements [driver.Subscription].
func (s *subscription) Subscribe(_ context.Context, channels ...string) *fault.Error {
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
	if c := s.current(); c != nil {
		c.subscribe(slices.Clone(channels))
	}
	return nil
}

// Unsubscribe implements [driver.Subscription].
func (s *subscription) Unsubscribe(_ context.Context, channels ...string) *fault.Error {
	if len(channels) == 0 {
		return nil
	}
	s.mu.Lock()
	s.channels = slices.DeleteFunc(s.channels, func(c string) bool { return slices.Contains(channels, c) })
	s.mu.Unlock()
	if c := s.current(); c != nil {
		c.unsubscribe(slices.Clone(channels))
	}
	return nil
}

// Ping implements [driver.Subscription].
func (s *subscription) Ping(context.Context) *fault.Error {
	if c := s.current(); c != nil {
		c.send(func() { c.arrive(driver.Message{}, nil) }, "ping")
	}
	return nil
}

// Receive implements [driver.Subscription].
func (s *subscription) Receive(context.Context) (driver.Message, *fault.Error) {
	if err := s.reconnect(); err != nil {
		return driver.Message{}, err
	}
	for {
		select {
		case <-s.closed:
			return driver.Message{}, errClosed()
		case a := <-s.in:
			s.mu.Lock()
			present := s.conn == a.conn
			if present && a.err != nil && !a.err.Replied() {
				s.conn = nil
			}
			s.mu.Unlock()
			if present {
				if late := time.Since(a.at); late > noticed && a.m.Sort == driver.Published {
					l := a.conn.link
					l.unread.Store(max(l.unread.Load(), int64(late)))
					l.server.trace.Note("%s reads what has been there for %v, of %s on %s: %s", l.name, late, l.server.name, a.m.Channel, a.m.Payload)
				}
				return a.m, a.err
			}
		}
	}
}

// reconnect connects again after the connection broke, and subscribes all channels again.
func (s *subscription) reconnect() *fault.Error {
	s.mu.Lock()
	broken := s.conn == nil && s.used
	s.mu.Unlock()
	if !broken {
		return nil
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.mu.Lock()
	c, channels := s.conn, slices.Sorted(slices.Values(s.channels))
	s.mu.Unlock()
	if c != nil && len(channels) > 0 {
		c.subscribe(channels)
	}
	return nil
}

// Close implements [driver.Subscription].
func (s *subscription) Close() error {
	s.once.Do(func() {
		close(s.closed)
		if c := s.current(); c != nil {
			c.lostByServer(c.link.delay("close"))
		}
	})
	return nil
}
