// Package place is what a waiter knows about its place in the line, the queue in Redis of those that wait for a lock: whether
// it stands there, when to ask, and what a message tells that says that it was granted the lock.
package place

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Place is the place of one waiter. The zero value stands in no line. It is not safe for concurrent use.
//
// A grant may come before the reply to the command that put the waiter into the line. It waits for that reply, because only
// replies show Redis's clock.
type Place struct {
	Asks    bool // a question, or a release that names the waiter, is under way that may put it into the line
	Stands  bool // it stands there, as far as is known
	May     bool // a command was sent that may have put it there: then only a release makes sure that it does not stand there
	Unsure  bool // it has to ask, because it may have been granted the lock
	reading Reading
	Since   clock.Instant // before the command was sent that first may have put it there
	AskAt   clock.Instant // when it has to ask
	Epoch   uint64        // of the subscription to its channel when the latest command was sent
	grant   *GrantMessage // that is yet to be taken; nil means none
	Given   int64         // when the lock was granted to it, in Unix µs of Redis, as far as it has heard; zero means that it has not
}

// GrantMessage is the message that a waiter was granted the lock.
type GrantMessage struct {
	Micros int64         // when, in Unix µs of Redis
	Term   time.Duration // of the lease
	Token  uint64        // zero means none
	Heard  clock.Instant // when the message came
}

// Join notes that a command is about to be sent that may put the waiter into the line. epoch is that of the subscription to its
// channel; zero means none.
func (p *Place) Join(epoch uint64, now clock.Instant) {
	if !p.May {
		p.Since = now
	}
	p.Asks, p.May, p.Unsure, p.Epoch, p.grant = true, true, false, epoch, nil
}

// Stand notes the reply that the waiter stands in the line. At askAt it has to ask, because a message may be lost.
func (p *Place) Stand(seen Reading, askAt clock.Instant) {
	p.Asks, p.Stands, p.reading, p.AskAt = false, true, seen, askAt
}

// Unanswered notes that the command had no useful reply, and reports whether one was under way. A waiter that stood in the line
// before still does.
func (p *Place) Unanswered() bool {
	asked := p.Asks
	p.Asks = false
	p.Unsure = p.Unsure || asked && p.grant != nil && !p.Stands // no reply has shown Redis's clock
	return asked
}

// OnGranted keeps a grant. [Place.Take] returns it, unless a reply says first that the waiter has the lock.
func (p *Place) OnGranted(g GrantMessage) { p.grant, p.Given = &g, g.Micros }

// Take returns the grant of the lock, and a moment that was not after it. It reports false if there is none, or if the waiter has
// to wait for a reply before it. If the moment cannot be told, or the grant is too old now, or the term is below least, the waiter
// is unsure.
func (p *Place) Take(least time.Duration, now clock.Instant) (g GrantMessage, at clock.Instant, ok bool) {
	if p.grant == nil || p.Asks || p.Unsure {
		return GrantMessage{}, 0, false
	}
	g, p.grant = *p.grant, nil
	at, ok = p.reading.Granted(g.Micros, g.Term, g.Heard, now)
	p.Unsure = !ok || g.Term < least
	return g, at, !p.Unsure
}

// EndsAt notes when the lease of the holder before the waiter ends.
func (p *Place) EndsAt(end clock.Instant) {
	p.Unsure = p.Unsure || p.Asks // the reply on its way may be about the holder before
	p.AskBy(end)
}

// AskBy has the waiter ask at a moment at the latest.
func (p *Place) AskBy(at clock.Instant) { p.AskAt = min(p.AskAt, at) }

// Reading is one look at Redis's clock: Redis showed Micros, in Unix µs, at a moment that was not before Sent.
type Reading struct {
	Sent   clock.Instant
	Micros int64
}

// drift is by how much, in percent, the two clocks may run at different speeds.
const drift = 1

// Granted returns a moment that was not after a grant by Redis, given Redis's time of the grant. The message of the grant does
// not tell that moment: the message may have lain in a buffer while this process was stopped. Granted reports false if the
// moment cannot be relied on because a clock was moved, or if the grant is so old now that little of its term may be left.
//
// A grant that seems to come after its message shows that Redis's clock was moved forward, however little it seems so. A step
// that a message is later than does not show. It makes the moment too late by as much, as it ends any other lease too early.
func (s Reading) Granted(micros int64, term time.Duration, arrived, now clock.Instant) (at clock.Instant, ok bool) {
	passed := time.Duration(micros-s.Micros) * time.Microsecond
	at = s.Sent.Add(passed - passed*drift/100)
	if passed < 0 || at > arrived || now.Sub(at) > term/4 {
		return 0, false
	}
	return at, true
}

// Origins has what a client knows of its channels: what each is about. The zero value knows none. It is not safe for concurrent use.
type Origins[H any] struct {
	channels map[string]H
	most     int // how many there may be before those are dropped that the client does not hear any more
}

// leastOrigins is how many channels are remembered in any case.
const leastOrigins = 64

// Note notes what a channel is about. hears tells whether the client hears a channel.
func (o *Origins[H]) Note(channel string, about H, hears func(channel string) (messages uint64, subscribed bool)) {
	if o.channels == nil {
		o.channels, o.most = make(map[string]H), leastOrigins
	}
	if _, ok := o.channels[channel]; !ok && len(o.channels) >= o.most {
		for old := range o.channels {
			if _, subscribed := hears(old); !subscribed {
				delete(o.channels, old)
			}
		}
		o.most = max(len(o.channels)*3/2, leastOrigins)
	}
	o.channels[channel] = about
}

// Of returns what a channel is about. Zero means that this is not known.
func (o *Origins[H]) Of(channel string) H { return o.channels[channel] }
