package rlock

import (
	"context"
	"log/slog"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/group"
)

// MultiLock is several locks that are taken as one: all of them or none. It is made by [NewMultiLock], holds nothing by
// itself, and is safe for concurrent use.
//
// Its members have a fixed order of its own. So callers that name the same locks in different orders do not wait for each
// other in a circle. It asks for all locks at once: those of one client take one round trip. While it waits for the first member, it holds
// no other. If the waiters of a member queue, it waits for that member a moment: at most a tenth of the lease, and never more than 3 s. It only
// tries any other member. If one refuses, it releases all, and waits for that one first. A hold for a fixed time may be shorter by the moment.
type MultiLock struct{ g *group.Group }

// NewMultiLock returns a handle on all of the locks together. They may be of any kinds and clients. A lock that is given
// twice is taken once. A plain and a fair lock of one name and client would wait for each other: [ErrInvalidOption]. A MultiLock among them counts as its members. It ports RedissonMultiLock. It does not fail: the first
// method that is called reports an empty list, or a nil lock, with [ErrInvalidOption].
//
// It stands in one queue at a time. If other owners always wait for two of its members, and the wait in each of the queues is
// longer than that moment, it may never get them.
func NewMultiLock(locks ...Locker) *MultiLock { return &MultiLock{group.NewMulti(members(locks))} }

// members returns the implementations of locks.
func members(locks []Locker) []client.Member {
	all := make([]client.Member, len(locks))
	for i, l := range locks {
		if l != nil {
			all[i] = l.member()
		}
	}
	return all
}

// in returns the implementation of the handle, or nil.
func (m *MultiLock) in() *group.Group {
	if m == nil {
		return nil
	}
	return m.g
}

func (m *MultiLock) member() client.Member { return m.in() }

// String implements [fmt.Stringer]: the kind and the names of the locks.
func (m *MultiLock) String() string { return m.in().Text("multi lock") }

// LogValue returns the names of the locks and the kind, for a log line. It implements [slog.LogValuer].
func (m *MultiLock) LogValue() slog.Value { return m.in().LogValue() }

// Lock is [Lock.Lock] for all members: it waits until the context's owner holds them. It also waits for a member that fails
// for another reason than another owner's hold, if waiting may help. [Wait] bounds the wait for all members together, and
// so does ctx.
//
// The error is that of the member that could not be acquired. After an error nothing is held: the members already acquired are
// released. A release that hangs goes on in the background. An error of it is only in the text of the error.
//
// If ctx has neither an owner nor a hold of a member, the call makes an owner, for which all members are asked.
func (m *MultiLock) Lock(ctx context.Context, opts ...AcquireOption) error {
	return lock(ctx, m.in(), opts)
}

// TryLock is [MultiLock.Lock] with a [Wait] of 0 unless another is given. It returns false and nil if another owner holds a
// member.
func (m *MultiLock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	return tryLock(ctx, m.in(), opts)
}

// Unlock ends one acquisition made by Lock or TryLock, as [Lock.Unlock] does. It tries to unlock all members. The error is
// [ErrLost] if one of them was lost. Otherwise it matches [ErrUnavailable] only if no member failed for another reason. The
// errors that do not decide are text.
func (m *MultiLock) Unlock(ctx context.Context) error { return m.in().Unlock(ctx) }

// Do is [Lock.Do] for all members.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, m.in(), fn, terms("do", false, true, opts))
}

// Acquire is [MultiLock.Lock], but returns the acquisition as a value. The hold is lost when any member is lost. The others
// stay held until it is unlocked. Its context re-enters every member.
func (m *MultiLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, m.in(), terms("acquire", false, true, opts))
}

// TryAcquire is [MultiLock.Acquire] with a [Wait] of 0 unless another is given. If another owner holds a member, the error is
// [ErrNotAcquired].
func (m *MultiLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, m.in(), terms("try acquire", true, true, opts))
}
