package rlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	lostInRedis   = "its holder is gone from Redis"
	lostByForce   = "it was unlocked by force"
	lostByMaxHold = "it was held longer than WithMaxHold allows"
	cannotRelease = "a lock could not be released; it is free when its lease ends"
)

// unlock settles an entry that was marked closed. It requires c.mu, and gives it up.
func (c *Client) unlock(ctx context.Context, e *entry) error {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	p, l := e.possession, e.lock
	var ends endings
	ends.add(e, ErrNotHeld)
	p.turn()
	p.entries = without(p.entries, e)
	l.forget(e)

	var err error
	switch {
	case p.stage == detached || p.stage == over:
		p.settleLost()
		err = ErrLost
		if errors.Is(e.why, ErrLost) {
			err = e.why
		}
		p.rest()
		c.mu.Unlock()
		ends.tell()
	case len(p.entries) > 0:
		c.watchdog.plan(p)
		c.mu.Unlock()
		ends.tell()
		err = p.releasePart(ctx)
	default:
		for _, leaked := range p.leaked {
			ends.add(leaked, ErrNotHeld)
		}
		now := time.Now()
		w := p.heir(now)
		if w != nil && p.pass(w, now) {
			c.mu.Unlock()
			ends.tell()
			return nil
		}
		p.stage = releasing
		c.watchdog.drop(p)
		c.mu.Unlock()
		ends.tell()
		settled, doubt := false, false
		if w != nil {
			settled, doubt, err = p.handOver(ctx, w)
		}
		if !settled {
			err = p.releaseAll(ctx, now, doubt)
		}
	}
	if err == nil || errors.Is(err, ErrLost) && err == e.why { //nolint:errorlint // the very error, already complete
		return err
	}
	return l.wrap(err, "unlock")
}

// settleLost forgets a lost possession once all of its entries are closed. It requires client.mu.
func (p *possession) settleLost() {
	if !slices.ContainsFunc(p.entries, func(e *entry) bool { return !e.closed }) {
		p.owner.settle(p)
	}
}

// releasePart shows the count that is left after one entry. The count that matters is ours, so a failure to show it is
// none of the unlock, unless the lease has ended and Redis alone knows.
func (p *possession) releasePart(ctx context.Context) error {
	c, l := p.client, p.lock
	c.mu.Lock()
	left := len(p.entries)
	remaining := max(time.Until(p.deadline.time())+p.margin, time.Millisecond)
	c.mu.Unlock()
	count := l.kind.count
	got, err := c.ask(ctx, question{
		script: count, name: l.nameKey.name, keys: count.of(p.keys()),
		args: []any{p.field, millis(remaining), p.number, l.wire().sent, "", left},
	})
	var ends endings
	defer ends.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer p.rest()
	answered := err == nil && got.err == nil
	switch {
	case answered && got.reply == 0 && (p.stage == held || p.stage == expired):
		p.lose(&ends, lostInRedis, false)
		ends.known()
	case answered && got.reply == 1:
		return nil
	case !answered && p.stage == held && !p.past(time.Now()):
		return nil
	}
	return ErrLost
}

// releaseAll frees the lock, and tries until the command timeout. After that the possession is over all the same, and
// the watchdog goes on trying. start is when the unlock began; doubt tells that Redis may not have the holder any more
// because of what was sent before.
func (p *possession) releaseAll(ctx context.Context, start time.Time, doubt bool) error {
	c := p.client
	c.mu.Lock()
	inside := !p.past(start)
	c.mu.Unlock()
	if doubt && time.Since(start) >= c.commandTimeout {
		p.done(true, released{})
		return errNoAnswer
	}
	for retries := 1; ; retries++ {
		out, err := p.release(ctx)
		pause := backoff(retries, time.Second)
		switch {
		case err == nil:
			p.done(false, out)
			if out.freed || doubt && inside {
				return nil
			}
			return fmt.Errorf("%w: %s", ErrLost, lostInRedis)
		case wrongType(err):
			p.done(false, released{})
			return fmt.Errorf("%w: %w", ErrLost, err)
		case !c.transient(err), time.Since(start)+pause >= c.commandTimeout:
			p.done(true, released{})
			return err
		}
		doubt = doubt || unanswered(err) || halfDone(err)
		timer := time.NewTimer(pause)
		<-timer.C
	}
}

// queueWait is how long a waiter in the queue of this lock may go without asking, as it is sent; 0: it has none.
func (l *Lock) queueWait() int64 {
	if !l.kind.queues {
		return 0
	}
	return millis(l.client.fairWait)
}

// released is what came of a release.
type released struct {
	freed  bool
	others int64  // were told, as far as is known
	echoes uint64 // how many messages of its channel this client has when all of them are back
}

// release sends the release once.
func (p *possession) release(ctx context.Context) (released, error) {
	c, l := p.client, p.lock
	c.mu.Lock()
	memory := p.memory()
	c.mu.Unlock()
	script := l.kind.release
	keys := script.of(p.keys())
	if memory > 0 {
		keys = script.withAbandoned(p.keys())
	}
	heard, ours := c.pubsub.heard(l.wire().channel)
	got, err := c.ask(ctx, question{
		script: script, name: l.nameKey.name, keys: keys,
		args: []any{p.field, millis(memory), p.number, l.wire().sent, l.publisher(), l.queueWait()},
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		return released{}, err
	}
	told := got.reply - 1
	if ours {
		told--
		heard += max(l.kind.messages, 1)
	}
	if got.reply > 0 && c.cluster != nil && l.kind.channel != "" {
		told = max(told, 1) // it does not say how many heard it at other nodes
	}
	return released{got.reply > 0, told, heard}, nil
}

// done ends the possession after its release, which is retried without the caller if it must be.
func (p *possession) done(retry bool, out released) {
	c := p.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if out.others > 0 && c.tenantOf(p.lock.nameKey) == p {
		now := time.Now()
		c.offers.add(offer{p.lock.nameKey, now, now.Sub(p.offered.time()), out.others, out.echoes})
	}
	p.end(retry)
}

// end requires client.mu.
func (p *possession) end(retry bool) {
	p.unregister()
	p.orphan = false
	if retry {
		p.detach()
	} else {
		p.finish()
	}
	p.rest()
}

// releaseDetached makes one attempt at the release of a possession that nobody waits for any more.
func (p *possession) releaseDetached() {
	c := p.client
	ctx := context.Background()
	limit, cancel := context.WithTimeout(ctx, c.commandTimeout)
	taken, err := c.place(limit, p.lock.nameKey.name)
	cancel()
	if err == nil || errors.Is(err, ErrClosed) {
		_, err = p.release(ctx)
	}
	taken.free()
	gone := err == nil || wrongType(err)
	late := instantOf(time.Now()) > p.until
	if !gone && late {
		p.lock.warn(cannotRelease, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone || late {
		p.finish()
		c.active--
		c.settleActive()
		return
	}
	p.failures++
	p.due = instantOf(time.Now()).add(backoff(int(p.failures), time.Second))
	c.watchdog.plan(p)
}

// without removes an element from a slice, and leaves nothing of it behind.
func without[T comparable](s []T, gone T) []T {
	if i := slices.Index(s, gone); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}
