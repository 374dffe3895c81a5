package queue

// Set has the queues of several names. A queue is in it while a waiter is in that queue. The zero value has none. It is not
// safe for concurrent use: the caller's mutex guards it, and its queues.
type Set[K, W comparable, S any] struct {
	byKey map[K]*Line[W, S]
	spare []*Line[W, S] // ready for reuse
}

// Line is a queue of a [Set], with what its waiters share. Shared is zero when the first waiter joins.
type Line[W comparable, S any] struct {
	Queue[W]
	Shared S
}

// maxSpare is how many queues a set keeps for the names that come next, and how many waiters such a queue had at most.
const maxSpare = 16

// Len returns how many queues have waiters.
func (s *Set[K, W, S]) Len() int { return len(s.byKey) }

// Of returns the queue of a name, or nil if it has no waiter.
func (s *Set[K, W, S]) Of(key K) *Line[W, S] { return s.byKey[key] }

// Join appends a waiter to the queue of a name, and reports whether it is the head at once.
func (s *Set[K, W, S]) Join(key K, w W) (l *Line[W, S], head bool) {
	l = s.byKey[key]
	if l == nil {
		if s.byKey == nil {
			s.byKey = make(map[K]*Line[W, S])
		}
		if last := len(s.spare) - 1; last >= 0 {
			l, s.spare = s.spare[last], s.spare[:last]
		} else {
			l = new(Line[W, S])
		}
		s.byKey[key] = l
	}
	return l, l.Join(w)
}

// Leave removes a waiter from the queue of a name. It returns the waiter that thereby becomes the head, or zero. A queue
// that is empty leaves the set.
func (s *Set[K, W, S]) Leave(key K, w W) (next W) {
	l := s.byKey[key]
	if l.Leave(w) {
		next = l.Head()
	}
	if len(l.waiters) > 0 {
		return next
	}
	delete(s.byKey, key)
	if len(s.spare) < maxSpare && cap(l.waiters) <= maxSpare {
		*l = Line[W, S]{Queue: l.Queue}
		s.spare = append(s.spare, l)
	}
	return next
}
