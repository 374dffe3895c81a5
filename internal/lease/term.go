// Package lease has the local state of a lease in Redis: until when a process may rely on the lease, and until when Redis may
// keep it.
package lease

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Term is one holder's lease. The zero value is a lease that Redis has never confirmed. It is not safe for concurrent use.
type Term struct {
	Lease time.Duration // of the acquisition
	// Confirmed is the moment before the latest call to which Redis replied that it has the holder.
	Confirmed clock.Instant
	Deadline  clock.Instant // when the lock can no longer be guaranteed; only ever moved later
	RenewAt   clock.Instant
	MaxHold   clock.Instant // when WithMaxHold ends it; zero means never
	// LatestExpiry is until when Redis may keep the holder because of any command that was sent, with or without a reply.
	LatestExpiry clock.Instant

	margin time.Duration // from the deadline to the moment at which Redis may have freed the lock
}

// Forever is longer than any process lives.
const Forever = 100 * 365 * 24 * time.Hour

// Margin returns by how much a lease is trusted less here than in Redis: for the drift between two clocks and the
// granularity of Redis's clock.
func Margin(lease time.Duration) time.Duration {
	return min(lease/100+2*time.Millisecond, lease/4)
}

// Least returns how much of a lease must be left when its caller gets the lock. It is a quarter: enough for a short section, and
// for two renewals, if the watchdog keeps the lock. A reply may still take most of the lease.
func Least(lease time.Duration) time.Duration { return lease / 4 }

// Late reports whether the reply to a command that was sent at a moment comes too late to rely on its lease: less than [Least] is
// left of it.
func Late(sent clock.Instant, lease time.Duration, now clock.Instant) bool {
	return sent.Add(lease-Margin(lease)).Sub(now) < Least(lease)
}

// Past reports whether the lock can no longer be guaranteed.
func (t *Term) Past(now clock.Instant) bool { return now >= t.Deadline }

// Ends returns the moment at which Redis may have freed the lock.
func (t *Term) Ends() clock.Instant { return t.Deadline.Add(t.margin) }

// Sending notes, before a command that may lengthen the lease is sent, until when Redis may keep the holder.
// commandTimeout is how long the command may be under way.
func (t *Term) Sending(lease, commandTimeout time.Duration, now clock.Instant) {
	t.LatestExpiry = max(t.LatestExpiry, now.Add(commandTimeout+lease))
}

// Confirm counts a lease that Redis granted from the moment before its command was sent.
func (t *Term) Confirm(sent clock.Instant, lease time.Duration) {
	margin := Margin(lease)
	if deadline := sent.Add(lease - margin); deadline > t.Deadline {
		t.Deadline, t.margin = deadline, margin
	}
	t.Confirmed = max(t.Confirmed, sent)
}

// Renewal returns when the next renewal is due. longest and shortest are those of the leases that are renewed.
//
// It is due a third of the shortest lease after the latest confirmation, wherever the deadline is. Otherwise a long lease would
// hide a loss until its end is near. It is due earlier if the lease ends in less than two thirds of the longest one: a
// confirmation of a short lease shows that Redis has the holder, but lengthens nothing.
func (t *Term) Renewal(longest, shortest time.Duration) clock.Instant {
	return min(t.Confirmed.Add(shortest/3), t.Ends().Add(-longest*2/3))
}

// Loss is how a lock was lost.
type Loss struct {
	Since clock.Instant // the earliest moment of the loss
	Early bool          // before its deadline: another owner may have held it meanwhile
}

// Due returns when to look at the lease again. renewed means that a renewal must be sent in time.
func (t *Term) Due(renewed bool) clock.Instant {
	due := t.Deadline
	if renewed {
		due = min(due, t.RenewAt)
	}
	if t.MaxHold != 0 {
		due = min(due, t.MaxHold)
	}
	return due
}
