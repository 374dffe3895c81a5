package rlock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// read is the reader of one connection. It never gives Receive a deadline: that would break a message that arrives in
// parts.
func (l *line) read(ctx context.Context, conn *connection) {
	for failures := 0; ; {
		message, err := conn.conn.Receive(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, redis.ErrClosed):
			return
		case err == nil:
			failures = 0
			l.heard(conn, message)
			continue
		case redis.HasErrorPrefix(err, "NOPERM"), redis.HasErrorPrefix(err, "unknown command"):
			l.heard(conn, nil)
			l.wasRefused(err)
			continue // there may be as many as channels
		case l.sharded() && replied(err) && !redis.HasErrorPrefix(err, "CROSSSLOT"):
			l.heard(conn, nil)
			l.misrouted(conn, err)
			continue
		default: // also what a server says to a new connection that it does not want
			l.broken(conn, err)
			if l.sharded() {
				return
			}
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
func (l *line) heard(conn *connection, message any) {
	ps := l.pubsub
	ps.mu.Lock()
	defer ps.mu.Unlock()
	conn.heard, conn.spoke = time.Now(), true
	if l.conn != conn {
		return
	}
	switch m := message.(type) {
	case *redis.Message:
		if s := ps.channels[m.Channel]; s != nil {
			s.messages++
			s.notifyAll()
		}
	case *redis.Subscription:
		s := ps.channels[m.Channel]
		switch {
		case s == nil, s.line != l, s.sent.IsZero():
		case m.Kind == "subscribe", m.Kind == "ssubscribe":
			// Whatever was published before may have been missed, also when this is a subscription renewed by go-redis.
			s.confirmed = true
			s.notifyAll()
			if s.moved {
				l.ensure()
			}
		case m.Kind == "sunsubscribe" && s.confirmed: // nobody asked for it: the slot has moved to another node
			ps.client.reload()
			ps.leave(s, false)
		}
	}
}

func (l *line) broken(conn *connection, err error) {
	ps := l.pubsub
	ps.client.sawError(err)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	switch {
	case l.conn != conn:
	case l.sharded():
		l.lose(time.Since(conn.since) < time.Second) // what breaks at once would do so again
		l.drop()
	default:
		l.unconfirm()
		if l.alone {
			l.askAgain() // go-redis asks for all at once when it connects anew
		}
	}
}

// misrouted sends channels that the node of this line does not take back to the trunk. Redis does not say which it
// refused, so these are all that are not confirmed.
func (l *line) misrouted(conn *connection, err error) {
	ps := l.pubsub
	ps.client.sawError(err)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if l.conn != conn {
		return
	}
	for _, s := range ps.channels {
		if s.line == l && !s.confirmed && !s.sent.IsZero() {
			ps.leave(s, true)
		}
	}
}

// askAgain has the keeper subscribe what is not confirmed. It requires mu.
func (l *line) askAgain() {
	for _, s := range l.pubsub.channels {
		if s.line == l && !s.confirmed {
			s.sent = time.Time{}
		}
	}
	l.ensure()
}

// wasRefused takes in that Redis refused a SUBSCRIBE. It refuses a command whole, for the sake of one channel, and does
// not say which; so from now on each is asked for by itself, as it is on the line of a shard anyway.
func (l *line) wasRefused(err error) {
	ps := l.pubsub
	ps.mu.Lock()
	if now := time.Now(); !l.sharded() && (!l.alone || now.Sub(l.refused) >= time.Second) {
		// It may have been all channels that go-redis asked for on a connection that it made without our noticing: then
		// what was confirmed is no longer subscribed.
		l.alone, l.refused = true, now
		l.unconfirm()
		l.askAgain()
	}
	ps.mu.Unlock()
	ps.refused(err)
}
