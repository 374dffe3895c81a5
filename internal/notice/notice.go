// Package notice collects reports while a mutex is held. They are delivered when it is free, because canceling a context and
// logging run code of the user.
package notice

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/observe"
)

// Receiver receives notices. It is called without the mutex.
type Receiver interface {
	// Alarm asks for a look at what is due, at that moment at the latest.
	Alarm(at clock.Instant)
	// Unlisten ends the listening of a [Listener].
	Unlisten(channel string, heard chan struct{})
	// Watch begins to watch a channel, with the channel that tells others so, and Unwatch ends it.
	Watch(channel, twin string)
	Unwatch(channel, twin string)
	// Pump asks for a command that grants a free lock, after a pause, given the channel of this client's waiters for it.
	Pump(channel string, after time.Duration)
	// Log logs. It must not block.
	Log(l Entry)
}

// watching is the begin or the end of a watch.
type watching struct {
	channel, twin string
	ends          bool
}

// pump is a request for a command.
type pump struct {
	channel string
	after   time.Duration
}

// Entry is an entry of the log, about a lock.
type Entry struct {
	Event   observe.EventKind
	Lock    string // the user's name of it
	Message *Message
	Err     error // nil means none
}

// List is the notices of one critical section. The zero value is empty. It is not safe for concurrent use.
type List struct {
	endings  []ended
	overs    []over
	entries  []Entry
	unlisten []Listener
	watching []watching
	pumps    []pump
	alarm    clock.Instant
}

// Alarm adds a request for the alarm. Of several, the soonest counts. Zero requests nothing.
func (n *List) Alarm(at clock.Instant) {
	if at != 0 && (n.alarm == 0 || at < n.alarm) {
		n.alarm = at
	}
}

// Log adds a line about the lock that the user calls by a name. A nil err means none.
func (n *List) Log(lock string, m *Message, err error) {
	n.entries = append(n.entries, Entry{Lock: lock, Message: m, Err: err})
}

// Watch adds the begin of a watch.
func (n *List) Watch(channel, twin string) {
	n.watching = append(n.watching, watching{channel: channel, twin: twin})
}

// Unwatch adds the end of a watch.
func (n *List) Unwatch(channel, twin string) {
	n.watching = append(n.watching, watching{channel, twin, true})
}

// Pump adds a request for a command that grants a free lock.
func (n *List) Pump(channel string, after time.Duration) {
	n.pumps = append(n.pumps, pump{channel, after})
}

// Unlisten adds the end of a listener, if it listens, and resets it.
func (n *List) Unlisten(l *Listener) {
	if l.Heard != nil {
		n.unlisten = append(n.unlisten, *l)
		*l = Listener{}
	}
}

// Deliver makes all reports and empties the list: first the alarm, then contexts, channels, listeners, the ends of observed
// holds and log lines. It must be called without any mutex, before every pause, command and return.
//
// The end of a context may run code of the user, for a context of the user's own type. If that code hangs, the
// alarm must have been set, because the table asks for no later one: all renewals of the client depend on it.
func (n *List) Deliver(to Receiver) {
	if n.alarm != 0 {
		to.Alarm(n.alarm)
	}
	for _, e := range n.endings {
		if e.cancel != nil {
			e.cancel(e.why)
		}
		if e.over != nil {
			close(e.over) // a holder that this wakes finds the context ended
		}
	}
	for _, l := range n.unlisten {
		to.Unlisten(l.Channel, l.Heard)
	}
	for _, w := range n.watching {
		if w.ends {
			to.Unwatch(w.channel, w.twin)
		} else {
			to.Watch(w.channel, w.twin)
		}
	}
	for _, p := range n.pumps {
		to.Pump(p.channel, p.after)
	}
	for _, o := range n.overs {
		o.witness.Ended(o.at, o.how, o.why)
	}
	for _, l := range n.entries {
		to.Log(l)
	}
	if n.watching != nil || n.pumps != nil || n.endings != nil || n.unlisten != nil || n.alarm != 0 ||
		n.overs != nil || n.entries != nil {
		*n = List{}
	}
}

// Listener receives the messages of one pub/sub channel. The zero value does not listen.
type Listener struct {
	Channel string
	Heard   chan struct{} // has a token after a message; nil means that it does not listen
}

// On makes the listener listen on a channel. It reports whether it did not listen before: then the caller must subscribe.
func (l *Listener) On(channel string) (begins bool) {
	l.Channel = channel
	begins = l.Heard == nil
	if begins {
		l.Heard = make(chan struct{}, 1)
	}
	return begins
}
