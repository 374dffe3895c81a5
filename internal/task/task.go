// Package task counts the operations and duties for which Close has to wait, in one atomic word, and runs them on goroutines
// that are reused.
package task

import (
	"context"
	"sync"
	"sync/atomic"
)

// Group is the operations, commands and background duties of one client. The zero value is not usable: see [New]. It is
// safe for concurrent use.
type Group struct {
	// state is the number of operations under way, with two flags above it.
	state   atomic.Int64
	closed  chan struct{} // closed by Close
	quiet   chan struct{} // closed once the group is closed and nothing is under way
	once    sync.Once     // closes quiet
	workers workers
}

const (
	closedFlag  int64 = 1 << 62
	retiredFlag int64 = 1 << 61
	countMask         = retiredFlag - 1
)

// New returns a group that is open.
func New() *Group {
	return &Group{
		closed: make(chan struct{}), quiet: make(chan struct{}),
		workers: workers{jobs: make(chan Job), stopped: make(chan struct{})},
	}
}

// Begin begins an operation, which [Group.End] ends. It reports false once the group is closed: then nothing began.
func (g *Group) Begin() bool {
	return g.enter(func(state int64) bool { return state&(closedFlag|retiredFlag) == 0 })
}

// Keep begins a background duty, which [Group.End] ends. After Close it still begins one as long as Close is waiting. It
// reports false once no goroutine would carry the duty out.
func (g *Group) Keep() bool {
	return g.enter(func(state int64) bool { return !retired(state) })
}

// retired reports whether background duties are no longer carried out.
func retired(state int64) bool {
	return state&retiredFlag != 0 || state&closedFlag != 0 && state&countMask == 0
}

func (g *Group) enter(may func(state int64) bool) bool {
	for {
		state := g.state.Load()
		if !may(state) {
			return false
		}
		if g.state.CompareAndSwap(state, state+1) {
			return true
		}
	}
}

// End ends an operation or duty that [Group.Begin] or [Group.Keep] began.
func (g *Group) End() {
	if state := g.state.Add(-1); state&closedFlag != 0 && state&countMask == 0 {
		g.closeQuiet()
	}
}

func (g *Group) closeQuiet() { g.once.Do(func() { close(g.quiet) }) }

// Retired reports whether background duties are no longer carried out: everything is over, or Close gave up waiting.
func (g *Group) Retired() bool { return retired(g.state.Load()) }

// Closed returns a channel that Close closes.
func (g *Group) Closed() <-chan struct{} { return g.closed }

// IsClosed reports whether Close was called.
func (g *Group) IsClosed() bool { return g.state.Load()&closedFlag != 0 }

// Count returns how many operations and duties are under way.
func (g *Group) Count() int { return int(g.state.Load() & countMask) }

// Close refuses operations from now on. It must be called once.
func (g *Group) Close() {
	state := g.state.Or(closedFlag) | closedFlag
	close(g.closed)
	if state&countMask == 0 {
		g.closeQuiet()
	}
}

// Wait waits until nothing is under way in a closed group, or until ctx ends. After that no goroutine carries out background
// duties: a Wait that timed out must retire the group. Otherwise Keep would accept work that no goroutine does.
func (g *Group) Wait(ctx context.Context) {
	select {
	case <-g.quiet:
	case <-ctx.Done():
	}
	g.state.Or(retiredFlag)
}

// Await waits for goroutines until ctx ends.
func Await(ctx context.Context, running *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}
