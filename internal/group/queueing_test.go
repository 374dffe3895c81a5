package group

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// These tests cover members whose waiters stand in a queue in Redis: an attempt that does not wait never overtakes them.

// queued is a fake member that exclusive holders take in the order of arrival.
type queued struct {
	lock *client.Lock
	turn chan struct{} // has a token while nobody holds it
}

// newLined returns a lock whose waiters stand in a line in Redis.
func newLined(c *client.Client, name string) *client.Lock {
	l := new(client.Lock)
	l.Init(c, wire.Plain, name, name)
	return l
}

func newQueued(c *client.Client, name string) *queued {
	q := &queued{newLined(c, name), make(chan struct{}, 1)}
	q.turn <- struct{}{}
	return q
}

func (q *queued) Locks() []*client.Lock { return []*client.Lock{q.lock} }

func (q *queued) Take(ctx context.Context, t client.Terms) (client.Held, error) {
	var over <-chan time.Time
	if t.Limited {
		over = time.After(t.Wait)
	}
	select {
	case <-q.turn:
		h := &held{member: &member{lock: q.lock, log: new(journal)}, owner: client.OwnerOf(ctx), deadline: time.Now().Add(leaseTime)}
		return &turn{h, q}, nil
	case <-over:
		return nil, fault.ErrRefused
	case <-ctx.Done():
		return nil, client.EndOf(ctx)
	}
}

// turn is an acquisition of a [queued].
type turn struct {
	*held
	of *queued
}

func (t *turn) Unlock(ctx context.Context) error {
	err := t.held.Unlock(ctx)
	if err == nil {
		t.of.turn <- struct{}{}
	}
	return err
}

func multi(m ...client.Member) *Group { return NewMulti(m) }

// The groups of other libraries may take their members in another order.
func TestGroupsThatTakeTheirMembersInOppositeOrdersGoOn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		t.Helper()
		own := newClient(t)
		a, b := newQueued(own, "a"), newQueued(own, "b")
		takeEach(t, multi(a, b), multi(b, a), multi(a, b), unordered(b, a))
	})
}

// takeEach has groups take turns. A turn takes some 10 ms, but now and then two groups are in each other's way for many rounds, because chance
// decides which one gives up. Without chance they would be so forever.
func takeEach(t *testing.T, groups ...*Group) {
	t.Helper()
	start := time.Now()
	const turns = 50
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			for range turns {
				h, err := g.Take(t.Context(), forever)
				if err != nil {
					t.Error(err)
					return
				}
				<-time.After(time.Millisecond)
				if err := h.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Less(t, time.Since(start), time.Duration(turns*len(groups))*time.Second)
}

// unordered returns a multi lock that takes its members as they are given.
func unordered(m ...client.Member) *Group {
	g := NewMulti(m)
	g.members, g.locks = m, nil
	for _, member := range m {
		g.locks = append(g.locks, lockOf(member))
	}
	return g
}
