package queue

// maxKnown is how many keys a [Known] remembers.
const maxKnown = 256

// Known remembers keys, and which of them were marked. When there are too many, it forgets the key that was added first. The
// zero value knows none. It is not safe for concurrent use.
type Known[K comparable] struct {
	marked map[K]bool
	order  []K // a ring once it is full
	oldest int // in the full ring
}

// Add adds a key, unmarked, unless it is known.
func (s *Known[K]) Add(k K) {
	if _, ok := s.marked[k]; ok {
		return
	}
	if len(s.order) < maxKnown {
		s.order = append(s.order, k)
	} else {
		delete(s.marked, s.order[s.oldest])
		s.order[s.oldest] = k
		s.oldest = (s.oldest + 1) % maxKnown
	}
	if s.marked == nil {
		s.marked = make(map[K]bool)
	}
	s.marked[k] = false
}

// Mark marks a key. It reports whether the key is known and was not marked before.
func (s *Known[K]) Mark(k K) bool {
	if marked, ok := s.marked[k]; !ok || marked {
		return false
	}
	s.marked[k] = true
	return true
}
