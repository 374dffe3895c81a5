package notice

import "github.com/go-rlock/rlock/internal/clock"

// Sort is what a line is about, for those who observe the client.
type Sort uint8

// The sorts of line. The root package documents those that an observer gets.
const (
	LogOnly Sort = iota
	RenewalFailed
	RenewalRecovered
	Lost
	SelfDeadlock
	Dropped
	SubscriptionLost
	SubscriptionReplaced
	Reacquired
	PlaceLost
	Unanswered
)

// End is how a hold ended.
type End uint8

// The ends of a hold.
const (
	Unlocked    End = iota
	LeaseEnded      // lost: the lease was over
	Gone            // lost: Redis no longer had the holder
	Forced          // lost: somebody unlocked it by force
	MaxHold         // lost: it was held longer than is allowed
	Overwritten     // lost: its key has another value
	Closed          // the client was closed
	Abandoned       // the program dropped the hold without an unlock
)

// Seen is what happened to an attempt.
type Seen struct {
	Questions int // to Redis; a hand-over is none
	// HandedOver means that another owner of this process handed the lock over, and Granted that a release chose it in Redis.
	HandedOver, Granted bool
	Here                bool // it waited for another owner of this process, or was refused because of one
	// Slept is when it began to wait. Zero means that it did not.
	Slept clock.Instant
}

// Watcher is told of the end of a hold. It must not block.
type Watcher interface {
	// Ended reports that a hold is over, from a moment on. why is the error that its users see; nil means that they unlocked it.
	Ended(at clock.Instant, how End, why error)
}

// over is the end of a hold, for its watcher.
type over struct {
	watcher Watcher
	at      clock.Instant
	how     End
	why     error
}

// Over adds the end of a hold. A nil watcher means that nobody wants to know.
func (n *List) Over(w Watcher, at clock.Instant, how End, why error) {
	if w != nil {
		n.overs = append(n.overs, over{w, at, how, why})
	}
}

// Report adds a line that is also an event for observers.
func (n *List) Report(sort Sort, lock string, m *Message, err error) {
	n.lines = append(n.lines, Line{Sort: sort, Lock: lock, Message: m, Err: err})
}
