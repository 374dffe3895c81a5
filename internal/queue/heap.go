package queue

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
	items []T
	alarm M // the alarm that was asked for; zero means none
}

// Len returns how many items it has.
func (h *Heap[T, M]) Len() int { return len(h.items) }

// Due returns the item that is due first, if it is due by now, and zero if not.
func (h *Heap[T, M]) Due(now M) T {
	if len(h.items) > 0 && h.items[0].timed().due <= now {
		return h.items[0]
	}
	var none T
	return none
}

// Alarm returns when the first item is due, or zero if an alarm for that moment or an earlier one was returned before. An
// alarm that comes for nothing is cheaper than an alarm that is always exact: an item that comes and goes all day does not move it.
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

// All returns all items. The first one is due first; the others have no order. The slice belongs to the heap.
func (h *Heap[T, M]) All() []T { return h.items }

// Set makes an item due at a moment. It may be in the heap already.
func (h *Heap[T, M]) Set(item T, due M) {
	t := item.timed()
	if t.due = due; t.place == 0 {
		h.items = append(h.items, item)
		t.place = int32(len(h.items))
	}
	h.fix(int(t.place - 1))
}

// Remove takes an item out. It does nothing if the item is not in the heap.
func (h *Heap[T, M]) Remove(item T) {
	t, last := item.timed(), len(h.items)-1
	if t.place == 0 {
		return
	}
	at := int(t.place - 1)
	h.swap(at, last)
	t.place = 0
	clear(h.items[last:])
	if h.items = h.items[:last]; at < last {
		h.fix(at)
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

// fix moves an item whose due time has changed to its place.
func (h *Heap[T, M]) fix(i int) {
	for i > 0 && h.earlier(i, (i-1)/2) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for next := 2*i + 1; next < len(h.items); next = 2*i + 1 {
		if next+1 < len(h.items) && h.earlier(next+1, next) {
			next++
		}
		if !h.earlier(next, i) {
			return
		}
		h.swap(i, next)
		i = next
	}
}

func (h *Heap[T, M]) earlier(i, j int) bool { return h.items[i].timed().due < h.items[j].timed().due }

func (h *Heap[T, M]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].timed().place, h.items[j].timed().place = int32(i+1), int32(j+1)
}
