package clock

import (
	"math/rand/v2"
	"time"
)

// Backoff returns the pause before a retry, given the number of retries in a row, this one included. The pause doubles from
// 10 ms to most. A random part of up to half of it is subtracted, so that clients that fail together do not retry together.
//
// random returns a duration of at least 0 and below its argument. Nil means the default source.
func Backoff(retries int, most time.Duration, random func(time.Duration) time.Duration) time.Duration {
	if random == nil {
		random = rand.N[time.Duration]
	}
	d := min(10*time.Millisecond<<min(max(retries-1, 0), 16), most)
	return d - random(d/2+1)
}
