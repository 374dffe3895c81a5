package testkit

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/go-rlock/rlock"
)

// Recorder keeps log output. It is safe for concurrent use.
type Recorder struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the output.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// String returns the output so far.
func (r *Recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// expected lists the beginnings of the lines that tests of trouble cause, or the mode of a cluster's pub/sub.
var expected = []string{
	"lock lost while held", "renewal failed", "renewals succeed again", "this cluster's pub/sub",
	"place in the queue of a fair lock lost",
}

// unexpected returns the other lines.
func (r *Recorder) unexpected() (lines []string) {
	for line := range strings.Lines(r.String()) {
		if !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(line, text) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Contains reports whether a text is in the output so far.
func (r *Recorder) Contains(text string) bool { return strings.Contains(r.String(), text) }

// Logger returns a logger that writes to r.
func (r *Recorder) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

// Recording returns a recorder, and the option that makes a client log to it.
func Recording() (rlock.Option, *Recorder) {
	r := &Recorder{}
	return rlock.WithLogger(r.Logger()), r
}

// Discard is a logger for clients whose warnings are irrelevant to the test.
var Discard = slog.New(slog.DiscardHandler)
