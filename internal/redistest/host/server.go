// Package host decides where the tests run: with real servers on this machine's network and clock, or in virtual time, with simulated
// servers and a network in memory. For the latter, simulation/suites puts simulation/internal/suites/host.go in the place of host.go.
package host

import "time"

// Server is a Redis that tests can break. Package redistest has what the methods do.
type Server interface {
	Port() int
	Run()
	Kill()
	Pause()
	Resume()
	Snapshot() []byte
	Restore(snapshot []byte)
	Clock
}

// Clock is the clock of a server.
type Clock interface {
	SetAhead(by time.Duration)
	StopClock(at time.Time)
}
