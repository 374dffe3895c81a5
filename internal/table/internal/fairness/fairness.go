// Package fairness decides how long a process waits before it takes a lock again after a public release.
package fairness

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Release is a public release: a lock that was released while other processes listened. A release that is forgotten costs others one turn
// at most.
type Release struct {
	At     clock.Instant
	Turn   time.Duration // for how long this process had held the lock
	Others int64         // how many listened, as far as is known
	Own    uint64        // message count of its channel after this client has received its own messages of the release
}

// Wait returns how long this process leaves the lock to others. heard is the message count of the lock's channel, and
// byMessage means that a message has just come. standBack is for how long others may take to acquire the lock.
func (r *Release) Wait(heard uint64, byMessage bool, standBack time.Duration, now clock.Instant) time.Duration {
	switch {
	case heard <= r.Own:
		return r.At.Add(standBack).Sub(now)
	case byMessage:
		return r.Pause(now)
	}
	return 0
}

// Snapshot is the state of a lock's channel when this client sent the release.
type Snapshot struct {
	Messages   uint64 // of the lock's channel
	Subscribed bool   // whether this client receives them
}

// After returns how many other clients received a release, and the message count of this client after it has received its
// own messages of the release. receivers is how many clients Redis counted, and messages how many messages each of them got.
func (m Snapshot) After(receivers int64, messages uint64) (others int64, own uint64) {
	if !m.Subscribed {
		return receivers, m.Messages
	}
	return receivers - 1, m.Messages + max(messages, 1)
}

// Pause returns how long to let others pass after another process has released the lock. Redis notifies subscribers in a
// fixed order, so the same process would always win. A process that held the lock recently therefore waits a little longer,
// by at most a tenth of the time for which it held it.
func (r *Release) Pause(now clock.Instant) time.Duration {
	const shortest, longest = 50 * time.Microsecond, 500 * time.Microsecond // less cannot be slept
	if r.Others < 2 || r.Turn <= 0 {
		return 0
	}
	round := float64(r.Turn) * float64(r.Others+1)
	d := min(r.Turn/10, longest)
	if d = time.Duration(float64(d) * (1 - float64(now.Sub(r.At))/round)); d < shortest {
		return 0
	}
	return d
}
