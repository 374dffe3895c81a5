package group

import (
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// longestStay is the longest stay that is bounded at all.
const longestStay = 3 * time.Second

// A stay of a group that holds members begins with 10 ms. One behind a first member that was waited for is as long as that wait
// was, but no longer than 250 ms, and then random: see [stays.moment].
const (
	leastStay = 10 * time.Millisecond
	shortLine = 250 * time.Millisecond
)

// stays decides for how long a group stands in the queues of its members.
//
// A group waits for its first member for as long as its call does, and holds no other one meanwhile. While it holds a member, it
// stands in the queues of the others for a moment only, because nobody has the use of the one that it holds.
type stays struct {
	// lease is the shortest lease of its members. A hold for a fixed time may be shorter by the stay, so the stay is a part of it.
	lease time.Duration
	// random returns a duration of at least 0 and below its argument. Nil means the default source.
	random func(time.Duration) time.Duration
}

// behind returns for how long a multi lock stands in the queues of all members behind its first one together, in a round that
// waited for the first one.
func (r stays) behind(round int, waited time.Duration) time.Duration {
	return r.moment(round, waited, r.lease/10)
}

// before returns for how long a multi lock stands in the queue of a member that comes before its first one in the order. Others
// that hold that member may wait for the first one, in the right order.
func (r stays) before() time.Duration { return r.moment(1, 0, r.lease/10) }

// forMajority returns for how long a red lock waits for a majority, in a round in which it stood in queues, once it holds a member.
func (r stays) forMajority(round int) time.Duration { return r.moment(round-1, 0, r.lease/30) }

// forAny returns for how long a red lock that holds nothing stands in the queues of the members that refused. If there are also
// members whose waiters do not queue, those are asked again as often as if nobody queued.
func (r stays) forAny(round int, mixed bool) time.Duration {
	if mixed {
		return clock.Backoff(round, time.Second, r.random)
	}
	return longestStay
}

// moment returns a random time from x to 2x, but no more than most. x grows with the rounds, and with how long the wait for the
// first member was, so that the queues of the others let the group through. Of two groups that each wait for what the other one
// holds, chance decides which one gives up first.
func (r stays) moment(round int, waited, most time.Duration) time.Duration {
	most = min(2*max(leastStay<<min(round-1, 10), min(waited, shortLine)), longestStay, most)
	random := r.random
	if random == nil {
		random = rand.N[time.Duration]
	}
	return most/2 + random(most/2+1)
}
