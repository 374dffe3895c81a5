package driver

import (
	"sync/atomic"

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

// Made returns when the latest connection was made. Zero means never.
func (d *Dials) Made() clock.Instant { return clock.Instant(d.made.Load()) }

// UnderWay reports whether a connection is being made.
func (d *Dials) UnderWay() bool { return d.underWay.Load() > 0 }
