package rlock

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-rlock/rlock/internal/client"
)

// CountDownLatch is a handle on a count-down latch in Redis: a count that processes lower to zero, while others wait for that. A
// latch that has a count is closed. It is open once the count is zero, and also if nobody has set a count, or if the latch was
// deleted. It is made by [Client.NewCountDownLatch]. A handle is cheap and safe for concurrent use, and the handles of one name
// are one latch, in all processes.
//
// Set the count before anybody awaits the latch: Await returns at once if the latch has no count. A participant that
// dies before it has counted down leaves the others waiting: let them wait with [Wait], or with a context that ends. Rather than
// set a latch again that has opened, use a new name for each round, such as "job:42:round:7". A participant of the last round
// that is late would otherwise count in the next one. A latch has no lease: the key stays until the count is zero, or until
// [CountDownLatch.Delete].
//
// A latch counts calls, not work: a job that another process does again, because the first one died after its work, is counted
// again, or not at all, according to where CountDown was. So for jobs in a database, give Await a Wait, and look there which are done.
type CountDownLatch struct{ l client.Latch }

// NewCountDownLatch returns a handle on the latch of that name. It ports getCountDownLatch. It sends nothing and does not fail.
// The first method that is called reports a name that cannot be a latch's with [ErrInvalidName]. On a cluster, that is a name
// with a pair of braces: Redisson puts braces around it for the channel, so that key and channel would be in different slots.
func (c *Client) NewCountDownLatch(name string) *CountDownLatch {
	if c == nil || c.client == nil {
		return nil
	}
	l := &CountDownLatch{}
	l.l.Init(c.client, name, c.mapName(name))
	return l
}

// in returns the implementation of the handle, or nil.
func (l *CountDownLatch) in() *client.Latch {
	if l == nil {
		return nil
	}
	return &l.l
}

// Name returns the name with which the handle was made, before any prefix or mapper. It ports getName. A nil handle has an
// empty name.
func (l *CountDownLatch) Name() string { return l.in().Lock().Name() }

// TrySetCount sets the count to n if the latch has none, and reports whether it did. It ports trySetCount. False means that the
// latch has a count already, which stays as it is. n is from 1 to 2^53-1; otherwise the error is [ErrInvalidOption]. (Redisson
// takes 0 and less, which makes a latch that is open and cannot be set.)
//
// Like [CountDownLatch.CountDown], a call counts once, and has the errors of that method: a call whose reply is lost is repeated,
// and still returns true if it was the one that set the count.
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int64) (bool, error) {
	return l.in().TrySetCount(ctx, n)
}

// CountDown lowers the count by one, and returns what is left. At 0 the latch opens. On an open latch it does nothing, and
// returns 0. It ports countDown.
//
// Each call counts once, whatever the network does. While Redis does not answer, or is in a state that may pass, CountDown sends
// its command again, until ctx ends or for as long as the command timeout. Redis knows the call by a number, and does not count it
// twice. If there is no answer by then, the text of the error says that the outcome is unknown: the call may have counted, and it may
// still count at the moment at which Redis answers again. After that it does not, unless the process died before. Redis remembers
// a number for two minutes longer than the command timeout. If an eviction or a failover loses the number but not the count, a
// repeated command may count again.
//
// The error is [ErrUnavailable] if Redis did not answer, the error and cause of a ctx that ended, [ErrClosed], [ErrInvalidName] or
// an error of Redis that waiting does not help. For example, the key may have a value that is no count. That stays as it is.
func (l *CountDownLatch) CountDown(ctx context.Context) (left int64, err error) {
	return l.in().CountDown(ctx)
}

// Count returns the count: 0 if the latch is open because it has none. It ports getCount, and asks the master. A latch that
// Redisson has set to less than 1 is open, too. A count above 2^53, which only Redisson sets, may be rounded.
func (l *CountDownLatch) Count(ctx context.Context) (int64, error) { return l.in().Count(ctx) }

// Await waits until the latch is open, and returns nil then. It returns at once if the latch has no count. It ports await, but
// also returns when the latch is deleted or its key goes in another way, and if somebody sets the latch again as soon as it has
// opened. It waits until ctx ends, or as long as [Wait] says. Wait(0) asks once. Other options are refused with
// [ErrInvalidOption].
//
// The error is [ErrNotAcquired] if the latch was closed when ctx ended or the wait was over, and [ErrUnavailable] if Redis could
// not say so. Either is joined with the error and cause of a ctx that ended. If ctx had ended before the call, or was canceled
// before Redis could reply, the error is ctx's error and cause alone. [Client.Close] and [Client.Shutdown] end the wait with
// [ErrClosed]. The other errors are those of [CountDownLatch.CountDown].
//
// All calls of a client that await one latch share one subscription, and one of them asks Redis for all. A message wakes them.
// If one is lost, they notice at the poll interval, see [WithPollInterval].
func (l *CountDownLatch) Await(ctx context.Context, opts ...AcquireOption) error {
	t := terms("await", false, false, opts)
	for _, opt := range opts {
		if t.Err == nil && opt.what != waitOption {
			t.Err = fmt.Errorf("%w: a latch is awaited with Wait only", ErrInvalidOption)
		}
	}
	return l.in().Await(ctx, t)
}

// Delete deletes the latch, whatever its count is, and reports whether it had one. That opens it: calls of [CountDownLatch.Await]
// return nil, also those of other processes. It ports delete, but Redisson's own await does not return then. Like
// [CountDownLatch.CountDown], a call counts once, and has the errors of that method.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) { return l.in().Delete(ctx) }

// LogValue implements [slog.LogValuer] with the name and the kind.
func (l *CountDownLatch) LogValue() slog.Value { return l.in().Lock().LogValue("latch") }

// String implements [fmt.Stringer]: the kind and the name.
func (l *CountDownLatch) String() string { return l.in().Lock().Text("count-down latch") }
