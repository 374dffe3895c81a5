package outcome

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Silence notices that a waiting call has had no usable answer from Redis for long: errors that may pass are none. In the zero
// value it has noticed nothing. It is not safe for concurrent use.
type Silence struct {
	since clock.Instant // when the oldest unanswered question was sent; zero means that there is none
	told  bool
}

// Noticed notes, at a moment, whether a question was answered that was sent before. It reports true once in each silence: when
// that has lasted for the limit.
func (s *Silence) Noticed(sent, now clock.Instant, limit time.Duration, answered bool) bool {
	switch {
	case answered:
		*s = Silence{}
		return false
	case s.since == 0:
		s.since = sent
	}
	if s.told || now.Sub(s.since) < limit {
		return false
	}
	s.told = true
	return true
}
