package clock

import (
	"math/rand/v2"
	"time"
)

// Backoff returns the pause before a retry, given how many there were in a row, this one included. It doubles from 10 ms
// to most, less up to half of it by chance, so that clients that fail together do not retry together.
//
// random returns a duration from 0 up to and without its argument. Nil means the default source.
func Backoff(retries int, most time.Duration, random func(time.Duration) time.Duration) time.Duration {
	if random == nil {
		random = rand.N[time.Duration]
	}
	d := min(10*time.Millisecond<<min(max(retries-1, 0), 16), most)
	return d - random(d/2+1)
}
