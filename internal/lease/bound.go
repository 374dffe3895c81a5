package lease

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// bound returns when a call has to return, even if its first question has no reply. Zero means that only the command timeout
// bounds each of its questions.
func (m *Manager) bound(ctx context.Context, key string, t *Terms, acks time.Duration) clock.Instant {
	cfg := &m.cfg.Table
	switch {
	case t.Ticket != "":
		return clock.Now().Add(cfg.CommandTimeout)
	case !t.By.IsZero() && t.Single():
		return min(clock.Of(t.By).Add(acks), clock.Now().Add(cfg.CommandTimeout))
	case !t.By.IsZero():
		return clock.Of(t.By).Add(acks)
	case !t.Limited:
		return 0
	}
	now := clock.Now()
	if t.Wait > 0 {
		return now.Add(max(t.Wait, cfg.Floor())).Add(acks)
	}
	if _, limited := ctx.Deadline(); limited {
		return now.Add(cfg.CommandTimeout)
	}
	return now.Add(min(m.attemptTime(key)+acks, cfg.CommandTimeout))
}

// attemptTime returns how long a single attempt may take that has no time of its own, replica acks aside. The time that it takes to
// connect does not count.
func (m *Manager) attemptTime(key string) time.Duration {
	if m.conn.Connects(key) {
		return m.cfg.Table.CommandTimeout
	}
	return m.cfg.Table.Floor()
}

// AttemptTime returns how long a group gives a single attempt at the lock.
func (l *Lock) AttemptTime() time.Duration { return l.m.attemptTime(l.h.Key.Name) }
