package rlock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// MultiLock is several locks that are taken as one: all of them or none. It is made by [NewMultiLock], holds nothing by
// itself, and is safe for concurrent use.
//
// Its members are asked in an order of their own, so that callers who name the same locks in different orders do not
// wait for each other in a circle. It waits for one member at a time, and holds no other meanwhile.
type MultiLock struct {
	group *group
}

var _ Locker = (*MultiLock)(nil)

// NewMultiLock returns a handle on all of the locks together. They may be of any kinds and clients; a lock that is given
// twice is taken once, and of a MultiLock among them its members count. It ports RedissonMultiLock. It does not fail: no
// lock, or a nil one, is reported by the first verb, with [ErrInvalidOption].
//
// Because it waits for one member at a time, it stands in one queue at a time: of fair locks that are always waited for it
// can have one among its members, and may never get two.
func NewMultiLock(locks ...Locker) *MultiLock {
	var members []Locker
	for _, l := range locks {
		if m, ok := l.(*MultiLock); ok && m != nil && m.group != nil {
			members = append(members, m.group.members...)
		} else {
			members = append(members, l)
		}
	}
	g := newGroup("multi lock", members)
	if g.err == nil {
		members = slices.CompactFunc(inOrder(members), func(a, b Locker) bool {
			one, ok := a.(*Lock)
			two, also := b.(*Lock)
			return a == b || ok && also && one.key() == two.key()
		})
		g = newGroup("multi lock", members)
	}
	g.take = (*groupRequest).takeAll
	return &MultiLock{g}
}

// inOrder returns the members in the order in which every process takes them: by name, writers before readers, then as
// they were given. Equal ones come together.
func inOrder(members []Locker) []Locker {
	given := make(map[lockKey]int)
	for i, m := range members {
		if key := m.leaves()[0].key(); given[key] == 0 {
			given[key] = i + 1
		}
	}
	ordered := slices.Clone(members)
	slices.SortStableFunc(ordered, func(a, b Locker) int {
		one, two := a.leaves()[0].key(), b.leaves()[0].key()
		return cmp.Or(cmp.Compare(one.name, two.name), cmp.Compare(one.side, two.side), cmp.Compare(given[one], given[two]))
	})
	return ordered
}

// takeAll takes every member. It waits for one of them alone: the others it only tries, and if one is refused it
// releases all, and waits for that one first.
func (r *groupRequest) takeAll() (*groupEntry, error) {
	first := 0
	for round := 1; ; round++ {
		e := r.newEntry()
		failed, err := r.takeFrom(e, first)
		if err == nil && e.begin() {
			return e, nil
		}
		released := e.giveUp(r)
		if err == nil { // a lease ran out while the others were taken
			err, failed = errLate, first
		}
		if r.single() || r.limited && r.left() == 0 || failed == first && !errors.Is(err, errLate) {
			return nil, errors.Join(err, released)
		}
		first = failed
		if round > 1 { // against two who keep taking from each other what they need
			r.rest(rand.N(time.Millisecond<<min(round, 6)), nil)
		}
	}
}

// takeFrom takes a member, waiting for it, and then tries the others in order. It returns which one it did not get.
func (r *groupRequest) takeFrom(e *groupEntry, first int) (int, error) {
	take := func(i int, try bool) error {
		h, err := r.ask(r.ctx, r.group.members[i], try)
		if err == nil {
			e.add(i, h)
		}
		return err
	}
	if err := take(first, r.single()); err != nil {
		return first, err
	}
	for i := range r.group.members {
		if i == first {
			continue
		}
		if err := take(i, true); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func (m *MultiLock) of() *group {
	if m == nil {
		return nil
	}
	return m.group
}

// Lock is [Lock.Lock] for all members: it waits until the context's owner holds them. A member that fails for another
// reason than that somebody holds it is waited for too, if waiting may mend it. After an error nothing is held: what had
// been taken is released, and errors of that are joined.
//
// When neither an owner nor a hold of a member is in ctx, all members are asked for one owner that is made for it.
func (m *MultiLock) Lock(ctx context.Context, opts ...AcquireOption) error {
	return lock(ctx, m, opts)
}

// TryLock is [MultiLock.Lock] with a [Wait] of 0 unless another is given. It returns false and nil when another owner
// holds a member.
func (m *MultiLock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	return tryLock(ctx, m, opts)
}

// Unlock settles one Lock or TryLock, as [Lock.Unlock] does. It tries to unlock all members, and joins their errors.
func (m *MultiLock) Unlock(ctx context.Context) error { return m.of().unlock(ctx) }

// Do is [Lock.Do] for all members.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return do(ctx, m, fn, opts)
}

// Acquire is [MultiLock.Lock], and returns the acquisition as a value. The hold is lost when any member is lost; the
// others stay held until it is unlocked. Its context re-enters every member.
func (m *MultiLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, m, acquisition{op: "acquire", byHold: true}, opts)
}

// TryAcquire is [MultiLock.Acquire] with a [Wait] of 0 unless another is given. When another owner holds a member the
// error is [ErrNotAcquired].
func (m *MultiLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return takeHold(ctx, m, acquisition{op: "try acquire", byHold: true, try: true}, opts)
}

func (m *MultiLock) take(ctx context.Context, a acquisition, opts []AcquireOption) (holding, error) {
	return m.of().takeOne(ctx, a, opts)
}

func (m *MultiLock) leaves() []*Lock { return m.of().leaves() }

func (m *MultiLock) warn(message string, err error) { m.of().warn(message, err) }
