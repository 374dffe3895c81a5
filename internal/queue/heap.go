package queue

import "container/heap"

// Due is what a [Heap] orders.
type Due[M ~int64] interface {
	comparable
	// DueAt returns the moment at which it is due.
	DueAt() M
	// Place returns where the heap keeps its index, which is -1 while it is not in the heap.
	Place() *int32
}

// Heap has what is due first at its head. The zero value is an empty heap. It is not safe for concurrent use.
type Heap[T Due[M], M ~int64] struct{ items items[T, M] }

// Len returns how many items it has.
func (h *Heap[T, M]) Len() int { return len(h.items) }

// Head returns what is due first. The heap must not be empty.
func (h *Heap[T, M]) Head() T { return h.items[0] }

// All returns everything, in no order. The slice belongs to the heap.
func (h *Heap[T, M]) All() []T { return h.items }

// Fix puts an item where it belongs, whether it was in the heap or not.
func (h *Heap[T, M]) Fix(item T) {
	if at := *item.Place(); at >= 0 {
		heap.Fix(&h.items, int(at))
	} else {
		heap.Push(&h.items, item)
	}
}

// Remove takes an item out, if it is in.
func (h *Heap[T, M]) Remove(item T) {
	if at := *item.Place(); at >= 0 {
		heap.Remove(&h.items, int(at))
	}
}

// Before returns what is due before a moment, the first items roughly first.
func (h *Heap[T, M]) Before(moment M) []T {
	var found []T
	look := func(i int) {
		if i < len(h.items) && h.items[i].DueAt() < moment {
			found = append(found, h.items[i])
		}
	}
	look(0)
	for i := 0; i < len(found); i++ { // the children of what is due later are, too
		at := int(*found[i].Place())
		look(2*at + 1)
		look(2*at + 2)
	}
	return found
}

// items implements heap.Interface.
type items[T Due[M], M ~int64] []T

func (s *items[T, M]) Len() int           { return len(*s) }
func (s *items[T, M]) Less(i, j int) bool { return (*s)[i].DueAt() < (*s)[j].DueAt() }

func (s *items[T, M]) Swap(i, j int) {
	all := *s
	all[i], all[j] = all[j], all[i]
	*all[i].Place(), *all[j].Place() = int32(i), int32(j)
}

// Push is called by container/heap.
func (s *items[T, M]) Push(x any) {
	item, _ := x.(T)
	*item.Place() = int32(len(*s))
	*s = append(*s, item)
}

// Pop is called by container/heap.
func (s *items[T, M]) Pop() any {
	all := *s
	last := len(all) - 1
	item := all[last]
	var none T
	all[last] = none
	*item.Place() = -1
	*s = all[:last]
	return item
}
