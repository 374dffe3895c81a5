package rlock

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/internal/client"
)

// CountDownLatch is a handle on a count-down latch in Redis: a count that some lower to zero while others wait for that. A latch with a
// count is closed; it is open once the count is zero, and also if nobody has set a count or the latch was deleted. A handle is cheap and
// safe for concurrent use. All handles of a name are one latch, in all processes.
//
// Set the count before anybody awaits the latch. If a participant dies before it has counted down, the others wait on, so give them a
// [Wait] or a context that ends. Use a new name for each round, such as "job:42:round:7": a participant that is late would otherwise count
// in the next round. A latch has no lease.
//
// A latch counts calls, not work: if a participant dies between its work and CountDown, another that repeats the work counts again, or not
// at all.
type CountDownLatch struct{ l client.Latch }

// NewCountDownLatch returns a handle on the latch of that name. On a cluster, a name with a pair of braces is refused with
// [ErrInvalidName]: Redisson puts braces around it for the channel, so key and channel would be in different slots.
func (c *Client) NewCountDownLatch(name string) *CountDownLatch {
	if c == nil || c.client == nil {
		return nil
	}
	l := &CountDownLatch{}
	l.l.Init(c.client, name, c.inRedis(name))
	return l
}

// in returns the implementation of the handle, or nil.
func (l *CountDownLatch) in() *client.Latch {
	if l == nil {
		return nil
	}
	return &l.l
}

// Name returns the name with which the handle was made, without the prefix. It is empty for a nil handle.
func (l *CountDownLatch) Name() string { return l.in().Lock().Name() }

// TrySetCount sets the count to n if the latch has none, and reports whether it did. n is from 1 to 2^53-1. A call
// counts once, and has the errors of [CountDownLatch.CountDown].
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int64) (bool, error) {
	return l.in().TrySetCount(ctx, n)
}

// CountDown lowers the count by one, and returns what is left. At 0 the latch opens. On an open latch it does nothing, and returns 0.
//
// A call counts once, whatever the network does: while Redis does not answer, CountDown repeats its command until ctx ends or for as long
// as the command timeout, and Redis does not count the number of a call twice. If there is no answer by then, the error says that the
// outcome is unknown. Only a failover or an eviction that loses the number, but not the count, can make a repeated command count again.
//
// The error is [ErrUnavailable] if Redis did not answer, the error and cause of a ctx that ended, [ErrClosed], [ErrInvalidName], or an
// error of Redis that waiting does not help.
func (l *CountDownLatch) CountDown(ctx context.Context) (left int64, err error) {
	return l.in().CountDown(ctx)
}

// Count returns the count: 0 if the latch is open. It asks the master. A count above 2^53, which only Redisson sets, may be rounded.
func (l *CountDownLatch) Count(ctx context.Context) (int64, error) { return l.in().Count(ctx) }

// Await waits until the latch is open, until ctx ends, or for as long as [Wait] says; Wait(0) asks once. It returns nil at once if the
// latch has no count. Other options are refused with [ErrInvalidOption].
//
// The error is [ErrNotAcquired] if the latch was closed when the wait was over or ctx ended, and [ErrUnavailable] if Redis could not say
// so, joined with the error and cause of a ctx that ended. If ctx had ended before the call, or was canceled before Redis could reply, the
// error is that of ctx alone. [Client.Close] and [Client.Shutdown] end the wait with [ErrClosed].
func (l *CountDownLatch) Await(ctx context.Context, opts ...AcquireOption) error {
	t := terms("await", false, false, nil, opts)
	if t.Err == nil && (t.Lease != 0 || t.Permits != 0 || t.AtLeast != 0) {
		t.Err = fmt.Errorf("%w: a latch is awaited with Wait only", ErrInvalidOption)
	}
	return l.in().Await(ctx, t)
}

// Delete deletes the latch, whatever its count is, and reports whether it had one. That opens it for every [CountDownLatch.Await], but not
// for Redisson's await. A call counts once, and has the errors of [CountDownLatch.CountDown].
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) { return l.in().Delete(ctx) }

// String implements [fmt.Stringer]: the kind and the name.
func (l *CountDownLatch) String() string { return l.in().Lock().Text("count-down latch") }
