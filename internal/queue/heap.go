package queue

import "container/heap"

// Timed is the due time of an item of a [Heap], which embeds it. The zero value is in no heap.
type Timed[M ~int64] struct {
	due   M
	place int32 // one more than the index; 0 means that it is in no heap
}

// DueAt returns the moment at which the item is due, or was due when it was last in a heap.
func (t *Timed[M]) DueAt() M { return t.due }

func (t *Timed[M]) timed() *Timed[M] { return t }

// Due is an item of a [Heap]: a pointer to a type that embeds [Timed].
type Due[M ~int64] interface {
	comparable
	timed() *Timed[M]
}

// Heap has the item that is due first at its head. The zero value is an empty heap. It is not safe for concurrent use.
type Heap[T Due[M], M ~int64] struct {
	items items[T, M]
	alarm M // the alarm that was asked for; zero means none
}

// Len returns how many items it has.
func (h *Heap[T, M]) Len() int { return len(h.items) }

// Head returns the item that is due first. The heap must not be empty.
func (h *Heap[T, M]) Head() T { return h.items[0] }

// Due returns the item that is due first, if it is due by now, and zero if not.
func (h *Heap[T, M]) Due(now M) T {
	if len(h.items) > 0 && h.items[0].timed().due <= now {
		return h.items[0]
	}
	var none T
	return none
}

// Alarm returns when the first item is due, or zero if an alarm for that moment or an earlier one was returned before. An
// alarm that comes for nothing is cheaper than an alarm that is always exact: an item that comes and goes all day does not
// move it.
func (h *Heap[T, M]) Alarm() M {
	if len(h.items) == 0 {
		return 0
	}
	if due := h.items[0].timed().due; h.alarm == 0 || due < h.alarm {
		h.alarm = due
		return due
	}
	return 0
}

// Rang forgets the alarm, because it has come.
func (h *Heap[T, M]) Rang() { h.alarm = 0 }

// All returns all items, in no order. The slice belongs to the heap.
func (h *Heap[T, M]) All() []T { return h.items }

// Set makes an item due at a moment. It may be in the heap already.
func (h *Heap[T, M]) Set(item T, due M) {
	t := item.timed()
	t.due = due
	if t.place > 0 {
		heap.Fix(&h.items, int(t.place-1))
	} else {
		heap.Push(&h.items, item)
	}
}

// Remove takes an item out. It does nothing if the item is not in the heap.
func (h *Heap[T, M]) Remove(item T) {
	if at := item.timed().place; at > 0 {
		heap.Remove(&h.items, int(at-1))
	}
}

// Before returns the items that are due before a moment, roughly in order.
func (h *Heap[T, M]) Before(moment M) []T {
	var found []T
	look := func(i int) {
		if i < len(h.items) && h.items[i].timed().due < moment {
			found = append(found, h.items[i])
		}
	}
	look(0)
	for i := 0; i < len(found); i++ { // the children of a later item are later, too
		at := int(found[i].timed().place - 1)
		look(2*at + 1)
		look(2*at + 2)
	}
	return found
}

// items implements heap.Interface.
type items[T Due[M], M ~int64] []T

func (s *items[T, M]) Len() int           { return len(*s) }
func (s *items[T, M]) Less(i, j int) bool { return (*s)[i].timed().due < (*s)[j].timed().due }

func (s *items[T, M]) Swap(i, j int) {
	all := *s
	all[i], all[j] = all[j], all[i]
	all[i].timed().place, all[j].timed().place = int32(i+1), int32(j+1)
}

// Push is called by container/heap.
func (s *items[T, M]) Push(x any) {
	item, _ := x.(T)
	*s = append(*s, item)
	item.timed().place = int32(len(*s))
}

// Pop is called by container/heap.
func (s *items[T, M]) Pop() any {
	all := *s
	last := len(all) - 1
	item := all[last]
	var none T
	all[last] = none
	item.timed().place = 0
	*s = all[:last]
	return item
}
