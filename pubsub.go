package rlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pubsub is the one subscription connection of a client, and who listens on it.
//
// Two goroutines serve it while anybody waits, and a while longer: the keeper subscribes, unsubscribes and proves that
// the connection is alive; the reader of each connection takes in what arrives. go-redis never notices a connection
// that has gone silent, so the keeper pings an idle one and replaces one that answers nothing. No context of a user
// reaches the connection: its deadline would end it for everybody.
type pubsub struct {
	client *Client

	mu       sync.Mutex
	channels map[string]*subscription // guarded by mu, as is everything in them
	line     *line                    // the present connection; nil: none
	keeping  bool                     // whether the keeper runs
	stopped  bool
	alone    bool      // whether each channel is asked for by itself, because some are refused
	refused  time.Time // when what is confirmed was last asked for again, because something was refused

	kick    chan struct{}   // tells the keeper that there is something to do
	ctx     context.Context //nolint:containedctx // of the connections: it is nobody's call
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// subscription is one channel, shared by all who listen on it.
type subscription struct {
	listeners []*listener
	sent      time.Time // when SUBSCRIBE was last sent on the present connection; zero: not yet
	confirmed bool      // whether the present connection has confirmed it
	idleSince time.Time // when the last listener left
}

// line is one connection. go-redis connects it anew by itself when it breaks.
type line struct {
	conn   *redis.PubSub
	cancel context.CancelFunc
	heard  time.Time // when anything was last received; the start, until then
	pinged time.Time
	spoke  bool // whether anything was received
}

const (
	channelLinger = time.Second      // a channel stays subscribed after its last listener: a busy lock has another soon
	lineLinger    = 10 * time.Second // and the connection after its last channel
	keeperTick    = 250 * time.Millisecond
	pingAfter     = time.Second // of silence
	deadAfter     = 3 * time.Second
	connectWithin = 10 * time.Second // instead, for a connection that has not said anything yet
	retryRefused  = 5 * time.Second  // when to ask again for a channel that was not confirmed
)

func newPubSub(c *Client) *pubsub {
	ps := &pubsub{client: c, channels: make(map[string]*subscription), kick: make(chan struct{}, 1)}
	ps.ctx, ps.cancel = context.WithCancel(context.Background())
	return ps
}

func (s *subscription) notifyAll() {
	for _, l := range s.listeners {
		l.notify()
	}
}

func (ps *pubsub) poke() {
	select {
	case ps.kick <- struct{}{}:
	default:
	}
}

// stop ends both goroutines and the connection, and waits for that until ctx ends: go-redis cannot be hurried when it
// dials.
func (ps *pubsub) stop(ctx context.Context) {
	ps.mu.Lock()
	ps.stopped = true
	ps.mu.Unlock()
	ps.cancel()
	await(ctx, &ps.running)
}

// keep is the keeper. It ends when nobody has listened for a while.
func (ps *pubsub) keep() {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	idleSince := time.Now()
	for {
		select {
		case <-ps.kick:
		case <-tick.C:
		case <-ps.ctx.Done():
			ps.hangUp()
			return
		}
		now := time.Now()
		subscribe, unsubscribe := ps.wanted(now)
		if len(subscribe)+len(unsubscribe) > 0 {
			idleSince = now
		}
		ps.order(subscribe, unsubscribe)
		ps.checkPulse(now)
		if ps.idle(now.Sub(idleSince)) {
			return
		}
	}
}

// wanted returns the channels to subscribe and to unsubscribe now.
func (ps *pubsub) wanted(now time.Time) (subscribe, unsubscribe []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for channel, s := range ps.channels {
		switch {
		case len(s.listeners) == 0 && now.Sub(s.idleSince) >= channelLinger:
			delete(ps.channels, channel)
			if !s.sent.IsZero() {
				unsubscribe = append(unsubscribe, channel)
			}
		case s.sent.IsZero(), !s.confirmed && now.Sub(s.sent) >= retryRefused:
			s.sent = now
			subscribe = append(subscribe, channel)
		}
	}
	return subscribe, unsubscribe
}

// order sends what wanted found, on a connection that it makes if there is none.
func (ps *pubsub) order(subscribe, unsubscribe []string) {
	ps.mu.Lock()
	if ps.line == nil && len(subscribe) > 0 {
		ps.connect()
	}
	l, alone := ps.line, ps.alone
	ps.mu.Unlock()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ps.ctx, connectWithin)
	defer cancel()
	if len(unsubscribe) > 0 {
		_ = l.conn.Unsubscribe(ctx, unsubscribe...) // if it fails, so does the connection, and the channels are not on the next
	}
	if len(subscribe) == 0 {
		return
	}
	var err error
	if alone {
		_ = l.conn.Unsubscribe(ctx, subscribe...) // or go-redis asks for them together when it connects anew
		for _, channel := range subscribe {
			err = errors.Join(err, l.conn.Subscribe(ctx, channel))
		}
	} else {
		err = l.conn.Subscribe(ctx, subscribe...)
	}
	ps.mu.Lock()
	if err == nil && !l.spoke {
		l.heard, l.spoke = time.Now(), true // in the handshake
	}
	if err != nil {
		for _, channel := range subscribe {
			if s := ps.channels[channel]; s != nil && !s.confirmed {
				s.sent = time.Time{} // at the next tick
			}
		}
	}
	ps.mu.Unlock()
	if err != nil {
		ps.client.sawError(err)
	}
}

// connect makes a connection and its reader. It requires mu.
func (ps *pubsub) connect() {
	ctx, cancel := context.WithCancel(ps.ctx)
	l := &line{conn: ps.client.rdb.Subscribe(ctx), cancel: cancel, heard: time.Now()}
	ps.line = l
	ps.running.Go(func() { ps.read(ctx, l) })
}

// checkPulse pings a connection that is silent and replaces one that stays so.
func (ps *pubsub) checkPulse(now time.Time) {
	ps.mu.Lock()
	l := ps.line
	if l == nil {
		ps.mu.Unlock()
		return
	}
	silence, limit := now.Sub(l.heard), deadAfter
	if !l.spoke {
		limit = connectWithin
	}
	dead := silence >= limit
	ping := !dead && l.spoke && silence >= pingAfter && now.Sub(l.pinged) >= pingAfter
	if ping {
		l.pinged = now
	}
	ps.mu.Unlock()
	switch {
	case dead:
		ps.client.sawError(errNoAnswer)
		ps.hangUp()
		ps.poke()
	case ping:
		ctx, cancel := context.WithTimeout(ps.ctx, pingAfter)
		defer cancel()
		_ = l.conn.Ping(ctx) // the silence that follows a failure is what counts
	}
}

// idle ends the keeper, and the connection, if there has been no channel for a while.
func (ps *pubsub) idle(quiet time.Duration) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.channels) > 0 || quiet < lineLinger {
		return false
	}
	ps.keeping = false
	ps.drop()
	return true
}

func (ps *pubsub) hangUp() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.drop()
}

// drop gives the connection up. What is still wanted is subscribed again on the next. It requires mu.
func (ps *pubsub) drop() {
	l := ps.line
	ps.line = nil
	ps.unconfirm()
	for _, s := range ps.channels {
		s.sent = time.Time{}
	}
	if l == nil {
		return
	}
	l.cancel()
	// Close waits while go-redis dials, which may take as long as it likes.
	ps.running.Go(func() { _ = l.conn.Close() })
}

// unconfirm notes that messages may be missed from now on, until a new confirmation. It requires mu.
func (ps *pubsub) unconfirm() {
	for _, s := range ps.channels {
		s.confirmed = false
	}
}

// read is the reader of one connection. It never gives Receive a deadline: that would break a message that arrives in
// parts.
func (ps *pubsub) read(ctx context.Context, l *line) {
	for failures := 0; ; {
		message, err := l.conn.Receive(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, redis.ErrClosed):
			return
		case err == nil:
			failures = 0
			ps.heard(l, message)
			continue
		case redis.HasErrorPrefix(err, "NOPERM"), redis.HasErrorPrefix(err, "unknown command"):
			ps.heard(l, nil)
			ps.wasRefused(err)
			continue // there may be as many as channels
		default: // also what a server says to a new connection that it does not want
			ps.broken(l, err)
		}
		failures++
		pause := time.NewTimer(backoff(failures, time.Second))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// heard takes in what a connection received.
func (ps *pubsub) heard(l *line, message any) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	l.heard, l.spoke = time.Now(), true
	if ps.line != l {
		return
	}
	switch m := message.(type) {
	case *redis.Message:
		if s := ps.channels[m.Channel]; s != nil {
			s.notifyAll()
		}
	case *redis.Subscription:
		// Whatever was published before may have been missed, also when this is a subscription renewed by go-redis.
		if s := ps.channels[m.Channel]; s != nil && m.Kind == "subscribe" {
			s.confirmed = true
			s.notifyAll()
		}
	}
}

func (ps *pubsub) broken(l *line, err error) {
	ps.client.sawError(err)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.line == l {
		ps.unconfirm()
		if ps.alone {
			ps.askAgain() // go-redis asks for all at once when it connects anew
		}
	}
}

// askAgain has the keeper subscribe what is not confirmed. It requires mu.
func (ps *pubsub) askAgain() {
	for _, s := range ps.channels {
		if !s.confirmed {
			s.sent = time.Time{}
		}
	}
	ps.poke()
}

// wasRefused takes in that Redis refused a SUBSCRIBE, and says once that waiters have to poll. It refuses a command
// whole, for the sake of one channel, and does not say which; so from now on each is asked for by itself.
func (ps *pubsub) wasRefused(err error) {
	ps.mu.Lock()
	first := !ps.alone
	if now := time.Now(); first || now.Sub(ps.refused) >= time.Second {
		// It may have been all channels that go-redis asked for on a connection that it made without our noticing: then
		// what was confirmed is no longer subscribed.
		ps.alone, ps.refused = true, now
		ps.unconfirm()
		ps.askAgain()
	}
	ps.mu.Unlock()
	if first {
		ps.client.warn("Redis refuses to subscribe; waiters try again every poll interval instead of being woken", err)
	}
}
