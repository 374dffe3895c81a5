package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/observe"
)

// metrics is an observer that adds up what it is told. The module rlockotel has one for OpenTelemetry.
type metrics struct {
	observe.Base

	mu                     sync.Mutex
	acquired, passed, lost int
	waited, longest, held  time.Duration
}

// AcquireEnd implements [observe.Observer].
func (m *metrics) AcquireEnd(_ context.Context, d observe.AcquireEnd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.Outcome == observe.OutcomeAcquired {
		m.acquired++
		m.waited += d.Took
		m.longest = max(m.longest, d.Took)
	}
	if d.Via != observe.ViaNone {
		m.passed++
	}
}

// HoldEnd implements [observe.Observer].
func (m *metrics) HoldEnd(_ context.Context, d observe.HoldEnd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held += d.Held
	if d.End.Lost() {
		m.lost++
	}
}

// String returns all in one line.
func (m *metrics) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := time.Duration(max(m.acquired, 1))
	return fmt.Sprintf("%d acquired, of which %d were passed on by a release; took %v on average and %v at most; held for %v on average; %d lost",
		m.acquired, m.passed, round(m.waited/n), round(m.longest), round(m.held/n), m.lost)
}
