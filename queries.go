package rlock

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// ForceUnlock frees the lock whoever holds it, and tells whether anybody did. It ports forceUnlock. Holds of this
// client are lost at once, those of others when they next renew. Of a read lock it ends every reader, and of a write lock
// the writer and what the same owner reads; neither touches the other side's holders. Called with the context of a hold that
// it ends, it may return that context's error though it has freed the lock.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	var freed int64
	err := l.query(ctx, "force unlock", func(ctx context.Context) (err error) {
		w, force := l.wire(), l.kind.force
		freed, err = l.client.runNumber(ctx, force, force.of(w.keys), "", 0, 0, w.sent, l.publisher(), l.queueWait())
		if freed == 1 {
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
	for _, p := range slices.Clone(c.watchdog.heap) { // it has all that are held
		if p.lock.nameKey == id && (p.stage == held || p.stage == expired) {
			p.lose(&ends, lostByForce, true)
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
	seen, err := l.inspect(ctx, "is locked", nil)
	return seen.locked, err
}

// TTL returns how long the lock's present lease still runs: 0 when nobody holds it, and a negative duration for a lock
// without a lease, which neither rlock nor Redisson makes. Both sides of a read-write lock have one lease, which lasts as
// long as the longest hold. It ports remainTimeToLive, and asks the master.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	seen, err := l.inspect(ctx, "ttl", nil)
	return seen.ttl, err
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
	seen, err := l.inspect(ctx, op, p)
	if err != nil || !seen.held {
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
		p = c.possession(l.key(), o)
	} else if e := l.soonest(); e != nil {
		p = e.possession
	}
	if p == nil || p.stage != held {
		return nil
	}
	return p
}

// inspection is what Redis says of a lock.
type inspection struct {
	ttl          time.Duration // 0: the key is not there; negative: it has no lease
	locked, held bool
}

// inspect asks Redis about the lock, and whether it is held by a possession, unless that is nil.
func (l *Lock) inspect(ctx context.Context, op string, p *possession) (inspection, error) {
	if err := l.check(op); err != nil {
		return inspection{}, err
	}
	script, keys, field := l.kind.inspect, l.wire().keys, ""
	if p != nil {
		script, keys, field = p.lock.kind.inspect, p.keys(), p.field
	}
	var got []int64 // the command may outlive this call, and must not write its results
	err := l.query(ctx, op, func(ctx context.Context) error {
		cmd, err := l.client.run(ctx, script, script.of(keys), field)
		if err == nil {
			got, err = numbers(cmd, 3)
		}
		return err
	})
	if err != nil {
		return inspection{}, err
	}
	const most = int64(math.MaxInt64 / time.Millisecond) // Redis's clocks go on for longer than ours
	seen := inspection{time.Duration(max(-1, min(got[0], most))) * time.Millisecond, got[1] == 1, got[2] == 1}
	if got[0] == absent {
		seen.ttl = 0
	}
	return seen, nil
}

// absent is the PTTL of a key that is not there.
const absent = -2

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
