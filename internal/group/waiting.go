package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/queue"
)

// localQueues has the local queues of the red locks whose first lock is of one client, by that lock's name in Redis. It
// is attached to the client.
//
// In a local queue, the requests of one process for the same red lock contend one at a time, in order of arrival.
// Otherwise each could get some members, and none a majority. They share the outcome of the head, from its first round on. A
// request that leaves before its first round returns it.
type localQueues = queue.Local[string, outcomeOf]

// outcomeOf returns the error of a head that ends at a moment, or nil if nothing is certain. It is nil while no head has had a round.
type outcomeOf func(now clock.Instant) error

// constant returns the outcome of a head that has ended.
func constant(err error) outcomeOf { return func(clock.Instant) error { return err } }

type localQueuesKey struct{}

// localQueuesOf returns what is attached to a client.
func localQueuesOf(c *client.Client) *localQueues {
	v, _ := c.Value(localQueuesKey{}, func() any { return new(localQueues) }).(*localQueues)
	return v
}

// awaitTurn waits until no other request of this process for the same red lock comes first. A single attempt does not
// queue. Nor does an owner that holds a member already: the requests in the queue may be waiting for it. A nil waiter is in
// no queue. once means that there is time for one round only: the wait was over, and the members had said nothing for certain to any head.
func (r *request) awaitTurn(ctx context.Context) (w *queue.Waiter[string, outcomeOf], once bool, err error) {
	if r.Single() || slices.ContainsFunc(r.group.locks, r.holds) {
		return nil, r.Single(), nil
	}
	l := r.group.locks[0]
	w = localQueuesOf(l.Client()).Join(l.ID().Name)
	if w.Head() == nil {
		return w, false, nil
	}
	r.wait.Sleeps()
	r.behind.Store(w)
	defer r.behind.Store(nil)
	select {
	case <-w.Head():
		if of := w.Shared(); of != nil {
			r.before = of(clock.Now())
		}
		return w, false, nil
	case <-l.Client().Stopping():
		return w, false, nil // the members of that client return ErrClosed
	case <-r.over:
	}
	last := w.Leave()
	if last != nil {
		err = last(clock.Now())
	}
	switch {
	case err != nil:
	case ctx.Err() == nil && time.Now().Before(r.By):
		return nil, true, nil
	case !errors.Is(ctx.Err(), context.Canceled) || time.Since(r.start) >= r.floor:
		err = fault.ErrNoAnswer
	}
	return nil, false, r.ended(ctx, err)
}

// holds reports whether the owner holds a base lock.
func (r *request) holds(l *client.Lock) bool {
	o, _ := r.As[slices.Index(r.group.locks, l)].Now()
	return l.Holds(o)
}

// Waiting returns how many requests of this process are in the local queue of a red lock.
func (g *Group) Waiting() int {
	l := g.locks[0]
	return localQueuesOf(l.Client()).Waiting(l.ID().Name)
}

// LocalQueues returns how many local queues of red locks a client has.
func LocalQueues(c *client.Client) int { return localQueuesOf(c).Len() }
