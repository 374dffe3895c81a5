package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
)

// metrics is an observer that adds up what it is told. The module rlockotel has one for OpenTelemetry.
type metrics struct {
	mu                     sync.Mutex
	acquired, passed, lost int
	waited, longest, held  time.Duration
}

// AcquireStart implements [rlock.Observer].
func (*metrics) AcquireStart(ctx context.Context, _ rlock.AcquireStartData) context.Context {
	return ctx
}

// AcquireEnd implements [rlock.Observer].
func (m *metrics) AcquireEnd(_ context.Context, d rlock.AcquireEndData) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.Outcome == rlock.OutcomeAcquired {
		m.acquired++
		m.waited += d.Took
		m.longest = max(m.longest, d.Took)
	}
	if d.HandOver != rlock.HandOverNone {
		m.passed++
	}
}

// HoldEnd implements [rlock.Observer].
func (m *metrics) HoldEnd(_ context.Context, d rlock.HoldEndData) {
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
