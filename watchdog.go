package rlock

import "time"

// The options of the watchdog, whose engine is internal/watchdog: one goroutine for each client, which renews the locks that
// it holds, ends holds at their deadlines, and carries out releases in the background. internal/table decides what is due,
// and when.

const minWatchdogTimeout = 100 * time.Millisecond

// WithWatchdogTimeout sets the lease of locks that are taken without [Lease] and [RenewedLease]: how long such a lock outlives
// the death of its process. While the lock is held, it is renewed whenever a third of that time has passed. The default is
// 30 s, Redisson's lockWatchdogTimeout. The minimum is 100 ms.
func WithWatchdogTimeout(d time.Duration) Option {
	return durationOption("watchdog timeout", d, minWatchdogTimeout, func(s *settings) { s.Table.WatchdogTimeout = d })
}

// WithMaxHold ends any hold as lost, and releases the lock, once it has been held for d. It is a safety net against code that
// forgets to unlock. The default is 0, which means no limit. Otherwise the minimum is 1 ms.
func WithMaxHold(d time.Duration) Option {
	if d == 0 {
		return option(func(s *settings) error { s.Table.MaxHold = 0; return nil })
	}
	return durationOption("max hold", d, minLease, func(s *settings) { s.Table.MaxHold = d })
}
