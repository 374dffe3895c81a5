package group

import (
	"errors"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
)

// wakeups wakes a request for a red lock when a member that refused it is released. It belongs to one goroutine.
type wakeups struct {
	wake chan struct{}
	on   map[source]bool // where it listens
}

// source is a channel of a client. Both sides of a read-write lock have the same one.
type source struct {
	client  *lease.Manager
	channel string
}

func newWakeups() *wakeups {
	return &wakeups{wake: make(chan struct{}, 1), on: make(map[source]bool)}
}

// listen listens on the channels of the members that refused, and no longer on those of the others: the release of
// what they granted would wake the very request that releases it.
func (w *wakeups) listen(a *acquisition) {
	refused := a.refusedOn()
	for s := range w.on {
		if !refused[s] {
			s.client.Unlisten(s.channel, w.wake)
			delete(w.on, s)
		}
	}
	for s := range refused {
		if !w.on[s] {
			s.client.Listen(s.channel, w.wake)
			w.on[s] = true
		}
	}
}

// refusedOn returns the channels of the members that refused. A kind whose waiters poll has none, and one whose waiters
// queue in Redis notifies only these.
func (a *acquisition) refusedOn() map[source]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	channels := make(map[source]bool)
	for i, m := range a.group.members {
		l := m.Locks()[0]
		if errors.Is(a.errs[i], fault.ErrRefused) && l.Kind().Channel != "" && !l.Kind().Queues {
			channels[source{l.Manager(), l.Channel()}] = true
		}
	}
	return channels
}

// stop stops listening.
func (w *wakeups) stop() {
	for s := range w.on {
		s.client.Unlisten(s.channel, w.wake)
	}
}
