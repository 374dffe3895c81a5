package core

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/outcome"
	"github.com/go-rlock/rlock/internal/owner"
)

// ownerKey is under which an owner has what it holds of a name.
type ownerKey struct {
	client *Client
	key    nameKey
}

func (n *name) ownerKey() ownerKey { return ownerKey{n.client, n.key} }

// grantOf returns what an owner holds of a name, or has lost and not unlocked since. The client's mutex must be held.
func (c *Client) grantOf(o *owner.Owner, key nameKey) *grant {
	if o == nil {
		return nil
	}
	g, _ := o.Attached(ownerKey{c, key}).(*grant)
	return g
}

// errAsking says that an owner cannot adopt a lock for which it waits.
var errAsking = fmt.Errorf("%w: another call of this owner is acquiring it", fault.ErrReentered)

// of makes the attempt that of an owner, unless there is another one, which it returns: then the attempt is over.
func (a *attempt) of(o *owner.Owner) (first *attempt) {
	if o == nil {
		return nil
	}
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	if first = a.owners[o]; first != nil {
		a.unuse()
		return first
	}
	if a.owners == nil {
		a.owners = make(map[*owner.Owner]*attempt)
	}
	a.owners[o], a.owner = a, o
	return nil
}

// disown ends that the attempt is the one of its owner. The client's mutex must be held.
func (a *attempt) disown() {
	if a.owner == nil {
		return
	}
	delete(a.owners, a.owner)
	if a.owner = nil; a.done != nil {
		close(a.done)
	}
}

// sofar returns what is known of the lock: by the questions of the attempt, or of the one that asks for all of this process, or because this process
// holds it. The client's mutex must be held.
func (a *attempt) sofar() outcome.Result {
	now, floor := clock.Now(), a.client.floor()
	last := a.known.At(now, floor)
	if g := a.heldHere(); !last.Known() && g != nil && g.attempt != a {
		last = new(outcome.Record).RefusedUntil(g.term.Ends()).At(now, floor)
	}
	if !last.Known() && a.asks != nil && a.asks != a {
		last = a.asks.known.At(now, floor)
	}
	return last
}

// await waits until an attempt is over, for another call of its owner. One that asks once waits until Redis has replied to the attempt. over says
// that the wait has ended before, and the outcome is what is known by then.
func (a *attempt) await(t *Terms) (out Outcome, over bool) {
	c := a.client
	if t.Ticket != "" {
		return Outcome{Err: errAsking}, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Waiting++
	defer func() { c.counts.Waiting-- }()
	for a.owner != nil {
		if a.done == nil {
			a.done = make(chan struct{})
		}
		out.Last = a.sofar()
		known := out.Last.Known()
		if t.Single && known {
			return out, true
		}
		done, limit := a.done, t.Context(known)
		var look <-chan time.Time // nobody tells what is known
		if !known {
			look = time.After(5 * time.Millisecond)
		}
		c.mu.Unlock()
		select {
		case <-done:
		case <-look:
		case <-limit.Done():
			over = true
		case <-c.Stopping:
			over = true
		}
		c.mu.Lock()
		if over = over || !known && t.Bound != 0 && clock.Now() >= t.Bound; over {
			out.Last = a.sofar()
			return out, a.owner != nil
		}
	}
	return out, false
}

// reenter returns one more hold of the lock that the caller's owner has, or why the owner must not acquire it. Both are empty if it has none.
func (c *Client) reenter(t *Terms) (*Hold, Outcome) {
	for enough := false; ; {
		h, short, err := c.again(t, enough)
		if short == nil {
			return h, Outcome{Err: err}
		}
		sent := clock.Now()
		failed, over := short.Extend(t.Context(false), t.Lease) // before there is one more hold, which others of the owner might unlock
		switch {
		case failed == nil:
			enough = over == nil
		case failed.Replied() && !failed.Transient:
			return nil, Outcome{Err: t.Denied(failed)}
		default:
			known := outcome.Since(sent)
			if failed.Replied() || failed.TimedOut() {
				known.Failed(failed)
			}
			return nil, Outcome{Last: known.At(clock.Now(), c.floor()), ended: true}
		}
	}
}

// again is reenter as far as it needs no command. Otherwise it returns a hold of the owner whose lease has to be made longer before.
func (c *Client) again(t *Terms, enough bool) (h, short *Hold, err error) {
	var n notice.List
	defer n.Deliver(c.Receiver)
	after := func() {}
	defer func() { after() }()
	c.mu.Lock()
	defer c.mu.Unlock()
	g, now := c.grantOf(t.Who.Now(), nameKey{t.Kind.channel, t.Key}), clock.Now()
	switch {
	case g == nil:
		return nil, nil, nil
	case g.lost == nil && g.term.Past(now):
		after = c.lose(g, errLeaseEnded, now, &n)
	}
	switch {
	case g.lost != nil:
		return nil, nil, errStillLost
	case c.closed:
		return nil, nil, fault.ErrClosed
	case t.Once || t.AtLeast > 0 || t.Ticket != "":
		return nil, nil, fault.ErrReentered
	case t.Flags == "t" && g.attempt.flags != "t":
		return nil, nil, fmt.Errorf("%w: this owner holds the lock without a fencing token", fault.ErrInvalidOption)
	}
	if !enough && (!t.Renewed || t.Lease > g.renewal) && g.term.Ends().Sub(now) < t.Lease {
		return nil, g.holds[0], nil
	}
	h = g.open(t)
	c.plan(g, &n)
	return h, nil, nil
}
