package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/table"
)

// Shutdown tells the holders, waits until their locks are unlocked, and closes the client: see the root package.
func (m *Manager) Shutdown(ctx context.Context) error {
	if m.carriedBy(ctx) {
		return &fault.OpError{Op: "shutdown", What: "with the context of a hold of this client", Err: fault.ErrInvalidOption}
	}
	if m.IsClosed() {
		m.Close() // waits for the Close that is under way
		return nil
	}
	var n table.Notices
	drained := m.table.Stop(&n)
	m.wakeAll()
	n.Deliver(m)
	select {
	case <-drained:
	case <-ctx.Done():
	case <-m.tasks.Closed():
	}
	why := fault.ErrClosed
	if ctx.Err() != nil {
		why = EndOf(ctx)
	}
	m.Close()
	if m.left == 0 {
		return nil
	}
	what := fmt.Sprintf("with %d holds left", m.left)
	if m.left == 1 {
		what = "with 1 hold left"
	}
	if len(m.leftOf) > 0 {
		what += " of " + some(m.leftOf)
	}
	return &fault.OpError{Op: "shutdown", What: what, Err: why}
}

// some returns the first three names, quoted.
func some(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names))) // other calls read them
	var text []string
	for _, name := range names[:min(len(names), 3)] {
		text = append(text, fault.Quote(name))
	}
	if len(names) > 3 {
		text = append(text, "...")
	}
	return strings.Join(text, ", ")
}

// carriedBy reports whether ctx carries a hold of this client that is not over.
func (m *Manager) carriedBy(ctx context.Context) bool {
	for hold := carried(ctx); hold != nil; hold = carried(hold.parent) {
		if hold.of.Closed().Load() {
			continue
		}
		for _, l := range hold.of.Locks() {
			if l.m == m {
				return true
			}
		}
	}
	return false
}

// wakeAll wakes every call that sleeps, except a re-entry during Shutdown.
func (m *Manager) wakeAll() { m.stop.Do(func() { close(m.stopping) }) }

// Stopping returns a channel that Shutdown and Close close.
func (m *Manager) Stopping() <-chan struct{} { return m.stopping }

// IsStopping reports whether Shutdown or Close was called.
func (m *Manager) IsStopping() bool {
	select {
	case <-m.stopping:
		return true
	default:
		return false
	}
}
