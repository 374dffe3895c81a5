package rlock

import "time"

// listener is one waiter on one channel.
type listener struct {
	pubsub  *pubsub
	channel string
	// wake has a token when there is reason to try again: a message, or a confirmation that messages can no longer be
	// missed. It is a hint and may come for nothing.
	wake chan struct{}
}

// listen starts to listen on a channel. If it is subscribed already, the listener is woken at once.
func (ps *pubsub) listen(channel string) *listener {
	return ps.listenWith(channel, make(chan struct{}, 1))
}

// listenWith is listen with a wake, of one token, that several listeners may share.
func (ps *pubsub) listenWith(channel string, wake chan struct{}) *listener {
	l := &listener{pubsub: ps, channel: channel, wake: wake}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := ps.channels[channel]
	if s == nil {
		s = &subscription{line: ps.trunk, routed: ps.client.cluster == nil}
		ps.channels[channel] = s
	}
	s.listeners = append(s.listeners, l)
	if s.confirmed {
		l.notify()
		return l
	}
	s.line.ensure()
	return l
}

func (l *listener) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close does nothing for nil.
func (l *listener) close() {
	if l == nil {
		return
	}
	ps := l.pubsub
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := ps.channels[l.channel]
	s.listeners = without(s.listeners, l)
	if len(s.listeners) == 0 {
		s.idleSince = time.Now()
	}
}
