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

// take takes a slot for a question, at the node that has its key. It returns nil for a duty that is sent without a slot. Its
// error has the fate [fault.NotSent].
func (c *Conn) take(wait context.Context, q *Question, e *errand) (slot, *fault.Error) {
	if q.Slot == DutySlot {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, c.CommandTimeout)
		defer cancel()
	}
	slots, err := c.slotsFor(wait, q.Call.Key())
	if err != nil {
		return nil, err
	}
	select {
	case slots <- struct{}{}:
		return slots, nil
	default:
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

// slotsFor returns the slots of the node that has a key.
func (c *Conn) slotsFor(ctx context.Context, key string) (slot, *fault.Error) {
	if !c.cluster {
		return c.slot, nil
	}
	node, err := c.driver.Node(ctx, key)
	if err != nil {
		return nil, unsent(err)
	}
	if node == nil {
		return c.slot, nil
	}
	v, ok := c.nodeSlots.Load(node.Addr())
	if !ok {
		v, _ = c.nodeSlots.LoadOrStore(node.Addr(), make(slot, c.Slots))
	}
	slots, _ := v.(slot)
	return slots, nil
}

// unsent returns the error of a call whose node was not found.
func unsent(err *fault.Error) *fault.Error {
	f := notSent(err.Err)
	f.Code, f.Transient, f.Stale = err.Code, err.Transient, err.Stale
	return f
}
