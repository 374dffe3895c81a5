package rlock

import (
	"context"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/group"
)

// MultiLock is several locks that are taken as one: all of them or none. It is made by [NewMultiLock], holds nothing by itself, and is
// safe for concurrent use.
//
// It tries all locks at once. If one refuses, it gives all back, waits for that one, and tries the others again. So it holds nothing while
// it waits, and callers that name the same locks in different orders do not block each other. Two single attempts that come at the same
// moment may each take a part, and both be refused.
type MultiLock struct{ g *group.Group }

// NewMultiLock returns a handle on all of the locks together. They may be of any kinds and clients. A lock that is given twice is taken
// once. The first method that is called reports an empty list, a nil lock, and a plain and a fair lock of one name and client, which would
// wait for each other, with [ErrInvalidOption].
func NewMultiLock(locks ...*Lock) *MultiLock { return &MultiLock{group.NewMulti(members(locks))} }

// members returns the implementations of locks.
func members(locks []*Lock) []client.Member {
	all := make([]client.Member, len(locks))
	for i, l := range locks {
		all[i] = l.in()
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

// Do is [Lock.Do] for all members.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, m.in(), fn, terms("do", false, true, nil, opts))
}

// Acquire is [Lock.Acquire] for all members. [Wait] and ctx bound the wait for all of them together. The error is that of the member that
// could not be acquired; then nothing is held. The hold is lost when any member is lost; the others stay held until it is unlocked. Its
// context re-enters every member. Its Unlock returns [ErrLost] if a member was lost, and otherwise the error of a member that could not be
// unlocked.
func (m *MultiLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, m.in(), terms("acquire", false, true, nil, opts))
}

// TryAcquire is [MultiLock.Acquire] with a [Wait] of 0 unless the call has another. The error is [ErrNotAcquired] if another owner holds a
// member.
func (m *MultiLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, m.in(), terms("try acquire", true, true, nil, opts))
}
