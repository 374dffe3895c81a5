package owner

import (
	"slices"
	"sync"
)

// List has acquisitions in the order in which they were made. The zero value has none. It is safe for concurrent use.
type List[A comparable] struct {
	mu   sync.Mutex // a leaf
	made []A
}

// All returns the acquisitions.
func (l *List[A]) All() []A {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.made)
}

// Add appends an acquisition.
func (l *List[A]) Add(a A) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = append(l.made, a)
}

// Remove drops an acquisition, if it is there.
func (l *List[A]) Remove(a A) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.made, a); i >= 0 {
		l.made = slices.Delete(l.made, i, i+1)
	}
}
