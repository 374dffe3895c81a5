package observe

// Outcome is the class of an acquisition's result. It is fit for a label of a metric.
type Outcome string

// The outcomes.
const (
	OutcomeAcquired    Outcome = "acquired"
	OutcomeRefused     Outcome = "refused"     // matches ErrNotAcquired: another owner has it; or a ticket that Adopt cannot use any more
	OutcomeUnavailable Outcome = "unavailable" // matches ErrUnavailable: Redis gave no usable answer
	OutcomeLost        Outcome = "lost"        // matches ErrLost: the owner lost the lock, and has not unlocked it
	OutcomeClosed      Outcome = "closed"      // matches ErrClosed: the client is closed, or shuts down
	OutcomeCanceled    Outcome = "canceled"    // the context had ended, and nothing is known of the lock
	OutcomeMisused     Outcome = "misused"     // matches ErrInvalidName, ErrInvalidOption, ErrReentered or ErrUpgrade
	OutcomeFailed      Outcome = "failed"      // any other error, on which waiting does not help
)

// Via is how a lock came to the owner that acquired it. It is fit for a label of a metric.
type Via string

// The ways.
const (
	ViaNone   Via = ""       // it was free, or it is not known that anybody chose this owner
	ViaLocal  Via = "local"  // another owner of the same client passed it on
	ViaRemote Via = "remote" // a release, mostly by another process, chose this owner out of those that wait in Redis
)

// End is how a hold ended. It is fit for a label of a metric.
type End string

// The ends of a hold.
const (
	EndUnlocked    End = "unlocked"    // or ended by Hold.Export
	EndLeaseEnded  End = "lease_ended" // lost: its lease ended, perhaps because that was asked for
	EndGone        End = "gone"        // lost: its holder was gone from Redis
	EndForced      End = "forced"      // lost: this client unlocked it by force
	EndTooLong     End = "too_long"    // lost: it was held for longer than WithMaxHold allows
	EndOverwritten End = "overwritten" // lost: the unlock found a value that is not a lock's
	EndClosed      End = "closed"      // its client was closed
)

// Lost reports whether the hold was lost: over before its last unlock, although its client was open.
func (e End) Lost() bool {
	switch e {
	case EndUnlocked, EndClosed:
		return false
	default:
		return true
	}
}

// EventKind is what happened. It is fit for a label of a metric.
type EventKind string

// The events.
const (
	EventRenewalFailed        EventKind = "renewal_failed"        // the first renewal of a hold in an outage
	EventRenewalRecovered     EventKind = "renewal_recovered"     // renewals of the hold succeed again
	EventLost                 EventKind = "lost"                  // a renewed hold was lost, of which HoldEnd is told too
	EventSubscriptionLost     EventKind = "subscription_lost"     // a subscription broke, fell silent, or may lead to the wrong server
	EventSubscriptionReplaced EventKind = "subscription_replaced" // after a loss, a channel is subscribed again
	EventPlaceLost            EventKind = "place_lost"            // a waiter was out of a fair lock's queue: it was silent for too long, or Redis lost the queue
)

// Stats is what a client does at one moment, and what it has done since it was made. It counts locks: a group counts as its members, and a
// lock that its owner has re-entered counts once.
type Stats struct {
	Held      int // locks that are held; 0 once the client is closed
	Waiting   int // calls that wait for a lock or a latch after a first attempt failed, or behind another call of this client
	InDoubt   int // locks that Redis may hold for this client although no caller has them; rlock releases them in the background
	Acquired  uint64
	HandOvers uint64 // of the acquired locks, those that another owner of this client handed over
	Renewals  uint64 // that Redis confirmed, one for each lock
	// RenewalFailures counts renewals without a reply, or with an error. rlock tries them again.
	RenewalFailures uint64
	// Losses counts locks that were over before their last unlock, also those whose fixed lease ran out.
	Losses uint64
	// DroppedReports counts calls of observers that were dropped because the observers were too slow.
	DroppedReports uint64
}
