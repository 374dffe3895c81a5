package rlock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ForceUnlock frees the lock whoever holds it, and tells whether anybody did. It ports forceUnlock. Holds of this
// client are lost at once, those of others when they next renew.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	var freed int64
	err := l.query(ctx, "force unlock", func(ctx context.Context) (err error) {
		freed, err = l.client.runNumber(ctx, l.kind.force, l.keys[:1], "", 0, 0, l.sent)
		if err == nil {
			l.client.forced(l.nameKey) // here, because the caller may have left
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return freed == 1, nil
}

// maxForces is how many unlocks by force a client remembers.
const maxForces = 64

// forced ends what this client holds of a name after an unlock by force. One that was granted between that unlock and
// this moment is ended with the others, and released; an acquisition whose answer is still on its way finds out by
// forcedSince, because Redis may have granted it before.
func (c *Client) forced(id nameKey) {
	var ends endings
	c.mu.Lock()
	if len(c.forces) == maxForces {
		c.forces = slices.Delete(c.forces, 0, 1)
	}
	c.forces = append(c.forces, id)
	c.forceCount++
	for key, p := range c.possessions {
		if key.nameKey == id && (p.stage == held || p.stage == expired) {
			p.lose(&ends, "it was unlocked by force", true)
		}
	}
	c.mu.Unlock()
	ends.tell()
}

// forcedSince tells whether a name may have been unlocked by force since so many unlocks had been. It requires c.mu.
func (c *Client) forcedSince(id nameKey, count int) bool {
	since := c.forceCount - count
	return since > len(c.forces) || slices.Contains(c.forces[len(c.forces)-since:], id)
}

// IsLocked tells whether anybody holds the lock. It ports isLocked, and asks the master.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	ttl, _, err := l.inspect(ctx, "is locked", "")
	return ttl != ttlAbsent, err
}

// TTL returns how long the lock's present lease still runs: 0 when nobody holds it, and a negative duration for a lock
// without a lease, which neither rlock nor Redisson makes. It ports remainTimeToLive, and asks the master.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	ttl, _, err := l.inspect(ctx, "ttl", "")
	if err != nil || ttl == ttlAbsent {
		return 0, err
	}
	return time.Duration(ttl) * time.Millisecond, nil
}

// IsHeld tells whether the context's owner holds the lock, in Redis too. It ports isHeldByCurrentThread. Without an
// owner in the context it speaks of the acquisition that [Lock.Unlock] would settle.
func (l *Lock) IsHeld(ctx context.Context) (bool, error) {
	n, err := l.holdCount(ctx, "is held")
	return n > 0, err
}

// HoldCount returns how many acquisitions the context's owner has yet to unlock; 0 when it does not hold the lock, here
// or in Redis. It ports getHoldCount. Without an owner in the context it speaks of the acquisition that [Lock.Unlock]
// would settle.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	return l.holdCount(ctx, "hold count")
}

func (l *Lock) holdCount(ctx context.Context, op string) (int, error) {
	if err := l.check(op); err != nil {
		return 0, err
	}
	p := l.possessionIn(ctx)
	field := ""
	if p != nil {
		field = p.field
	}
	_, found, err := l.inspect(ctx, op, field)
	if err != nil || p == nil || found == 0 {
		return 0, err
	}
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	if p.stage != held || p.past(time.Now()) {
		return 0, nil
	}
	return len(p.entries), nil
}

// possessionIn returns the possession that a question with ctx is about, or nil if none is held.
func (l *Lock) possessionIn(ctx context.Context) *possession {
	o := l.ownerIn(ctx)
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	var p *possession
	if o != nil {
		p = c.possessions[possessionKey{l.nameKey, o}]
	} else if e := l.soonest(); e != nil {
		p = e.possession
	}
	if p == nil || p.stage != held {
		return nil
	}
	return p
}

// ttlAbsent is the PTTL of a key that is not there.
const ttlAbsent = -2

// inspect returns the PTTL of the lock and whether a field holds it.
func (l *Lock) inspect(ctx context.Context, op, field string) (ttl, found int64, err error) {
	var got []int64 // the command may outlive this call, and must not write its results
	err = l.query(ctx, op, func(ctx context.Context) error {
		cmd, err := l.client.run(ctx, l.kind.inspect, l.keys[:1], field)
		if err == nil {
			got, err = numbers(cmd, 2)
		}
		return err
	})
	if err != nil {
		return ttlAbsent, 0, err
	}
	return got[0], got[1], nil
}

// query runs a command that takes and releases nothing for anybody.
func (l *Lock) query(ctx context.Context, op string, command func(context.Context) error) error {
	if err := l.check(op); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return l.wrap(endOf(ctx), op)
	}
	if err := l.client.begin(); err != nil {
		return l.wrap(err, op)
	}
	defer l.client.end()
	var failed error
	err := l.client.exec(ctx, func(background context.Context) {
		var taken place
		if taken, failed = l.client.place(ctx, l.nameKey.name); failed == nil {
			defer taken.free()
			failed = command(background)
		}
	}, func() {})
	if err == nil {
		err = failed
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !replied(err):
		err = endOf(ctx)
	case errors.Is(err, errNotSent) && l.client.isClosed():
		err = ErrClosed
	}
	return l.wrap(err, op)
}
