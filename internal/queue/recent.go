package queue

import "slices"

// maxRecent is how many events a [Recent] remembers.
const maxRecent = 64

// Recent counts events, and remembers the latest of them. The zero value has had none. It is not safe for concurrent use.
type Recent[K comparable] struct {
	latest []K
	count  int
}

// Count returns how many events there were in all.
func (r *Recent[K]) Count() int { return r.count }

// Add adds an event.
func (r *Recent[K]) Add(k K) {
	if len(r.latest) == maxRecent {
		r.latest = slices.Delete(r.latest, 0, 1)
	}
	r.latest = append(r.latest, k)
	r.count++
}

// Since reports whether such an event may have been added since Count returned count.
func (r *Recent[K]) Since(k K, count int) bool {
	since := r.count - count
	return since > len(r.latest) || slices.Contains(r.latest[len(r.latest)-since:], k)
}
