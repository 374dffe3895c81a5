package transport

import (
	"cmp"
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
)

// slot is the connection slots of one node. It leaves at least one connection per node for renewals.
type slot chan struct{}

// free gives a slot back. It does nothing for nil.
func (s slot) free() {
	if s != nil {
		<-s
	}
}

// full reports whether no slot is free.
func (s slot) full() bool { return s != nil && len(s) == cap(s) }

// tryTake takes a slot if one is free. There always is one for nil.
func (s slot) tryTake() bool {
	if s == nil {
		return true
	}
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// takeBefore takes a slot. It reports false if there was none before over was closed.
func (s slot) takeBefore(over <-chan struct{}) bool {
	if s.tryTake() {
		return true
	}
	select {
	case s <- struct{}{}:
		return true
	case <-over:
		return false
	}
}

// take takes a slot for a question, in its lane if that is known. It returns nil for a duty that is sent without a slot. Its
// error has the fate [fault.NotSent].
func (c *Conn) take(wait context.Context, q *Question, way *lane, e *errand) (slot, *fault.Error) {
	if q.Slot == DutySlot {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, c.CommandTimeout)
		defer cancel()
	}
	if way == nil {
		var err *fault.Error
		if way, _, err = c.laneOf(wait, q.Call.Key()); err != nil {
			return nil, err
		}
	}
	slots := way.slots
	if slots.tryTake() {
		return slots, nil
	}
	e.proceed(seeking)
	var over <-chan time.Time
	if q.Within > 0 || q.Slot == QuerySlot {
		timer := time.NewTimer(cmp.Or(q.Within, c.CommandTimeout))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case slots <- struct{}{}:
		return slots, nil
	case <-wait.Done():
		return nil, noConnection(wait)
	case <-over:
		return nil, notSent(fault.ErrNoConnection)
	case <-q.Stop:
		return nil, notSent(fault.ErrClosed)
	case <-c.tasks.Closed():
		if q.Slot == DutySlot {
			return nil, nil
		}
		return nil, notSent(fault.ErrClosed)
	}
}

// unsent returns the error of a call whose node was not found.
func unsent(err *fault.Error) *fault.Error {
	f := notSent(err.Err)
	f.Code, f.Transient, f.Stale = err.Code, err.Transient, err.Stale
	return f
}
