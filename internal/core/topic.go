package core

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/pubsub"
)

// topic is what the waiters of a name listen to: the public channel, the twin of that, by which a script can tell how many listen who are not
// rlock's, and the client's own channel.
type topic struct {
	pubsub.Audience
	waiters int
}

// listen has an attempt listen. It must unlisten.
func (n *name) listen() *topic {
	c := n.client
	c.mu.Lock()
	t := n.topic
	if t == nil {
		t = new(topic)
		t.Channels, t.Changed = n.channels, make(chan struct{}, 1)
		t.Heard = func(channel, payload string, at clock.Instant) {
			if m := parse(payload); channel == n.own {
				c.tell(n, m)
			} else if channel == n.base {
				c.tell(n, message{kind: free})
			}
		}
		t.Ready = func() { c.tell(n, message{kind: askAgain}) }
		n.topic = t
	}
	t.waiters++
	first := t.waiters == 1
	c.mu.Unlock()
	if first {
		c.Hub.Join(&t.Audience)
	}
	return t
}

func (n *name) unlisten(t *topic) {
	n.client.mu.Lock()
	t.waiters--
	last := t.waiters == 0
	if last {
		n.topic = nil
	}
	n.client.mu.Unlock()
	if last {
		n.client.Hub.Part(&t.Audience)
	}
}

// lingers reports whether this client listens, maybe because somebody has waited a moment ago. Then a call that comes may stand in the line at once.
func (n *name) lingers() bool { return n.client.cfg.Publish != "n" && n.hears() }

// hears reports whether this client listens.
func (n *name) hears() bool { return n.client.Hub.Hears(n.channels) }

// refused returns why Redis does not let this client listen, or nil.
func (n *name) refused(t *topic) *fault.Error {
	for _, channel := range t.Channels {
		if err := n.client.Hub.Refused(channel); err != nil {
			return err
		}
	}
	return nil
}

// sort is what a message says.
type sort byte

const (
	granted  sort = '6' // the lock is yours
	first    sort = '9' // you are the first of the line
	free     sort = '0' // somebody has released the lock in public
	askAgain sort = '?' // the subscription was confirmed: messages may have been lost before
)

// message is what a waiter is told.
type message struct {
	kind              sort
	number, at, token int64
	term              time.Duration
	flags             string
}

// parse returns a message of a name's own channel. What nobody of rlock would send has number 0, which no attempt has.
func parse(text string) (m message) {
	words := append(strings.Split(text, " "), make([]string, 6)...)
	at := func(i int) int64 {
		v, _ := strconv.ParseInt(words[i], 10, 64)
		return v
	}
	switch words[0] {
	case "6":
		return message{granted, at(1), at(2), at(4), time.Duration(at(3)) * time.Millisecond, words[5]}
	case "9":
		return message{kind: first, number: at(1), term: time.Duration(at(2)) * time.Millisecond}
	}
	return message{}
}

// tell passes a message about a lock on to those whom it is for. A grant for nobody is released: its caller has gone, or a failover has brought
// an old place back.
func (c *Client) tell(n *name, m message) {
	c.mu.Lock()
	for _, a := range n.live {
		if a.inbox != nil && (m.kind == free || m.kind == askAgain || a.number == m.number) {
			select {
			case a.inbox <- m:
			default: // sixteen others lie there, the first of which has it ask
			}
		}
	}
	if _, leaves := n.leaving[m.number]; leaves && m.kind == granted {
		n.leaving[m.number] = true
	}
	nobody := m.kind == granted && m.number > 0 && !n.knows(m.number)
	c.mu.Unlock()
	if nobody {
		c.disown(n.kind, n.key.key, m)
	}
}

// Stray takes in a message on the channel of this client for a lock for which nobody waits any more. It reports whether it is one.
func (c *Client) Stray(channel, payload string) bool {
	line, ok := strings.CutSuffix(channel, ":"+c.cfg.ID)
	if !ok {
		return false
	}
	key, ok := KeyOf(line)
	if !ok {
		return false
	}
	m, kind := parse(payload), Plain
	if m.flags != "" && m.flags != "t" {
		kind = Permits
	}
	c.mu.Lock()
	n := c.names[nameKey{kind.channel, key}]
	nobody := m.kind == granted && m.number > 0 && (n == nil || !n.knows(m.number))
	c.mu.Unlock()
	if nobody {
		c.disown(kind, key, m)
	}
	return true
}
