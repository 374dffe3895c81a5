package core

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/lease"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// leave ends an attempt that has acquired nothing. Its turn goes on to the next one of this process. What its commands may have done, or may do
// still, is undone in the background.
func (a *attempt) leave() {
	c := a.client
	c.mu.Lock()
	next := a.retire()
	doubt := a.stood || a.open != 0 || len(a.inbox) > 0 // which may have a grant
	if !doubt {
		a.unuse()
	}
	c.mu.Unlock()
	if next != nil {
		next.turn <- turn{}
	}
	if doubt {
		c.sweep(a)
	}
}

// retire takes out an attempt that is over, and returns the next one of this process, which the caller has to give a turn. The client's mutex
// must be held.
func (a *attempt) retire() (next *attempt) {
	delete(a.live, a.number)
	return a.pass()
}

// pass has the next one of this process ask from now on, and returns it. The client's mutex must be held.
func (a *attempt) pass() (next *attempt) {
	if a.asks != a {
		return nil
	}
	a.asks = nil
	if len(a.queue) > 0 {
		next = a.queue[0]
		a.queue = a.queue[1:]
		a.asks, next.known = next, a.known
	}
	return next
}

// free sends the release of a number, which also leaves the line if member is not empty.
func (a *attempt) free(ctx context.Context, q transport.Question, member, next string, until int64) (wire.Reply, time.Time) {
	q.Call = a.releaseCall(member, next, until)
	return a.send(ctx, q, nil)
}

// sweep releases a number in the background, until nothing of it can come any more: Redis has refused by then whatever was under way. It ends a
// use of the name.
func (c *Client) sweep(a *attempt) {
	a.note(func() { c.counts.InDoubt++ })
	c.Tasks.Background(func() {
		defer a.note(func() {
			c.counts.InDoubt--
			a.unuse()
		})
		end := time.Now().Add(max(a.lease(), firstTerm) + 2*c.cfg.CommandTimeout) // the lease of whatever it made is over then
		var last time.Time
		closed := c.Tasks.Closed()
		for failures := 0; ; {
			q := transport.Question{Slot: transport.DutySlot}
			if c.Tasks.IsClosed() && last.IsZero() {
				last = time.Now().Add(c.cfg.CommandTimeout) // Close waits for so long
				end = last
			}
			if !last.IsZero() {
				q.Within = max(time.Until(last), time.Millisecond)
			}
			r, _ := a.free(context.Background(), q, a.member, "", 0)
			var pause time.Duration
			switch {
			case r.Err == nil && r.List[1] > a.open, r.Err.WrongType():
				return
			case r.Err != nil && !r.Err.Transient && !r.Err.InDoubt() && r.Err.Fate != fault.Partial:
				end = time.Time{} // to ask again does not help
			case r.Err == nil && c.Tasks.IsClosed(): // nobody waits for a command that may never come
				return
			case r.Err == nil:
				pause = time.Duration(a.open-r.List[1])*time.Microsecond + time.Millisecond
			default:
				failures++
				pause = clock.Backoff(failures, time.Second, nil)
			}
			if time.Until(end) < pause || c.Tasks.Retired() {
				if r.Err != nil {
					c.Receiver.Log(notice.Entry{Lock: a.userName(), Message: notice.LogNotReleased, Err: a.denied(r.Err)})
				}
				return
			}
			select {
			case <-time.After(pause):
			case <-closed:
				closed = nil // the next pause lasts
			}
		}
	})
}

// knows reports whether somebody uses a number, or releases it just now. The client's mutex must be held.
func (n *name) knows(number int64) bool {
	_, leaves := n.leaving[number]
	return leaves || n.live[number] != nil
}

// disown releases a grant for nobody.
func (c *Client) disown(k *Kind, key string, m message) {
	a := &attempt{name: c.use(k, key), number: m.number, flags: m.flags, field: c.cfg.ID + ":" + strconv.FormatInt(m.number, 10)}
	c.sweep(a)
}

// exorcise releases a holder of this client of which it knows nothing: a failover has brought it back.
func (c *Client) exorcise(a *attempt, number int64) {
	c.mu.Lock()
	known := a.knows(number)
	c.mu.Unlock()
	if !known {
		c.disown(a.kind, a.key.key, message{number: number, flags: a.flags})
	}
}

// Serve gives those who wait for permits what is free, in the background: somebody has made some free by another call.
func (c *Client) Serve(key string) {
	a := &attempt{name: c.use(Permits, key), flags: "0"}
	c.Tasks.Background(func() {
		r, _ := a.free(context.Background(), transport.Question{Slot: transport.DutySlot}, "", "", 0)
		if r.Err != nil && !c.Tasks.Retired() { // who waits asks by itself, within 3 s
			_, _ = a.free(context.Background(), transport.Question{Slot: transport.DutySlot}, "", "", 0)
		}
		a.note(a.unuse)
	})
}

// lease returns for how long Redis may keep what the attempt has.
func (a *attempt) lease() time.Duration { return time.Duration(a.millis) * time.Millisecond }

// userName returns the name that the user gave. What nobody asked for has none.
func (a *attempt) userName() string {
	if a.t == nil {
		return ""
	}
	return a.t.Name
}

func (a *attempt) denied(err *fault.Error) error {
	if a.t == nil {
		return err
	}
	return a.t.Denied(err)
}

// Unlock frees the lock, and names the next one of this process, who gets it if nobody else waits. It does not heed the end of ctx, whose values
// it passes on. The error matches [fault.ErrLost] if the hold was lost before, and [fault.ErrUnavailable] if Redis did not say: then the release
// goes on in the background.
func (h *Hold) Unlock(ctx context.Context) error {
	a, c := h.attempt, h.attempt.client
	next, err := h.unlocks()
	if err != nil {
		return err
	}
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	until, member := int64(0), ""
	if next != nil {
		until, member = a.until(), next.member
	}
	r, sent := a.free(ctx, transport.Question{}, "", member, until)
	freed, doubt := r.Err == nil && r.List[0] > 0, r.Err.InDoubt() || r.Err != nil && r.Err.Fate == fault.Partial
	if next != nil {
		next.turn <- next.turnOf(&r, clock.Of(sent), until)
	}
	for failures := 1; r.Err != nil && r.Err.Transient; failures++ {
		pause := clock.Backoff(failures, time.Second, nil)
		if time.Since(sent)+pause >= c.cfg.CommandTimeout {
			break
		}
		time.Sleep(pause)
		r, _ = a.free(ctx, transport.Question{Within: c.cfg.CommandTimeout - time.Since(sent)}, "", "", 0)
		freed = freed || r.Err == nil && (doubt || r.List[0] > 0)
		doubt = doubt || r.Err.InDoubt()
	}
	return h.released(&r, freed)
}

// released ends the unlock, given the last reply.
func (h *Hold) released(r *wire.Reply, freed bool) error {
	a, c := h.attempt, h.attempt.client
	swept := r.Err != nil && !r.Err.WrongType() || a.open != 0
	c.mu.Lock()
	swept = swept || a.leaving[a.number] // its release may have been carried out before the grant
	if r.Err == nil && r.List[0] == 2 {
		c.backs.Set(a.key, time.Now().Add(headStart))
	}
	delete(a.leaving, a.number)
	if !swept {
		a.unuse()
	}
	c.mu.Unlock()
	if swept { // a command may still come that makes it a holder, or the release has yet to come through
		c.sweep(a)
	}
	switch {
	case r.Err == nil && freed:
		return c.ended(h, nil)
	case r.Err == nil:
		return c.ended(h, errHolderGone)
	case r.Err.WrongType():
		return c.ended(h, fmt.Errorf("%w (%w)", errOverwritten, r.Err))
	}
	_ = c.ended(h, nil)
	return r.Err
}

// turnOf returns the turn of an attempt that a release has named.
func (a *attempt) turnOf(r *wire.Reply, sent clock.Instant, until int64) turn {
	switch {
	case r.Err.InDoubt():
		return turn{open: until}
	case r.Err != nil:
		return turn{}
	case r.List[2] == 2:
		if lease.Late(sent, a.lease(), clock.Now()) { // it asks again
			return turn{stood: true}
		}
		h := a.newHold(sent, a.lease(), r.List[3])
		return turn{hold: h, stood: h == nil}
	}
	return turn{stood: r.List[2] == 1}
}
