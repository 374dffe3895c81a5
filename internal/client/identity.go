package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/wire"
)

// identity has Redis say who the client is, while it holds something or waits for something, and some time after that. It delays and
// fails nothing.
type identity struct {
	client  *Client
	running atomic.Bool
	uses    atomic.Uint64
}

// used notes that an acquisition or a wait begins.
func (c *Client) used() {
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
		if n := c.Counts(); n.Held+n.Waiting > 0 || i.uses.Load() != before {
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
	lease, key := cfg.Table.WatchdogTimeout, cfg.IdentityKey(cfg.Table.ClientID)
	switch _, err := i.client.raw(context.Background(), key, cfg.Identity.WriteCommand(key, 3*lease)); {
	case err == nil:
		return lease, true
	case err.Denied():
		i.client.Log(notice.Entry{Message: notice.LogNoIdentity, Err: err})
		return 0, false
	}
	return min(lease, time.Second), true
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
