package notice

import "github.com/go-rlock/rlock/internal/clock"

// Event is what a line is about, as observers get it.
type Event string

// The events. The root package has the same strings, and documents them.
const (
	LogOnly              Event = "" // observers are not told
	RenewalFailed        Event = "renewal_failed"
	RenewalRecovered     Event = "renewal_recovered"
	Lost                 Event = "lost"
	SelfDeadlock         Event = "self_deadlock"
	Dropped              Event = "dropped"
	SubscriptionLost     Event = "subscription_lost"
	SubscriptionReplaced Event = "subscription_replaced"
	Reacquired           Event = "reacquired"
	PlaceLost            Event = "place_lost"
	Unanswered           Event = "unanswered"
)

// End is how a hold ended, as observers get it.
type End string

// The ends of a hold. The root package has the same strings, and documents them.
const (
	Unlocked    End = "unlocked"
	LeaseEnded  End = "lease_ended"
	Gone        End = "gone"
	Forced      End = "forced"
	TooLong     End = "too_long"
	Overwritten End = "overwritten"
	Closed      End = "closed"
	Abandoned   End = "abandoned"
)

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
	Ended(at clock.Instant, how End, why error)
}

// over is the end of a hold, for its witness.
type over struct {
	witness Witness
	at      clock.Instant
	how     End
	why     error
}

// Ended adds the end of a hold. A nil witness means that nobody wants to know.
func (n *List) Ended(w Witness, at clock.Instant, how End, why error) {
	if w != nil {
		n.overs = append(n.overs, over{w, at, how, why})
	}
}

// Report adds a line that is also an event for observers.
func (n *List) Report(e Event, lock string, m *Message, err error) {
	n.entries = append(n.entries, Entry{Event: e, Lock: lock, Message: m, Err: err})
}
