package queue

import "slices"

// maxRecent is how many events a [Recent] remembers.
const maxRecent = 64

// Recent counts events, and remembers the latest of them, each with its moment. The zero value has had none. It is not safe for
// concurrent use.
type Recent[K comparable] struct {
	latest []event[K]
	count  int
}

type event[K comparable] struct {
	key K
	at  int64
}

// Count returns how many events there were in all.
func (r *Recent[K]) Count() int { return r.count }

// Add adds an event, and when it was. Zero means that this is not known.
func (r *Recent[K]) Add(k K, at int64) {
	if len(r.latest) == maxRecent {
		r.latest = slices.Delete(r.latest, 0, 1)
	}
	r.latest = append(r.latest, event[K]{k, at})
	r.count++
}

// Since reports whether such an event may have been added since Count returned count, and may have been later than at. Zero
// means any time.
func (r *Recent[K]) Since(k K, count int, at int64) bool {
	since := r.count - count
	return since > len(r.latest) || slices.ContainsFunc(r.latest[len(r.latest)-since:], func(e event[K]) bool {
		return e.key == k && (at == 0 || e.at == 0 || e.at > at)
	})
}
