package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// hiddenFor is for how long a client whose subscriptions something hides from the scripts does without the line. Its waiters then listen
// to Redisson's channel, as other processes do, and those of a fair lock are woken on their own channels instead of being given the lock.
const hiddenFor = time.Minute

// hide has the waiters of this client go on without the line, those that stand there at once.
func (t *Table) hide(now clock.Instant) {
	t.hiddenUntil = now.Add(hiddenFor)
	for _, a := range t.placed {
		if a.place.Stands {
			a.bell.Ring()
		}
	}
}

// lined reports whether the scripts of the line serve a handle.
func (t *Table) lined(h *Handle) bool { return h.Kind.Line != nil && t.countsListeners() }

// usesLine reports whether the attempts of a handle wait in the line. Otherwise they wait on Redisson's channel.
func (t *Table) usesLine(h *Handle) bool { return h.Kind.Line.Stands() && t.countsListeners() }

// countsListeners reports whether Redis counts who listens to the channels of this client. Otherwise a script could not tell whether an
// attempt that waits in Redis lives.
func (t *Table) countsListeners() bool { return t.hiddenUntil == 0 && t.messages.Counts() }
