// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"context"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/internal/driver"
)

// line is a subscription connection, until it breaks.
type line struct {
	of    *subscription
	conn  valkey.DedicatedClient
	broke <-chan error // has the error when the connection breaks
	ended chan struct{}
	once  sync.Once // closes it

	mu      sync.Mutex
	waiting []order
	sending bool
}

// order is what is to be sent for channels.
type order struct {
	what     verb
	channels []string
	done     chan struct{} // closed when there was a reply
}

type verb uint8

const (
	subscribes verb = iota
	unsubscribes
	pings // without a channel
)

// dial takes a connection, which valkey-go does without a limit: until ctx ends.
func (s *subscription) dial(ctx context.Context, client valkey.Client) (*line, error) {
	l := &line{of: s, ended: make(chan struct{})}
	made, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		l.conn, _ = client.Dedicate()
		l.broke = l.conn.SetPubSubHooks(valkey.PubSubHooks{
			OnMessage: func(m valkey.PubSubMessage) {
				s.put(l, received{message: driver.Message{Sort: driver.Published, Channel: m.Channel, Payload: m.Message}})
			},
			OnSubscription: func(m valkey.PubSubSubscription) { s.put(l, received{message: confirmation(m)}) },
		})
		select {
		case made <- struct{}{}:
		case <-ctx.Done():
			l.conn.Close()
		}
	}()
	select {
	case <-made:
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case err := <-l.broke: // it could not connect
		l.close()
		return nil, err
	default:
		return l, nil
	}
}

// close closes the connection. It does nothing the second time.
func (l *line) close() {
	l.once.Do(func() {
		defer func() { _ = recover() }() // of a hook of the client
		close(l.ended)
		l.conn.Close()
	})
}

// send has something sent for each channel, in order, and does not wait. It returns a channel that is closed when Redis has replied, or
// nil if there is nothing to send.
func (l *line) send(what verb, channels []string) <-chan struct{} {
	if len(channels) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o := order{what, channels, make(chan struct{})}
	l.waiting = append(l.waiting, o)
	if !l.sending {
		l.sending = true
		go l.work()
	}
	return o.done
}

// work sends what waits, until nothing does. If the server is silent, it ends when the connection is closed.
func (l *line) work() {
	for {
		what, channels, done := l.take()
		switch {
		case len(channels) == 0:
			return
		case what == subscribes:
			l.subscribe(channels)
		case what == unsubscribes:
			l.unsubscribe(channels)
		case l.conn.Do(context.Background(), l.conn.B().Arbitrary("PING").Build()).NonValkeyError() == nil:
			l.of.put(l, received{})
		}
		for _, d := range done {
			close(d)
		}
	}
}

// take takes orders of one sort.
func (l *line) take() (what verb, channels []string, done []chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 && (len(done) == 0 || l.waiting[0].what == what) {
		o := l.waiting[0]
		what, channels, done = o.what, append(channels, o.channels...), append(done, o.done)
		l.waiting = l.waiting[1:]
	}
	l.sending = len(done) > 0
	return what, channels, done
}

// subscribe sends a SUBSCRIBE for each channel, and waits for the replies. Each is a command of its own: a cluster takes only sharded
// channels of one slot in one command, and Redis refuses a whole command because of one channel. If it refuses them for now, as while it runs a
// script for long, one error says so, as if they had one command.
func (l *line) subscribe(channels []string) {
	s := l.of
	cmds := make([]valkey.Completed, len(channels))
	for i, channel := range channels {
		if s.sharded {
			cmds[i] = l.conn.B().Ssubscribe().Channel(channel).Build()
		} else {
			cmds[i] = l.conn.B().Subscribe().Channel(channel).Build()
		}
	}
	postponed := false
	for _, r := range l.conn.DoMulti(context.Background(), cmds...) {
		err := r.Error()
		if r.NonValkeyError() != nil {
			s.lose(l, err)
			return
		}
		f := s.conn.classify(err)
		if f == nil || postponed && f.Transient && !s.sharded {
			continue
		}
		postponed = postponed || f.Transient
		s.put(l, received{err: f})
	}
}

// unsubscribe sends UNSUBSCRIBE for channels, in a transaction: then its confirmation is part of the reply to EXEC. If Redis is too busy
// for that, it tries again later.
func (l *line) unsubscribe(channels []string) {
	command := "UNSUBSCRIBE"
	if l.of.sharded {
		command = "SUNSUBSCRIBE"
	}
	ctx, b := context.Background(), l.conn.B()
	// Without MULTI, UNSUBSCRIBE must not be sent: valkey-go would take another reply for its own.
	err := l.conn.Do(ctx, b.Arbitrary("MULTI").Build()).Error()
	if err == nil {
		cmds := make([]valkey.Completed, 0, len(channels)+1)
		for _, channel := range channels {
			cmd := b.Arbitrary("PING", channel).Build()
			cmd.Commands()[0] = command // which Build refuses
			cmds = append(cmds, cmd)
		}
		for _, r := range l.conn.DoMulti(ctx, append(cmds, b.Arbitrary("EXEC").Build())...) {
			if err = r.Error(); err != nil {
				break // what EXEC replies says nothing but that a command before it was refused
			}
		}
	}
	if reply, ok := valkey.IsValkeyErr(err); ok && driver.Rejected(err, reply.Error(), false).Transient {
		time.AfterFunc(time.Second, func() { l.unsubscribeAgain(channels) })
		return
	}
	for _, channel := range channels { // also if MULTI is not permitted: then Redis goes on sending, and the messages are dropped
		l.of.put(l, received{message: driver.Message{Sort: driver.Unsubscribed, Channel: channel}})
	}
}

// unsubscribeAgain has the channels unsubscribed that nobody wants now either.
func (l *line) unsubscribeAgain(channels []string) {
	var unwanted []string
	for _, channel := range channels {
		if inUse, wanted := l.of.wants(l, channel); inUse && !wanted {
			unwanted = append(unwanted, channel)
		}
	}
	l.send(unsubscribes, unwanted)
}

func confirmation(m valkey.PubSubSubscription) driver.Message {
	switch m.Kind {
	case "subscribe", "ssubscribe":
		return driver.Message{Sort: driver.Subscribed, Channel: m.Channel}
	case "unsubscribe", "sunsubscribe":
		return driver.Message{Sort: driver.Unsubscribed, Channel: m.Channel}
	}
	return driver.Message{}
}
