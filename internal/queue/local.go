package queue

import "sync"

// Local has local queues: in each, goroutines of this process take their turns in order of arrival. Shared is what the
// waiters of one queue tell each other. The zero value has no queue. Unlike the other types of this package, it is safe for
// concurrent use.
type Local[K comparable, Shared any] struct {
	mu  sync.Mutex
	set Set[K, *Waiter[K, Shared], Shared]
}

// Waiter is a goroutine's membership in a local queue.
type Waiter[K comparable, Shared any] struct {
	of   *Local[K, Shared]
	key  K
	head chan struct{} // nil means that it was the head at once
}

// Join appends a waiter to the queue of a name. It must leave.
func (l *Local[K, Shared]) Join(key K) *Waiter[K, Shared] {
	w := &Waiter[K, Shared]{of: l, key: key}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, head := l.set.Join(key, w); !head {
		w.head = make(chan struct{})
	}
	return w
}

// Waiting returns how many waiters are in the queue of a name.
func (l *Local[K, Shared]) Waiting(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.set.Of(key); q != nil {
		return q.Len()
	}
	return 0
}

// Len returns how many queues have waiters.
func (l *Local[K, Shared]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set.Len()
}

// Head returns a channel that is closed once the waiter is the head. Nil means that it was the head at once.
func (w *Waiter[K, Shared]) Head() <-chan struct{} { return w.head }

// Share replaces what the waiters of the queue tell each other. A nil waiter tells nobody.
func (w *Waiter[K, Shared]) Share(s Shared) {
	if w == nil {
		return
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.set.Of(w.key).Shared = s
}

// Shared returns what was shared last. A waiter that has left may get nothing.
func (w *Waiter[K, Shared]) Shared() (last Shared) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if q := w.of.set.Of(w.key); q != nil {
		return q.Shared
	}
	return last
}

// Leave makes way for the next waiter. It returns what was shared last. A nil waiter is in no queue.
func (w *Waiter[K, Shared]) Leave() (last Shared) {
	if w == nil {
		return last
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	last = w.of.set.Of(w.key).Shared
	if next := w.of.set.Leave(w.key, w); next != nil {
		close(next.head)
	}
	return last
}
