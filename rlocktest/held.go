package rlocktest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/go-rlock/rlock/observe"
)

// held is an observer that knows what a client holds, and which line has locked it. It is safe for concurrent use.
type held struct {
	observe.Base

	mu   sync.Mutex
	open []*locked
	last bool // the test has ended: what is over from now on, without an unlock, was left held
}

// locked is an acquisition.
type locked struct{ what string }

// lockedBy is the key of the acquisition that an observer sees.
type lockedBy struct{ h *held }

// AcquireStart implements [observe.Observer].
func (h *held) AcquireStart(ctx context.Context, d observe.AcquireStart) context.Context {
	if d.Member { // its group is named
		return ctx
	}
	what := fmt.Sprintf("%q (%s)", d.Name, d.Kind)
	if d.Kind == "multi" || d.Kind == "red" {
		what = d.Name // which is a description
	}
	return context.WithValue(ctx, lockedBy{h}, &locked{what + ", locked at " + caller()})
}

// AcquireEnd implements [observe.Observer].
func (h *held) AcquireEnd(ctx context.Context, d observe.AcquireEnd) {
	if d.Member || d.Err != nil || d.Reentry || d.Op == "await" || d.Kind == "plain semaphore" { // which hold nothing
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := ctx.Value(lockedBy{h}).(*locked); ok {
		h.open = append(h.open, l)
	}
}

// HoldEnd implements [observe.Observer].
func (h *held) HoldEnd(ctx context.Context, d observe.HoldEnd) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.Member || h.last && d.End == observe.EndClosed {
		return
	}
	l, _ := ctx.Value(lockedBy{h}).(*locked)
	if i := slices.Index(h.open, l); i >= 0 {
		h.open = slices.Delete(h.open, i, i+1)
	}
}

// end says that the test has ended.
func (h *held) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = true
}

// String returns what is held, a line each. The client must have been closed since end was called.
func (h *held) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all strings.Builder
	for _, l := range h.open {
		all.WriteString("\n\t" + l.what)
	}
	return all.String()
}

// caller returns the line of the program that has called rlock.
func caller() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		switch {
		case !ours(frame.Function):
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		case !more:
			return "an unknown line"
		}
	}
}

// ours reports whether a function is one of rlock, of this package, or of Go's runtime.
func ours(function string) bool {
	rest, found := strings.CutPrefix(function, "github.com/go-rlock/rlock")
	return found && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "/internal/") || strings.HasPrefix(rest, "/rlocktest.")) ||
		strings.HasPrefix(function, "runtime.")
}
