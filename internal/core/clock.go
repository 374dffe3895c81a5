package core

import (
	"sync"
	"time"
)

// serverClock knows what Redis's clock shows, from the latest reply that said so. Until then it takes the clock of this machine for it: a wrong
// guess costs a round trip, because the script refuses the command as late, and says the time. The zero value is ready.
type serverClock struct {
	mu         sync.Mutex
	sent, came time.Time // when that reply was asked for, and came
	at         int64     // us of Redis in it; zero means that there was none
}

// learn takes the time of a reply.
func (c *serverClock) learn(sent, came time.Time, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at > 0 && !came.Before(c.came) {
		c.sent, c.came, c.at = sent, came, at
	}
}

// known reports whether a reply has said what it shows.
func (c *serverClock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at != 0
}

// now returns Redis's time in us, or a little less.
func (c *serverClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == 0 {
		return time.Now().UnixMicro()
	}
	return c.at + time.Since(c.came).Microseconds()
}

// earliest returns the earliest moment here at which Redis's clock may have shown a time: a lease that began then is over here before it is
// over there, unless that clock was set in between. The two may drift apart by a hundredth.
func (c *serverClock) earliest(at int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := time.Duration(at-c.at) * time.Microsecond
	return c.sent.Add(d - d.Abs()/100)
}
