// Package pump has a client's part in granting locks that others have freed: the names that it watches, and its commands under
// way that grant a free lock to the first one in the line. A pump is such a command. What is here belongs to Redisson's channel
// of a name.
package pump

// Watches are the names that a client watches. It watches a name for as long as it is subscribed, also if nobody waits here any
// more: Redis sees no difference, and asks nobody else to watch. H is what a pump needs. The zero value watches none. It is not
// safe for concurrent use.
type Watches[H any] struct{ names map[string]*watched[H] }

type watched[H any] struct {
	handle H
	queues int // the local queues that asked for it
}

// Begin has a local queue watch a name.
func (w *Watches[H]) Begin(channel string, handle H) {
	name := w.names[channel]
	if name == nil {
		if w.names == nil {
			w.names = make(map[string]*watched[H])
		}
		name = &watched[H]{handle: handle}
		w.names[channel] = name
	}
	name.queues++
}

// End takes back one Begin. The client still watches the name until it is unsubscribed.
func (w *Watches[H]) End(channel string) { w.names[channel].queues-- }

// Unsubscribed notes that the client does not hear a channel any more. It returns what a pump of the name
// needs, and whether the client does not watch it any more: unless a queue has asked for it again.
func (w *Watches[H]) Unsubscribed(channel string) (handle H, ended bool) {
	name := w.names[channel]
	switch {
	case name == nil:
		return handle, false
	case name.queues > 0:
		return name.handle, false
	}
	delete(w.names, channel)
	return name.handle, true
}

// Of returns what a pump of a name needs, and whether the client watches it.
func (w *Watches[H]) Of(channel string) (handle H, ok bool) {
	if name := w.names[channel]; name != nil {
		return name.handle, true
	}
	return handle, false
}

// Len returns how many names the client watches.
func (w *Watches[H]) Len() int { return len(w.names) }

// Pumps are the pumps under way, at most one for a name. The zero value has none. It is not safe for concurrent use.
type Pumps[H any] struct{ names map[string]*Pump[H] }

// Pump is one of them.
type Pump[H any] struct {
	Handle   H
	Failures int  // in a row, before it
	Again    bool // the lock was freed again since it was sent
	sent     bool // it may have been executed
}

// Begin adds a pump. It reports false if one is under way for the name. If that may have been executed already, another one
// has to follow it.
func (p *Pumps[H]) Begin(channel string, handle H) bool {
	if under := p.names[channel]; under != nil {
		under.Again = under.Again || under.sent
		return false
	}
	p.add(channel, &Pump[H]{Handle: handle})
	return true
}

func (p *Pumps[H]) add(channel string, pump *Pump[H]) {
	if p.names == nil {
		p.names = make(map[string]*Pump[H])
	}
	p.names[channel] = pump
}

// Send returns what a pump that was begun needs. It is sent now.
func (p *Pumps[H]) Send(channel string) H {
	under := p.names[channel]
	under.sent = true
	return under.Handle
}

// End takes a pump away whose reply has come, and returns it.
func (p *Pumps[H]) End(channel string) *Pump[H] {
	under := p.names[channel]
	delete(p.names, channel)
	return under
}

// Repeat begins a pump once more that has just ended without a reply. It returns how many failures there were in a row.
func (p *Pumps[H]) Repeat(channel string, ended *Pump[H]) (failures int) {
	p.add(channel, &Pump[H]{Handle: ended.Handle, Failures: ended.Failures + 1})
	return ended.Failures + 1
}

// Has reports whether a pump is under way for a name.
func (p *Pumps[H]) Has(channel string) bool { return p.names[channel] != nil }
