package outcome

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// Silence notices that a waiting call has had no usable answer from Redis for long. An error is not a usable answer. The zero value
// is ready for use. It is not safe for concurrent use.
type Silence struct {
	since   clock.Instant // when the oldest unanswered question was sent; zero means that there is none
	next    clock.Instant // when it is to be reported next
	reports int           // how often it was reported
}

// again is how long after the last report a silence is reported again: an alert that counts the reports of the last few minutes must not
// end before the silence does.
const again = time.Minute

// Noticed notes, at a moment, whether a question was answered that was sent before. It returns 1 when the silence is to be
// reported for the first time, 2 for the second, and so on; 0 means not now. It is reported once it has lasted for the limit, and then once
// a minute.
func (s *Silence) Noticed(sent, now clock.Instant, limit time.Duration, answered bool) int {
	switch {
	case answered:
		*s = Silence{}
		return 0
	case s.since == 0:
		s.since, s.next = sent, sent.Add(limit)
	}
	if now < s.next {
		return 0
	}
	s.next = now.Add(max(limit, again))
	s.reports++
	return s.reports
}
