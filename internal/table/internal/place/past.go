package place

// Alive has the waiters that do not stand in the line any more, but are not over, by their numbers. The zero value has none. It is not
// safe for concurrent use.
type Alive[W comparable] struct{ waiters map[int64]W }

// Note notes a waiter.
func (a *Alive[W]) Note(number int64, w W) {
	if a.waiters == nil {
		a.waiters = make(map[int64]W)
	}
	a.waiters[number] = w
}

// Pass notes that a waiter gave its number to another one.
func (a *Alive[W]) Pass(number int64, from, to W) {
	if w, ok := a.waiters[number]; ok && w == from {
		a.waiters[number] = to
	}
}

// Forget forgets a waiter that is over, if it still has that number.
func (a *Alive[W]) Forget(number int64, w W) {
	if has, ok := a.waiters[number]; ok && has == w {
		delete(a.waiters, number)
	}
}

// Of returns the waiter that has a number, and reports whether one has.
func (a *Alive[W]) Of(number int64) (w W, ok bool) {
	w, ok = a.waiters[number]
	return w, ok
}

// Numbers returns the numbers of some waiters.
func (a *Alive[W]) Numbers(of func(W) bool) (numbers []int64) {
	for number, w := range a.waiters {
		if of(w) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// Len returns how many waiters there are.
func (a *Alive[W]) Len() int { return len(a.waiters) }

// Origins has what a client knows of its channels: what each is about. The zero value knows none. It is not safe for concurrent use.
type Origins[H any] struct {
	channels map[string]H
	most     int // how many there may be before those are dropped that the client does not hear any more
}

// leastOrigins is how many channels are remembered in any case.
const leastOrigins = 64

// Note notes what a channel is about. hears tells whether the client hears a channel.
func (o *Origins[H]) Note(channel string, about H, hears func(channel string) bool) {
	if o.channels == nil {
		o.channels, o.most = make(map[string]H), leastOrigins
	}
	if _, ok := o.channels[channel]; !ok && len(o.channels) >= o.most {
		for old := range o.channels {
			if !hears(old) {
				delete(o.channels, old)
			}
		}
		o.most = max(2*len(o.channels), leastOrigins)
	}
	o.channels[channel] = about
}

// Of returns what a channel is about. Zero means that this is not known.
func (o *Origins[H]) Of(channel string) H { return o.channels[channel] }
