package wire

import (
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/lua"
)

// Seat is the name under which a waiter stands in the queue of a fair lock. The waiters of a client have it one after another,
// so that its channel stays subscribed. A script that gives the lock to a seat knows which waiter has it.
type Seat struct {
	// Channel is where the waiter is notified. Redisson's rule makes it from the name of the seat, too.
	Channel string

	name any // <client id>:-<a small number>, with the ending of what is rlock's, a string, as it is sent
}

// NewSeat returns a seat of a client. Its waiters must not have it at the same time.
func NewSeat(n *Names, clientID string, number int) *Seat {
	lock, _ := n.Keys[0].(string)
	name := clientID + lua.SeatInfix + strconv.Itoa(number) + OwnEnding(lock)
	return &Seat{Channel: n.Channel + ":" + name, name: name}
}

// Queue returns the call that makes it the holder, or else puts it into the queue, on a seat. wait is the time that it may let
// pass without an attempt. term is that of the lease that a script may give to it in the queue; zero means that it is woken
// instead, and asks. again says that it has been in the queue before: then the reply says whether it is heard.
func (h *Holder) Queue(n *Names, lease, wait, term time.Duration, seat *Seat, again bool) Call {
	c := h.Acquire(n, lease, seat.name)
	if again {
		c.Args.NextNumber = 1
	}
	c.Args.Extra, c.Args.NextMillis = Millis(wait), Millis(term)
	return c
}

// Leave is [Holder.Release] for a holder that may have a seat in the queue.
func (h *Holder) Leave(n *Names, tombstone time.Duration, seat *Seat) Call {
	c := h.Release(n, tombstone)
	c.Args.Extra = seat.name
	return c
}

// GaveHere returns, from the reply of a release of a fair lock, the waiter of the same client that has the lock now, as a message
// to that waiter would. It reports false if there is none.
func (r *Reply) GaveHere() (Message, bool) {
	l := r.List
	if len(l) != 5 {
		return Message{}, false
	}
	return Message{Subject: Granted, Number: l[1], At: l[2], Term: time.Duration(l[3]) * time.Millisecond, Token: uint64(l[4])}, true
}
