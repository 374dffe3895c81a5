package driver

import (
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Dials is what a driver knows of the connections that its client library makes. The zero value has seen none. It is safe for
// concurrent use.
type Dials struct {
	underWay atomic.Int64
	made     atomic.Int64 // when the latest connection was made; zero means that there is none
}

// Begin notes that a connection is about to be made. The caller must call the function that it returns when that has succeeded or failed.
func (d *Dials) Begin() (end func(made bool)) {
	d.underWay.Add(1)
	return func(made bool) {
		if made {
			d.made.Store(int64(clock.Now()))
		}
		d.underWay.Add(-1)
	}
}

// Left returns for how long a call may still be connecting: a connection is being made, or one was made so lately that its handshake may
// not be over. recently is how long a handshake takes at most. Zero means that it connects no more.
func (d *Dials) Left(recently time.Duration, now clock.Instant) time.Duration {
	if d.underWay.Load() > 0 {
		return recently / 10 // nobody says when it is made
	}
	if made := clock.Instant(d.made.Load()); made != 0 {
		return max(recently-now.Sub(made), 0)
	}
	return 0
}
