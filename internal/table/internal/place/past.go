package place

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
