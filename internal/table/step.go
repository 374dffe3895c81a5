package table

// ended reports whether a context has ended.
func ended(e Ender) bool { return e != nil && e.Err() != nil }

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
