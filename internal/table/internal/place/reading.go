package place

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Reading is one look at Redis's clock: Redis showed Micros, in Unix µs, at a moment that was not before Sent.
type Reading struct {
	Sent   clock.Instant
	Micros int64
}

// drift is by how much, in percent, the two clocks may run at different speeds.
const drift = 1

// Granted returns a moment that was not after a grant by Redis, given Redis's time of the grant. The message of the grant does
// not tell that moment: the message may have lain in a buffer while this process was stopped. Granted reports false if the
// moment cannot be relied on because a clock was moved, or if the grant is so old now that little of its term may be left.
//
// A grant that seems to come after its message shows that Redis's clock was moved forward, however little it seems so. A step
// that a message is later than does not show. It makes the moment too late by as much, as it ends any other lease too early.
func (s Reading) Granted(micros int64, term time.Duration, arrived, now clock.Instant) (at clock.Instant, ok bool) {
	passed := time.Duration(micros-s.Micros) * time.Microsecond
	at = s.Sent.Add(passed - passed*drift/100)
	if passed < 0 || at > arrived || now.Sub(at) > term/4 {
		return 0, false
	}
	return at, true
}
