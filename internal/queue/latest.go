package queue

// maxLatest is how many items a [Latest] remembers.
const maxLatest = 1024

// Latest remembers the items that were added last. The zero value has none. It is not safe for concurrent use.
type Latest[T any] struct {
	items  []T // a ring once it is full
	oldest int // in the full ring
}

// Add adds an item. If there are too many, it forgets the oldest one.
func (l *Latest[T]) Add(item T) {
	if len(l.items) < maxLatest {
		l.items = append(l.items, item)
		return
	}
	l.items[l.oldest] = item
	l.oldest = (l.oldest + 1) % maxLatest
}

// Find returns an item that is the wanted one, and zero if there is none.
func (l *Latest[T]) Find(wanted func(T) bool) T {
	for _, item := range l.items {
		if wanted(item) {
			return item
		}
	}
	var none T
	return none
}
