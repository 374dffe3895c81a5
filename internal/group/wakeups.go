package group

import "github.com/go-rlock/rlock/internal/client"

// wakeups wakes a caller when one of several locks, of any clients, is released. Each message also wakes by a confirmation
// of its channel's subscription. It belongs to one goroutine.
type wakeups struct {
	wake chan struct{}   // gets a token when the caller should wake
	on   map[source]bool // where it listens
}

// source is a channel of a client. Both sides of a read-write lock have the same one.
type source struct {
	client  *client.Client
	channel string
}

// newWakeups returns wake-ups that listen nowhere yet.
func newWakeups() *wakeups {
	return &wakeups{wake: make(chan struct{}, 1), on: make(map[source]bool)}
}

// listen listens to the releases of these locks, and no longer to those of others. A kind whose waiters poll has no channel,
// and a kind whose waiters queue in Redis notifies only those waiters.
func (w *wakeups) listen(locks []*client.Lock) {
	wanted := make(map[source]bool)
	for _, l := range locks {
		if k := l.Kind(); k.Channel != "" && !k.Queues {
			wanted[source{l.Client(), l.Channel()}] = true
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
			s.client.Listen(s.channel, w.wake)
			w.on[s] = true
		}
	}
}

// stop stops listening.
func (w *wakeups) stop() { w.listen(nil) }
