package queue

import "slices"

// Memory remembers a value for each of the latest keys. Beyond its size, it forgets the key that was set first. It is not safe for
// concurrent use. The zero value remembers nothing: see [NewMemory].
type Memory[K comparable, V any] struct {
	size      int
	values    map[K]V
	order     []K // by when they were set
	forgotten V
}

// NewMemory returns an empty memory of so many keys.
func NewMemory[K comparable, V any](size int) Memory[K, V] { return Memory[K, V]{size: size} }

// Of returns the value of a key, and whether it is remembered.
func (m *Memory[K, V]) Of(k K) (v V, ok bool) {
	v, ok = m.values[k]
	return v, ok
}

// Forgotten returns the value that was forgotten last, or zero. It stands for the keys that are not remembered.
func (m *Memory[K, V]) Forgotten() V { return m.forgotten }

// Set gives a key a value. The key is the latest one from now on.
func (m *Memory[K, V]) Set(k K, v V) {
	_, known := m.values[k]
	switch {
	case known:
		m.order = Without(m.order, k)
	case m.values == nil:
		m.values = make(map[K]V)
	case len(m.order) == m.size:
		m.forgotten = m.values[m.order[0]]
		m.drop(1)
	}
	m.values[k] = v
	m.order = append(m.order, k)
}

// Expire forgets the values that are over. They are over in the order in which they were set.
func (m *Memory[K, V]) Expire(over func(V) bool) {
	n := 0
	for n < len(m.order) && over(m.values[m.order[n]]) {
		n++
	}
	m.drop(n)
	if over(m.forgotten) {
		var none V
		m.forgotten = none
	}
}

func (m *Memory[K, V]) drop(n int) {
	for _, k := range m.order[:n] {
		delete(m.values, k)
	}
	m.order = slices.Delete(m.order, 0, n)
}
