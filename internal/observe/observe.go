// Package observe tells an observer what a client does: how each acquisition went, how each hold ended, and what else happened.
package observe

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/notice"
)

// Observer is told what the client does: see the root package. Start and End run in the goroutine that acquires, Over and Event in
// that of the [Reports].
type Observer interface {
	// Start returns a context whose values go to the commands, and to End and Over. Nil stands for ctx.
	Start(ctx context.Context, s Started) context.Context
	End(ctx context.Context, r Result)
	Over(ctx context.Context, e Ending)
	Event(e Event)
	// Client tells that a client begins, or that it has been closed.
	Client(c any, begins bool)
}

// Started is an acquisition that begins.
type Started struct {
	Op      string
	Name    string // the user's name, or the description of a group
	Kind    string
	Wait    time.Duration // negative means without a limit
	Lease   time.Duration // zero means that of the client's watchdog timeout
	Permits int           // zero for a lock
	Member  bool          // it is one of a group
}

// Result is how an acquisition went.
type Result struct {
	Started
	notice.Seen

	Took      time.Duration
	Waited    time.Duration // how much of it was spent waiting: all since it began to wait
	Err       error         // nil means that it is held
	Reentered bool          // its owner had it already
	Token     uint64
}

// Ending is how a hold ended.
type Ending struct {
	Started

	Held  time.Duration
	How   notice.End
	Err   error // nil means that it was unlocked
	Token uint64
}

// Event is something else that happened.
type Event struct {
	Event notice.Event
	Name  string // empty if it concerns no single lock
	At    time.Time
	Err   error
}

// Acquired is what was acquired.
type Acquired struct {
	By        bool // somebody holds it; not so a latch that is open
	Reentered bool // its owner had all of it already
	Token     uint64
}
