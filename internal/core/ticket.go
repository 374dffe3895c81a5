package core

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// A hold is exported to a holder that nobody is, which only a ticket names, and taken over from there, perhaps by another process: the lock is
// taken all the time.

var (
	errOpen   = fmt.Errorf("%w: another acquisition of the owner is open", fault.ErrReentered)
	errTicket = fmt.Errorf("%w: the ticket was used before, its lease has ended, the lock was unlocked by force, or this is not the Redis of the ticket",
		fault.ErrNotHeld)
	errKept = fmt.Errorf("%w: a hold with AtLeast is not exported", fault.ErrInvalidOption)
)

// Export ends the hold, and hands the lock over to the holder whose field it returns, for a time. Zero is for as long as the hold is renewed, or
// else the lease of the watchdog. If the hold cannot be exported, nothing is sent, and it goes on. failed is the error of Redis: then nobody gets
// the lock, and it is freed in the background.
func (h *Hold) Export(ctx context.Context, life time.Duration) (field string, failed *fault.Error, over error) {
	g, a, c := h.grant, h.grant.attempt, h.grant.attempt.client
	next, over := h.exports()
	if over != nil {
		return "", nil, over
	}
	if next != nil {
		next.turn <- turn{}
	}
	life = cmp.Or(life, h.renewal, c.cfg.WatchdogTimeout)
	to := &attempt{name: c.use(a.kind, a.key.key), field: stranger() + ":1", millis: wire.Millis(life)}
	r, doubt := a.moveTo(ctx, to)
	moved, gone := r.Err == nil && r.List == nil, r.Err == nil && r.List != nil && r.List[0] != lateReply && !doubt
	if moved || gone || r.Err.WrongType() {
		to.note(to.unuse)
	} else {
		a.open = max(a.open, to.open)
		c.sweep(to)
	}
	switch {
	case moved:
		return to.field, nil, g.released(&freed, true)
	case gone:
		return "", nil, g.released(&freed, false)
	case r.Err.WrongType():
		return "", nil, g.released(&r, false)
	case r.Err == nil: // a command without a reply may have exported it, for a time that is over
		_ = g.released(&freed, true)
		return "", nil, fault.Unavailable(fault.ErrNoAnswer)
	}
	_ = g.released(&r, false)
	return "", r.Err, nil
}

// freed is the reply to a release that has freed the lock.
var freed = wire.Reply{List: []int64{1}}

// moveTo hands a lock over to another field, and returns the last reply, and whether an earlier command may have been executed.
func (a *attempt) moveTo(ctx context.Context, to *attempt) (r wire.Reply, doubt bool) {
	end := clock.Now().Add(a.client.cfg.CommandTimeout)
	for failures := 1; ; failures++ {
		until := to.until()
		q := transport.Question{Call: to.moveCall(a.field, until), Acked: true, Within: end.Sub(clock.Now())}
		r, _ = to.send(ctx, q, nil)
		if r.Err.InDoubt() || r.Err != nil && r.Err.Fate == fault.Partial {
			doubt, to.open = true, until
		}
		pause := clock.Backoff(failures, time.Second, nil)
		switch {
		case r.Err == nil && (r.List == nil || r.List[0] != lateReply), failures > 3 && r.Err == nil, clock.Now().Add(pause) >= end:
			return r, doubt
		case r.Err == nil: // the clock was wrong
			continue
		case !r.Err.Transient, r.Err.Fate == fault.Unreplicated, ctx.Err() != nil:
			return r, doubt
		}
		time.Sleep(pause)
	}
}

// stranger returns the id of a client that nobody is.
func stranger() string {
	id := []byte(uuid.NewString())
	id[14] = '8'
	return string(id)
}

// exports takes the hold from its user, and returns the next one of this process.
func (h *Hold) exports() (next *attempt, err error) {
	g, c := h.grant, h.grant.attempt.client
	var n notice.List
	defer n.Deliver(c.Receiver)
	if err := h.err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.ending.Err() != nil:
		return nil, h.ending.Err()
	case len(g.holds) > 1:
		return nil, errOpen
	case g.keep != 0:
		return nil, errKept
	case h.closed.Swap(true):
		return nil, fault.ErrUnlockedAlready
	}
	g.drop(h)
	return g.leaves(h.ending.End(fault.ErrExported, &n)), nil
}

// adopt takes a lock over from the holder of a ticket.
func (a *attempt) adopt() *Hold {
	c := a.client
	a.note(func() { c.expect(a) })
	for failures := 1; ; {
		h, next := a.ask("move")
		switch {
		case h != nil, next == over, a.ended():
			return h
		case next == later:
			if pause := clock.Backoff(failures, time.Second, nil); clock.Now().Add(pause) >= a.t.Bound || !a.pause(pause) {
				return nil
			}
		case failures > 3:
			return nil
		}
		failures++
	}
}

// ForceCall returns the call that frees a lock for any of these holders. None means for anybody.
func (c *Client) ForceCall(k *Kind, key string, from []string) wire.Call {
	keys, base := k.Keys(key)
	return wire.Call{Script: k.force(), Keys: keys, Argv: []any{base, strings.Join(from, "\n"), c.cfg.Publish}}
}

// Forced ends what this client has of a lock that was freed by force at a moment, in us of Redis.
func (c *Client) Forced(k *Kind, key string, at int64) {
	var n notice.List
	var after []func()
	id := nameKey{k.channel, key}
	c.mu.Lock()
	if of := c.names[id]; of != nil {
		of.forced = max(of.forced, at)
	}
	for _, g := range slices.Clone(c.grants.All()) {
		if g.attempt.key == id && g.at < at {
			after = append(after, c.lose(g, errForced, clock.Now(), &n))
		}
	}
	c.mu.Unlock()
	for _, do := range after {
		do()
	}
	n.Deliver(c.Receiver)
}

// forcedAt returns when a lock was last freed by force through this client, as long as somebody uses it: a grant of before is in doubt.
func (n *name) forcedAt() (at int64) {
	n.client.mu.Lock()
	defer n.client.mu.Unlock()
	return n.forced
}
