package client

// Wakeups wakes a caller when one of several locks, of any clients, is released. Each message also wakes by a confirmation
// of its channel's subscription. It belongs to one goroutine.
type Wakeups struct {
	wake chan struct{}
	on   map[source]bool // where it listens
}

// source is a channel of a client. Both sides of a read-write lock have the same one.
type source struct {
	client  *Client
	channel string
}

// NewWakeups returns wake-ups that listen nowhere yet.
func NewWakeups() *Wakeups {
	return &Wakeups{wake: make(chan struct{}, 1), on: make(map[source]bool)}
}

// C returns the channel that gets a token when the caller should wake.
func (w *Wakeups) C() <-chan struct{} { return w.wake }

// Listen listens to the releases of these locks, and no longer to those of others. A kind whose waiters poll has no channel,
// and a kind whose waiters queue in Redis notifies only those waiters.
func (w *Wakeups) Listen(locks []*Lock) {
	wanted := make(map[source]bool)
	for _, l := range locks {
		if k := l.Kind(); k.Channel != "" && !k.Queues {
			wanted[source{l.client, l.Channel()}] = true
		}
	}
	for s := range w.on {
		if !wanted[s] {
			s.client.Unlisten(s.channel, w.wake)
			delete(w.on, s)
		}
	}
	for s := range wanted {
		if !w.on[s] {
			s.client.hub.Listen(s.channel, w.wake, 0)
			w.on[s] = true
		}
	}
}

// Stop stops listening.
func (w *Wakeups) Stop() { w.Listen(nil) }
