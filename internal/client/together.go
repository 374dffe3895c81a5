package client

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/observe"
	"github.com/go-rlock/rlock/internal/table"
	"github.com/go-rlock/rlock/internal/transport"
	"github.com/go-rlock/rlock/internal/wire"
)

// Locks that are taken or unlocked together are asked for at the same time: for each node, the calls are one pipeline.

// taking is one of several locks that are taken together.
type taking struct {
	lock    *Lock
	terms   *Terms
	seen    *observe.Span
	wait    Wait
	attempt *table.Attempt // nil means that none began
	step    table.Step     // the next one
	sent    clock.Instant
	asks    *transport.Together // the questions of its client; nil while it has asked nothing
	over    bool                // nothing is left to do
	got     *table.Acquisition
	err     error // why it got nothing
}

// TakeTogether acquires locks of any clients, and returns what it got, and why it did not get the others. All but the first must be
// single attempts. If the first one has to wait, waits is called before it does, with what the others got, and there is a result of the
// first one only. So there is if the first one need not ask: then the others are not asked for.
func TakeTogether(ctx context.Context, locks []*Lock, terms []Terms, waits func(others []Held)) (held []Held, errs []error) {
	waiting, stop := terms[0].waiting(ctx)
	defer stop()
	var all []*taking
	defer func() {
		for _, t := range all { // a method of the user's context has panicked
			t.abandon()
		}
	}()
	for i, l := range locks {
		t := &taking{lock: l, terms: &terms[i]}
		all = append(all, t)
		if t.begin(ctx, waiting); i == 0 && (t.over || t.step.Do != table.Ask) {
			break
		}
	}
	askTogether(ctx, all)
	if first := all[0]; len(all) > 1 && !first.over && !first.wait.single && first.step.Do != table.Done {
		for _, t := range all[1:] {
			if !t.over && t.step.Do != table.Done { // it goes on, although it is a single attempt
				t.lock.abandon(t.attempt, t.step.Do == table.Ask)
				t.step = table.Step{Do: table.Done}
			}
			h, _ := t.finish(ctx, waiting)
			held = append(held, h)
		}
		all = all[:1]
		waits(held)
		held = nil
	}
	for _, t := range all {
		h, err := t.finish(ctx, waiting)
		held, errs = append(held, h), append(errs, err)
	}
	all = nil
	return held, errs
}

// begin begins the attempt. Only the first one waits.
func (t *taking) begin(ctx, waiting context.Context) {
	l := t.lock
	t.seen = l.span(ctx, t.terms)
	if t.err = l.Check(t.terms.Op); t.err == nil {
		if t.wait = l.newWait(ctx, t.terms, l.client.cfg.AckTimeout); t.wait.single {
			waiting = ctx
		}
		t.attempt, t.err = l.begin(ctx, waiting, t.terms, t.seen, &t.wait)
	}
	if t.err != nil {
		t.end()
		return
	}
	var n notice.List
	t.step = l.client.table.Admit(t.attempt, clock.Now(), &n)
	n.Deliver(l.client)
}

// askTogether asks the questions of all that have one, and takes the replies.
func askTogether(ctx context.Context, all []*taking) {
	awaits := make([]func() wire.Reply, len(all))
	send := func() {
		for _, t := range all {
			if t.asks != nil {
				t.asks.Send()
			}
		}
	}
	defer send() // also if a method of the user's context panics: the questions count as under way
	for i, t := range all {
		if t.over || t.step.Do != table.Ask {
			continue
		}
		c := t.lock.client
		for _, other := range all[:i] {
			if other.lock.client == c && other.asks != nil {
				t.asks = other.asks
			}
		}
		if t.asks == nil {
			t.asks = &transport.Together{Conn: c.conn}
		}
		q, late := c.question(&t.step, transport.WaitSlot, t.wait.connects)
		t.sent = clock.Now()
		awaits[i], _ = t.asks.Add(t.seen.Context(ctx), q, late)
	}
	send()
	for i, t := range all {
		if awaits[i] == nil {
			continue
		}
		var n notice.List
		r := awaits[i]()
		if t.step = t.lock.client.table.Settle(t.attempt, r, clock.Now(), &n); t.step.Do != table.Done {
			t.wait.GoesOn(t.sent, r.Err == nil, r.Err)
		}
		n.Deliver(t.lock.client)
	}
}

// finish carries out the rest of the attempt, and returns what it got.
func (t *taking) finish(ctx, waiting context.Context) (Held, error) {
	if t.wait.single {
		waiting = ctx
	}
	if !t.over {
		t.over = true // if the attempt cannot go on, it is abandoned there
		defer t.lock.client.tasks.End()
		t.got, t.err = t.lock.attempt(ctx, waiting, t.terms.Op, t.attempt, t.seen, &t.wait, &t.step)
		t.end()
	}
	if t.got == nil {
		return nil, t.err
	}
	return taken{t.lock, t.got}, nil
}

// end notes that the attempt is over.
func (t *taking) end() {
	t.over = true
	if t.seen != nil {
		t.terms.Group.SawMember(t.seen)
		t.seen.End(heldBy(t.got), t.err)
	}
}

// abandon ends an attempt whose caller cannot go on, and releases in the background what it got.
func (t *taking) abandon() {
	got, c := cmp.Or(t.got, t.step.Got), t.lock.client
	switch {
	case got != nil:
		c.Background(func() { _ = t.lock.release(context.Background(), got) }) // the table logs a failure
	case !t.over && t.attempt != nil && t.step.Do != table.Done:
		t.lock.abandon(t.attempt, t.step.Do == table.Ask)
	}
	if !t.over && t.attempt != nil {
		c.tasks.End()
	}
}

// OneLock reports whether an acquisition is of a single lock, so that [UnlockTogether] can unlock it.
func OneLock(h Held) bool {
	_, ok := h.(taken)
	return ok
}

// leaving is one of several acquisitions that are unlocked together.
type leaving struct {
	of    taken
	exit  table.Exit
	step  table.Step
	await func() wire.Reply // nil means that it asks nothing
	over  func(error)       // is told how it went
}

// UnlockTogether begins to unlock acquisitions of single locks of one client, in this order. over is told how each of them went, on
// goroutines of the runner. Those of other nodes do not wait for a node that does not answer, and none waits for one that takes more
// than a call.
func UnlockTogether(ctx context.Context, all []Held, runner *Client, over func(i int, err error)) {
	ctx = lasting(ctx)
	c := all[0].Locks()[0].client
	asks, ways := &transport.Together{Conn: c.conn}, make(map[int][]*leaving)
	for i, h := range all {
		x, way := &leaving{over: func(err error) { over(i, err) }}, -1
		x.of, _ = h.(taken)
		var n notice.List
		x.step = c.table.Release(&x.exit, x.of.Acquisition, clock.Now(), &n)
		if n.Deliver(c); x.step.Do == table.Ask {
			q, late := c.question(&x.step, transport.DutySlot, false)
			x.await, way = asks.Add(ctx, q, late)
		}
		if way < 0 {
			way -= i // it waits for no other one
		}
		ways[way] = append(ways[way], x)
	}
	asks.Send()
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		left := ways[way]
		runner.Alongside(func() error {
			for ; len(left) > 0; left = left[1:] {
				c.leave(ctx, left[0], runner)
			}
			return nil
		}, func(err error) {
			for _, x := range left { // a hook has ended the goroutine
				x.over(err)
			}
		})
	}
}

// leave takes the reply to the first call of an unlock, and carries out the rest. If there is more to do, it does that in the background.
func (c *Client) leave(ctx context.Context, x *leaving, runner *Client) {
	var n notice.List
	if x.await != nil {
		x.step = c.table.SettleRelease(&x.exit, x.await(), clock.Now(), &n)
		n.Deliver(c)
	}
	if x.step.Do == table.Done {
		x.over(x.of.lock.wrap(x.step.Err, "unlock"))
		return
	}
	runner.Alongside(func() error { return x.of.lock.wrap(c.exit(ctx, &x.exit, x.step, new(notice.List)), "unlock") }, x.over)
}
