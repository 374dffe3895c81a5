package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// identity has Redis say who the client is, while it holds something or waits for something, and some time after that. It delays and
// fails nothing.
type identity struct {
	client  *Client
	running atomic.Bool
	uses    atomic.Uint64
	kept    atomic.Int64 // until when [Terms.AtLeast] keeps a lock taken, a [clock.Instant]
}

// keeps notes that a lock was acquired that stays taken for so long, which may be longer than anything is held.
func (i *identity) keeps(atLeast time.Duration) {
	if i == nil || atLeast == 0 {
		return
	}
	for until, was := int64(clock.Now().Add(atLeast)), i.kept.Load(); was < until && !i.kept.CompareAndSwap(was, until); {
		was = i.kept.Load()
	}
}

// keptFor returns for how long a lock stays taken.
func (i *identity) keptFor() time.Duration { return clock.Instant(i.kept.Load()).Sub(clock.Now()) }

// used notes that an acquisition or a wait begins.
func (c *Client) used() {
	if c.dropped.found.Load() != nil {
		c.endDrops()
	}
	i := c.identity
	if i == nil {
		return
	}
	i.uses.Add(1)
	if !i.running.Load() && i.running.CompareAndSwap(false, true) {
		c.Background(i.keep)
	}
}

// keep writes the identity, and refreshes it until it has not been needed for a whole lease.
func (i *identity) keep() {
	c := i.client
	for {
		before := i.uses.Load()
		pause, ok := i.write()
		if !ok {
			return // running stays set: it is not tried again
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.tasks.Closed():
			timer.Stop()
			return
		}
		// What began before the pause is counted by now. What began since then keeps the identity for another lease.
		if n := c.table.Counts(); n.Held+n.Waiting > 0 || i.uses.Load() != before || i.keptFor() > 0 {
			continue
		}
		i.running.Store(false)
		if i.uses.Load() == before || !i.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// write writes the identity, and returns when to do so again. It reports false if Redis does not let the user: then it is not tried
// again.
func (i *identity) write() (pause time.Duration, ok bool) {
	cfg := &i.client.cfg
	lease := cfg.Table.WatchdogTimeout
	switch err := i.say(context.Background(), 3*lease); {
	case err == nil:
		return lease, true
	case err.Denied():
		i.client.Log(notice.Entry{Message: notice.LogNoIdentity, Err: err})
		return 0, false
	}
	return min(lease, time.Second), true
}

// say writes the identity for some time.
func (i *identity) say(ctx context.Context, lifetime time.Duration) *fault.Error {
	key := i.client.cfg.IdentityKey(i.client.cfg.Table.ClientID)
	_, err := i.client.raw(ctx, key, i.client.cfg.Identity.WriteCommand(key, lifetime))
	return err
}

// forget deletes the identity of a client that has just closed, unless the client leaves locks behind. If a lock stays taken, the
// identity lasts as long as that. It waits for Redis until ctx ends.
func (i *identity) forget(ctx context.Context) {
	if i == nil || i.uses.Load() == 0 {
		return
	}
	kept := i.keptFor()
	if i.client.left > 0 && kept <= 3*i.client.cfg.Table.WatchdogTimeout {
		return // it was written for that time
	}
	deleted := make(chan struct{})
	i.client.Aside(func() {
		defer close(deleted)
		if kept > 0 {
			_ = i.say(ctx, kept)
			return
		}
		key := i.client.cfg.IdentityKey(i.client.cfg.Table.ClientID)
		_, _ = i.client.raw(ctx, key, wire.DeleteCommand(key))
	})
	select {
	case <-deleted:
	case <-ctx.Done():
	}
}

// identities returns the identities of clients, as far as Redis has them and answers before ctx ends.
func (c *Client) identities(ctx context.Context, info *wire.Info) map[string]wire.Identity {
	known := make(map[string]wire.Identity)
	for id := range info.Clients() {
		if _, again := known[id]; again {
			continue
		}
		key := c.cfg.IdentityKey(id)
		reply, err := c.raw(ctx, key, wire.ReadCommand(key))
		if err != nil && !err.Replied() || ctx.Err() != nil || c.IsClosed() {
			break // the next ones would fail too, or come too late
		}
		known[id] = wire.ParseIdentity(reply)
	}
	return known
}
