// Package clock has moments on the monotonic clock in 8 bytes.
package clock

import "time"

// Instant is a moment on the monotonic clock, as the time since the process began. It takes a third of the room of a
// [time.Time], and each held lock has several. Zero means no moment.
type Instant time.Duration

var processBegan = time.Now()

// Now returns the present moment.
func Now() Instant { return Of(time.Now()) }

// Of returns the instant of a time that has a monotonic reading.
func Of(t time.Time) Instant { return Instant(t.Sub(processBegan)) }

// Time returns the moment as users get it, with its monotonic reading.
func (i Instant) Time() time.Time { return processBegan.Add(time.Duration(i)) }

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from an earlier moment to this one.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }
