package owner

// Holding is something that an owner holds. An owner holds at most one under each key.
type Holding[K comparable] interface {
	comparable
	HeldAs() K
}

// Holdings has what owners hold. The zero value has nothing. It is not safe for concurrent use.
type Holdings[K comparable, H Holding[K]] struct {
	shared map[holdingKey[K]]H // of owners that may hold several
}

type holdingKey[K comparable] struct {
	key   K
	owner *Owner
}

// Len returns how many holdings of shared owners there are.
func (s *Holdings[K, H]) Len() int { return len(s.shared) }

// Of returns what an owner holds under a key, or zero. A nil owner holds nothing.
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

// Add adds what an owner holds. shared means that the owner may hold more than this.
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

// Remove removes what Add added, if it is still there.
func (s *Holdings[K, H]) Remove(h H, o *Owner, shared bool) {
	if !shared {
		o.hold(nil)
	} else if key := (holdingKey[K]{h.HeldAs(), o}); s.shared[key] == h {
		delete(s.shared, key)
	}
}

// Names has, by name, what excludes all others there. The zero value has nothing. It is not safe for concurrent use.
type Names[H comparable] map[string]H

// Add adds what excludes others at a name, in place of what did before.
func (n *Names[H]) Add(name string, h H) {
	if *n == nil {
		*n = make(Names[H])
	}
	(*n)[name] = h
}

// Remove removes what excluded others at a name. It reports whether that was there.
func (n Names[H]) Remove(name string, h H) bool {
	if n[name] != h {
		return false
	}
	delete(n, name)
	return true
}
