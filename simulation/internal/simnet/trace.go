// Package simnet is a network with Redis servers and client processes, in virtual time, of which a seed decides every delay and every
// fault. A process reaches a server by a [Link], which has a driver for rlock. It is made for a bubble of testing/synctest.
package simnet

import (
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"time"
)

// Trace is what happened in a run, event by event. It is safe for concurrent use.
type Trace struct {
	Began time.Time

	mu   sync.Mutex
	hash uint64
	to   io.Writer
}

// NewTrace returns an empty trace, which begins now. Each event is written to w, unless it is nil.
func NewTrace(w io.Writer) *Trace {
	scriptNames() // draws the order of maps: at the same moment whether there is a log or not
	return &Trace{Began: time.Now(), to: w}
}

// Note adds an event.
func (t *Trace) Note(format string, args ...any) {
	line := t.line(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, t.hash, line)
	t.hash = h.Sum64()
	t.write(line)
}

// Say adds an event for the reader of a log only: it is not part of the hash, and costs nothing without a log.
func (t *Trace) Say(event func() string) {
	if t.to == nil {
		return
	}
	line := t.line("%s", event())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(line)
}

func (t *Trace) line(format string, args ...any) string {
	return fmt.Sprintf("%v ", time.Since(t.Began)) + fmt.Sprintf(format, args...) + "\n"
}

// write writes a line to the log, if there is one. mu must be held.
func (t *Trace) write(line string) {
	if t.to != nil {
		_, _ = io.WriteString(t.to, line) // what cannot be written does not change the run
	}
}

// Hash is equal for two runs in which the same happened at the same times.
func (t *Trace) Hash() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hash
}
