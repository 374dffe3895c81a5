package torture

import (
	"time"

	"github.com/go-rlock/rlock"
)

const leases = false

func renewedLease(time.Duration) rlock.AcquireOption { return rlock.Wait(time.Hour) }

func extendHold(*rlock.Hold, time.Duration) error { return nil }
