// Package clock has moments on the monotonic clock in 8 bytes.
package clock

import (
	"math"
	"time"
)

// Instant is a moment on the monotonic clock. It takes a third of the room of a [time.Time], and each held lock has
// several. Zero means no moment. It counts from 1970, as the wall clock was when the process began, so that every moment is
// positive. That includes the moments of testing/synctest, whose clock begins in 2000.
type Instant time.Duration

var (
	processBegan = time.Now()
	beganAt      = Instant(processBegan.UnixNano())
)

// Now returns the present moment.
func Now() Instant { return beganAt + Instant(time.Since(processBegan)) }

// Of returns the instant of a time that has a monotonic reading.
func Of(t time.Time) Instant { return beganAt.Add(t.Sub(processBegan)) }

// Time returns the moment as users get it, with its monotonic reading.
func (i Instant) Time() time.Time { return processBegan.Add(i.Sub(beganAt)) }

// Add returns the moment d later, or the last moment, in 2262, if that is later still.
func (i Instant) Add(d time.Duration) Instant {
	if d > 0 && i > math.MaxInt64-Instant(d) {
		return math.MaxInt64
	}
	return i + Instant(d)
}

// Sub returns the time from an earlier moment to this one.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }
