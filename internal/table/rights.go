package table

import (
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/queue"
)

// A user may lack a right that the line needs: to a command, to the line's key, or to the channel of this client's waiters. Or a
// proxy hides their subscriptions from the scripts. The locks of that name then wait on Redisson's channel for a while, as other
// processes do, and waiters of a fair lock are woken on their own channels instead of being given the lock. Later they try the
// line again.

// unlinedFor is for how long. A name then costs one refused command more, or its first waiter a moment in which no release
// reaches it.
const unlinedFor = time.Minute

// refusesLine reports whether Redis refuses a script of the line because the user lacks a right. byLine says that the refused
// script was one of the line's: several may be under way.
//
// The log says so, once, as soon as a script without the line has done the same: if that is refused too, the call returns the error.
func (t *Table) refusesLine(h *Handle, byLine bool, err *fault.Error, now clock.Instant, n *notice.List) bool {
	switch d := &t.denial; {
	case !byLine && err == nil && d.err != nil && d.key == h.Key:
		n.Log(h.Name, notice.LogAllWoken, h.Of(d.err))
		d.err, d.logged = nil, true
		return false
	case !byLine || !err.Denied() || err.Fate == fault.Unreplicated: // then Redis refused WAIT, after the script
		return false
	case !d.logged:
		d.key, d.err = h.Key, err
	}
	t.unline(h, now)
	return true
}

// unline has the waiters of a name go on without the line, those that stand there at once.
func (t *Table) unline(h *Handle, now clock.Instant) {
	known := t.withoutLine(h.Key)
	if t.unlined == nil {
		none := queue.NewMemory[Key, clock.Instant](64)
		t.unlined = &none
	}
	t.unlined.Set(h.Key, now.Add(unlinedFor))
	if known {
		return
	}
	for _, a := range t.placed {
		if a.Handle.Key == h.Key && a.place.Stands {
			a.bell.Ring()
		}
	}
}

// Refused takes the channels to which Redis does not let this client subscribe. No release reaches a waiter that listens there.
// It goes on without the line.
func (t *Table) Refused(channels []string, now clock.Instant) {
	refused := make(map[string]bool, len(channels))
	for _, channel := range channels {
		refused[channel] = true
	}
	defer t.lock().Unlock()
	for k := range t.trying {
		t.queueOf(k)
	}
	for _, a := range t.placed {
		if refused[a.Handle.Names().Own()] {
			t.unline(a.Handle, now)
		}
	}
}

// lined reports whether the scripts of the line serve a handle.
func (t *Table) lined(h *Handle) bool { return h.Kind.Line != nil && t.countsListeners(h) }

// usesLine reports whether the attempts of a handle wait in the line. Otherwise they wait on Redisson's channel.
func (t *Table) usesLine(h *Handle) bool { return h.Kind.Line.Stands() && t.countsListeners(h) }

// countsListeners reports whether Redis counts who listens to the channels of a handle, and lets this client ask. Otherwise a script could
// not tell whether an attempt that waits in Redis lives.
func (t *Table) countsListeners(h *Handle) bool {
	return (t.unlined == nil || !t.withoutLine(h.Key)) && t.messages.Counts(h.Key.Name)
}

// withoutLine reports whether this client does without the line of a name for a while. When there are too many such names, it
// does for all.
func (t *Table) withoutLine(k Key) bool {
	if t.unlined == nil {
		return false
	}
	_, ok := t.unlined.Of(k)
	return ok || t.unlined.Forgotten() != 0
}
