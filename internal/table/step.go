package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// Ender is the part of a context that the table uses. Nil means that it never ends.
type Ender interface{ Err() error }

// Do is the action that a verb takes next.
type Do uint8

// The actions.
const (
	Ask   Do = iota // send the call, and report the reply
	Sleep           // wait for one of the channels or the pause, and report the cause
	Done            // return
)

// Step is the next action of a verb, with all that it needs. It is passed by value.
type Step struct {
	Do Do

	// For Ask and Sleep.

	Stays  bool          // only Close ends the sleep or the wait for a slot, not Stop
	Free   bool          // the end of the wait does not end the step
	Within time.Duration // for how long the step may take; zero means that only the command timeout bounds a call

	// For Ask.

	Call  wire.Call
	Slot  bool   // it needs a connection slot
	Acked bool   // replicas must acknowledge it, if the client asks for that
	Late  *Grant // gets the reply if the caller leaves; nil means that the reply is dropped

	// For Sleep.

	Pause  time.Duration   // negative means without a limit
	Wait   <-chan struct{} // something changed in this process
	Listen string          // if not empty, listen first on this channel, with Heard
	Since  uint64          // no message was missed if the channel has had no other confirmation than this one
	Heard  chan struct{}   // gets the messages
	Spares string          // if not empty, this channel has no further listener soon: the waiter has moved to Listen

	// For Done.

	Got *Acquisition
	Err error // nil without Got: the wait is over, and Attempt.Last is the outcome
}

// Cause is why a sleep ended.
type Cause uint8

// The causes. If several apply, the later one of this list counts.
const (
	ByNews    Cause = iota // Step.Wait
	ByMessage              // Step.Heard
	ByTime                 // Step.Pause
	Ended                  // the wait is over, or Step.Within is, or the caller is gone
	Closed                 // the client is closed, or shuts down
)
