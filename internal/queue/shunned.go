package queue

import "slices"

// maxShunned is how many keys a [Shunned] remembers.
const maxShunned = 64

// Shunned has keys that are to be avoided for a while. When there are too many of them, all keys are to be avoided. The zero
// value has none. It is not safe for concurrent use.
type Shunned[K comparable, M ~int64] struct {
	keys []shunned[K, M] // in the order in which they expire
	all  M               // until when all keys are to be avoided; zero means that they are not
}

type shunned[K comparable, M ~int64] struct {
	key   K
	until M
}

// Add adds a key, or keeps it for longer. Each moment must be at least that of the call before.
func (s *Shunned[K, M]) Add(k K, until M) {
	if s.all != 0 {
		return
	}
	s.keys = slices.DeleteFunc(s.keys, func(old shunned[K, M]) bool { return old.key == k })
	if len(s.keys) == maxShunned {
		s.keys, s.all = nil, until
		return
	}
	s.keys = append(s.keys, shunned[K, M]{k, until})
}

// Expire forgets the keys whose time is over.
func (s *Shunned[K, M]) Expire(now M) {
	if s.all <= now {
		s.all = 0
	}
	n := 0
	for n < len(s.keys) && s.keys[n].until <= now {
		n++
	}
	s.keys = slices.Delete(s.keys, 0, n)
}

// Has reports whether a key is to be avoided.
func (s *Shunned[K, M]) Has(k K) bool {
	return s.all != 0 || slices.ContainsFunc(s.keys, func(has shunned[K, M]) bool { return has.key == k })
}
