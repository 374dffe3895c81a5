package exhaust

// push appends to a list that ends with its first zero, and reports whether it had room.
func push[T comparable](list []T, e T) bool {
	var zero T
	for i := range list {
		if list[i] == zero {
			list[i] = e
			return true
		}
	}
	return false
}

// shift removes the first of a list, and returns it.
func shift[T any](list []T) (first T) {
	var zero T
	first = list[0]
	copy(list, list[1:])
	list[len(list)-1] = zero
	return first
}

// take removes an element of a list, and reports whether it was there.
func take[T comparable](list []T, e T) bool {
	for i := range list {
		if list[i] == e {
			shift(list[i:])
			return true
		}
	}
	return false
}

// tell is Client.tell, and hub.receive.
func (g *game) tell(w *world, c uint8, m message) {
	n := w.clients[c].asks
	if n != 0 && (m.kind == free || m.kind == askAgain || m.number == n) {
		g.full = w.attempts[n].at != holds && !push(w.clients[c].inbox[:], m) || g.full
	}
	if m.kind != granted || g.bugs.forgetGrants {
		return
	}
	if a := &w.attempts[m.number]; a.at == unlocks && !g.bugs.disownLeaving {
		a.granted = true
	} else if a.at == unlocks || !w.knows(m.number) {
		a.disown = true
	}
}
