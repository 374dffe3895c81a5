package owner

// Holding is something that an owner holds. An owner holds at most one under each key.
type Holding[K comparable] interface {
	comparable
	HeldAs() K
}

// Holdings has the holdings of owners. The zero value has none. It is not safe for concurrent use.
type Holdings[K comparable, H Holding[K]] struct {
	shared map[holdingKey[K]]H // of owners that may hold several
}

type holdingKey[K comparable] struct {
	key   K
	owner *Owner
}

// Len returns how many holdings of shared owners there are.
func (s *Holdings[K, H]) Len() int { return len(s.shared) }

// Of returns the holding of an owner under a key, or zero. A nil owner holds nothing.
func (s *Holdings[K, H]) Of(key K, o *Owner) (h H) {
	if o == nil {
		return h
	}
	o.mu.Lock()
	only, ok := o.only.(H)
	o.mu.Unlock()
	if ok && only.HeldAs() == key {
		return only
	}
	return s.shared[holdingKey[K]{key, o}]
}

// Add adds a holding of an owner. shared means that the owner may have more holdings.
func (s *Holdings[K, H]) Add(h H, o *Owner, shared bool) {
	if !shared {
		o.hold(h)
		return
	}
	if s.shared == nil {
		s.shared = make(map[holdingKey[K]]H)
	}
	s.shared[holdingKey[K]{h.HeldAs(), o}] = h
}

// Remove removes a holding that Add added, if it is still there.
func (s *Holdings[K, H]) Remove(h H, o *Owner, shared bool) {
	if !shared {
		o.hold(nil)
	} else if key := (holdingKey[K]{h.HeldAs(), o}); s.shared[key] == h {
		delete(s.shared, key)
	}
}

// Names has the exclusive holder of each name. The zero value has none. It is not safe for concurrent use.
type Names[H comparable] map[string]H

// Add makes a holder the exclusive holder of a name, in place of an earlier one.
func (n *Names[H]) Add(name string, h H) {
	if *n == nil {
		*n = make(Names[H])
	}
	(*n)[name] = h
}

// Remove removes the exclusive holder of a name. It reports whether it was there.
func (n Names[H]) Remove(name string, h H) bool {
	if n[name] != h {
		return false
	}
	delete(n, name)
	return true
}
