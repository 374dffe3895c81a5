// Package stay decides for how long a group of locks stands in the queues of its members.
//
// A group waits for its first member for as long as its call does, and holds no other one meanwhile. While it holds a member, it
// stands in the queues of the others for a moment only, because nobody has the use of the one that it holds.
package stay

import (
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// longest is the longest stay that is bounded at all.
const longest = 3 * time.Second

// A stay of a group that holds members begins with 10 ms. One behind a first member that was waited for is as long as that wait
// was, but no longer than 250 ms, and then random: see [Rule.moment].
const (
	least     = 10 * time.Millisecond
	shortLine = 250 * time.Millisecond
)

// Rule is that of one group.
type Rule struct {
	// Lease is the shortest lease of its members. A hold for a fixed time may be shorter by the stay, so that is a part of it.
	Lease time.Duration
	// Random returns a duration of at least 0 and below its argument. Nil means the default source.
	Random func(time.Duration) time.Duration
}

// Behind returns for how long a multi lock stands in the queues of all members behind its first one together, in a round that
// waited for the first one.
func (r Rule) Behind(round int, waited time.Duration) time.Duration {
	return r.moment(round, waited, r.Lease/10)
}

// Before returns for how long a multi lock stands in the queue of a member that comes before its first one in the order. Others
// that hold that member may wait for the first one, in the right order.
func (r Rule) Before() time.Duration { return r.moment(1, 0, r.Lease/10) }

// ForMajority returns for how long a red lock waits for a majority, in a round in which it stood in queues, once it holds a member.
func (r Rule) ForMajority(round int) time.Duration { return r.moment(round-1, 0, r.Lease/30) }

// ForAny returns for how long a red lock that holds nothing stands in the queues of the members that refused. If there are also
// members whose waiters do not queue, those are asked again as often as if nobody queued.
func (r Rule) ForAny(round int, mixed bool) time.Duration {
	if mixed {
		return clock.Backoff(round, time.Second, r.Random)
	}
	return longest
}

// moment returns a random time from x to 2x, but no more than most. x grows with the rounds, and with how long the wait for the
// first member was, so that the queues of the others let the group through. Of two groups that each wait for what the other one
// holds, chance decides which one gives up first.
func (r Rule) moment(round int, waited, most time.Duration) time.Duration {
	most = min(2*max(least<<min(round-1, 10), min(waited, shortLine)), longest, most)
	random := r.Random
	if random == nil {
		random = rand.N[time.Duration]
	}
	return most/2 + random(most/2+1)
}
