package rlock

import "time"

// instant is a moment on the monotonic clock, as the time since the process began. It takes a third of the room of a
// time.Time, of which each held lock has many. 0 is no moment.
type instant time.Duration

var processBegan = time.Now()

func instantOf(t time.Time) instant { return instant(t.Sub(processBegan)) }

// time returns the moment as users get it, with its monotonic reading.
func (i instant) time() time.Time { return processBegan.Add(time.Duration(i)) }

func (i instant) add(d time.Duration) instant { return i + instant(d) }
