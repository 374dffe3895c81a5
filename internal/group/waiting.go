package group

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/queue"
)

// localQueues has the local queues of the red locks whose first lock is of one client, by that lock's name in Redis. It
// is attached to the client. A local queue exists while a request is in it.
//
// In a local queue, the requests of one process for the same red lock contend one at a time, in order of arrival.
// Otherwise each could get some members, and none a majority.
type localQueues struct {
	mu sync.Mutex
	// What the requests of a queue share is the error of the latest round of a head. A request that leaves before its first
	// round returns it.
	queue.Set[string, *turn, error]
}

type localQueuesKey struct{}

// localQueuesOf returns what is attached to a client.
func localQueuesOf(client *lease.Manager) *localQueues {
	v, _ := client.Value(localQueuesKey{}, func() any { return new(localQueues) }).(*localQueues)
	return v
}

// turn is the place of one request in a local queue. A nil turn is in no queue.
type turn struct {
	queues *localQueues
	name   string
	head   chan struct{} // closed when it is this request's turn; nil means at once
}

// join puts a request into the local queue of its red lock.
func (r *request) join() *turn {
	l := r.group.locks[0]
	t := &turn{queues: localQueuesOf(l.Manager()), name: l.ID().Name}
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	if _, head := t.queues.Join(t.name, t); !head {
		t.head = make(chan struct{})
	}
	return t
}

// leave makes way for the next request. It returns the error of the latest round of a head, or nil.
func (t *turn) leave() (last error) {
	if t == nil {
		return nil
	}
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	last = t.queues.Of(t.name).Shared
	if next := t.queues.Leave(t.name, t); next != nil {
		close(next.head)
	}
	return last
}

// report records the outcome of a round for the requests behind this one.
func (t *turn) report(err error) {
	if t == nil {
		return
	}
	if errors.Is(err, fault.ErrRefused) {
		err = fault.ErrRefused // without the details, which belong to this request
	}
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	t.queues.Of(t.name).Shared = err
}

// awaitTurn waits until no other request of this process for the same red lock comes first. A single attempt does not
// queue. Nor does an owner that holds a member already: the requests in the queue may be waiting for it.
func (r *request) awaitTurn(ctx context.Context) (*turn, error) {
	if r.Single() || r.holdsAny(ctx) {
		return nil, nil
	}
	t := r.join()
	if t.head == nil {
		return t, nil
	}
	var over <-chan time.Time
	if r.Limited {
		timer := time.NewTimer(r.left())
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-t.head:
		return t, nil
	case <-clientOf(r.group).Stopping():
		return t, nil // the members of that client return ErrClosed
	case <-over:
	case <-ctx.Done():
	}
	return nil, r.ended(ctx, t.leave())
}

// holdsAny reports whether the owner holds a member.
func (r *request) holdsAny(ctx context.Context) bool {
	return slices.ContainsFunc(r.group.locks, func(l *lease.Lock) bool {
		o := l.OwnerIn(ctx)
		if o == nil {
			o = r.Owner
		}
		return l.Holds(o)
	})
}

// Waiting returns how many requests of this process are in the local queue of a red lock.
func (g *Group) Waiting() int {
	l := g.locks[0]
	queues := localQueuesOf(l.Manager())
	queues.mu.Lock()
	defer queues.mu.Unlock()
	if q := queues.Of(l.ID().Name); q != nil {
		return q.Len()
	}
	return 0
}

// LocalQueues returns how many local queues of red locks a client has.
func LocalQueues(client *lease.Manager) int {
	queues := localQueuesOf(client)
	queues.mu.Lock()
	defer queues.mu.Unlock()
	return queues.Len()
}

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

// listen listens on the channels of the members that refused, and no longer on those of the others: otherwise a request
// would be woken by its own release of their grants.
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

// refusedOn returns the channels of the members that refused. A kind whose waiters poll has no channel, and a kind whose
// waiters queue in Redis notifies only those waiters.
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
