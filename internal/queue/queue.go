// Package queue has containers that keep an order: waiters by arrival, items by due time, keys by when they were set. It also has
// what wakes sleepers, and makes a channel only when a goroutine sleeps. The containers are passive: they do not wake waiters, and
// use only their identity.
package queue

import "slices"

// Queue is a first-in-first-out queue of waiters. The first waiter is its head. The zero value is an empty queue. It is
// not safe for concurrent use: the caller's mutex guards it.
type Queue[W comparable] struct {
	waiters []W
}

// Join appends a waiter, and reports whether it is the head at once. The waiter must not be in the queue already.
func (q *Queue[W]) Join(w W) (head bool) {
	q.waiters = append(q.waiters, w)
	return len(q.waiters) == 1
}

// Head returns the first waiter. It returns the zero value if the queue is empty.
func (q *Queue[W]) Head() W {
	if len(q.waiters) == 0 {
		var none W
		return none
	}
	return q.waiters[0]
}

// Leave removes a waiter, and reports whether it was the head: then the next waiter is the head now. It does nothing,
// and reports false, if the waiter is not in the queue.
func (q *Queue[W]) Leave(w W) (wasHead bool) {
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return false
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	return i == 0
}

// Len returns how many waiters are in the queue.
func (q *Queue[W]) Len() int { return len(q.waiters) }

// All returns the waiters in order. The slice belongs to the queue: the caller must not change it, and it is valid only
// until the next Join or Leave.
func (q *Queue[W]) All() []W { return q.waiters }

// Without removes an element from a slice, if it is there, and keeps no reference to it.
func Without[T comparable](s []T, gone T) []T {
	if i := slices.Index(s, gone); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}
