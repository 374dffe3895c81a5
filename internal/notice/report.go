package notice

import (
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/observe"
)

// LogOnly stands for the event of a line of which observers are not told.
const LogOnly observe.EventKind = ""

// Seen is what happened to an attempt.
type Seen struct {
	Questions int32 // to Redis; a hand-over is none
	// HandedOver means that another owner of this process handed the lock over, and Granted that a release chose it in Redis.
	HandedOver, Granted bool
	Here                bool // it waited for another owner of this process, or was refused because of one
	// Slept is when it began to wait. Zero means that it did not.
	Slept clock.Instant
}

// Witness is told of the end of a hold. It must not block.
type Witness interface {
	// Ended reports that a hold is over, from a moment on. why is the error that its users see; nil means that they unlocked it.
	Ended(at clock.Instant, how observe.End, why error)
}

// over is the end of a hold, for its witness.
type over struct {
	witness Witness
	at      clock.Instant
	how     observe.End
	why     error
}

// Ended adds the end of a hold. A nil witness means that nobody wants to know.
func (n *List) Ended(w Witness, at clock.Instant, how observe.End, why error) {
	if w != nil {
		n.overs = append(n.overs, over{w, at, how, why})
	}
}

// Report adds a line that is also an event for observers.
func (n *List) Report(e observe.EventKind, lock string, m *Message, err error) {
	n.entries = append(n.entries, Entry{Event: e, Lock: lock, Message: m, Err: err})
}
