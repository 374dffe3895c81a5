package rlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// takeMajority takes a majority of the members, and tries until it has one.
func (r *groupRequest) takeMajority() (*groupEntry, error) {
	wakes := newWakes()
	defer wakes.close()
	report, leave, err := r.queue()
	if err != nil {
		return nil, err
	}
	defer leave()
	var last error // of the round before
	for round := 1; ; round++ {
		e := r.newEntry()
		err := r.poll(e, round, last)
		if err == nil {
			report(errRefused) // to whoever comes next
			e.keep()
			return e, nil
		}
		released := e.giveUp(r)
		report(err)
		if r.single() || !r.mends(e) {
			return nil, errors.Join(err, released)
		}
		wakes.listen(e)
		r.rest(backoff(round, time.Second), wakes.wake)
		if r.ctx.Err() != nil || r.limited && r.left() == 0 {
			return nil, r.ended(err)
		}
		last = err
		r.rest(rand.N(5*time.Millisecond), nil) // a release is announced by one member after the other
	}
}

// queue waits until no other request of this process for the same red lock comes first. An owner that holds a member
// already does not queue behind those who wait for it. It returns what reports how a round went to those behind, and what
// makes way for them.
func (r *groupRequest) queue() (report func(error), leave func(), err error) {
	l := r.group.all[0]
	c := l.client
	if r.single() || r.holdsAny() {
		return func(error) {}, func() {}, nil
	}
	w := &waiter{id: nameKey{c, l.nameKey.name, redFamily}}
	c.enter(w)
	report = func(err error) {
		if errors.Is(err, errRefused) {
			c.report(w, outcome{refused: true})
		} else {
			c.report(w, outcome{trouble: err})
		}
	}
	leave = func() { _, _ = c.leave(w) }
	if w.head == nil {
		return report, leave, nil
	}
	var over <-chan time.Time
	if r.limited {
		timer := time.NewTimer(r.left())
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.head:
		return report, leave, nil
	case <-c.done:
		return report, leave, nil // the members will say
	case <-over:
	case <-r.ctx.Done():
	}
	_, last := c.leave(w)
	if last.refused {
		last.trouble = errRefused
	}
	return nil, nil, r.ended(last.trouble)
}

// holdsAny tells whether the owner holds a member.
func (r *groupRequest) holdsAny() bool {
	return slices.ContainsFunc(r.group.all, func(l *Lock) bool {
		o := l.ownerIn(r.ctx)
		if o == nil {
			o = r.owner
		}
		l.client.mu.Lock()
		defer l.client.mu.Unlock()
		return l.client.possession(l.key(), o).usable()
	})
}

// poll asks all members, and returns when a majority has granted the lock, or can no longer. When it is interrupted, the
// error is that of the round before.
func (r *groupRequest) poll(e *groupEntry, round int, last error) error {
	for i := range r.group.members {
		e.ask(i, r.ctx, r.lease)
	}
	var over <-chan time.Time // the first round is made to its end, however short the wait
	if r.limited && round > 1 {
		timer := time.NewTimer(r.left())
		defer timer.Stop()
		over = timer.C
	}
	for {
		if done, err := e.standing(); done {
			return err
		}
		select {
		case <-e.changed:
		case <-over:
			return r.ended(last)
		case <-r.ctx.Done():
			return r.ended(last)
		}
	}
}

// ended returns the error of a request whose wait is over, or whose context has ended, for what the members said last.
func (r *groupRequest) ended(last error) error {
	switch {
	case r.ctx.Err() == nil && last == nil:
		return fmt.Errorf("rlock: %w", errNoAnswer)
	case r.ctx.Err() == nil:
		return last
	case last == nil, errors.Is(last, ErrNotAcquired):
		return fmt.Errorf("%w: %w", ErrNotAcquired, endOf(r.ctx))
	}
	return fmt.Errorf("%w (%w)", last, endOf(r.ctx))
}

// standing tells whether the request is decided: held by a majority, or, with an error, no longer possible.
func (e *groupEntry) standing() (done bool, err error) {
	if e.begin() {
		return true, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.group
	held, open, refused := 0, 0, 0
	for i, err := range e.errs {
		switch {
		case e.members[i] != nil && e.members[i].Err() == nil:
			held++
		case e.asked[i]:
			open++
		case errors.Is(err, errRefused):
			refused++
		}
	}
	if held+open >= g.need {
		return false, nil
	}
	if !slices.ContainsFunc(e.errs, func(err error) bool { return err != nil }) {
		return true, fmt.Errorf("rlock: %w", errLate) // what was granted has run out
	}
	quorum := &QuorumError{Need: g.need, Errors: g.named(e.errs)}
	if refused > len(g.members)-g.need {
		return true, fmt.Errorf("%w: %w", errRefused, quorum) // whatever the others may say
	}
	// Redis could not say, and that is never "refused".
	for i, err := range quorum.Errors {
		if errors.Is(err, ErrNotAcquired) {
			quorum.Errors[i] = fmt.Errorf("member %d (%s): %w", i+1, nameOf(g.members[i]), errTaken)
		}
	}
	return true, quorum
}

// errTaken stands for a refusal in an error that must not match ErrNotAcquired.
var errTaken = errors.New("held by another owner")

// mends tells whether waiting may help: enough members may yet be had.
func (r *groupRequest) mends(e *groupEntry) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	hopeless := 0
	for i, err := range e.errs {
		c := r.group.members[i].leaves()[0].client
		if err != nil && !errors.Is(err, ErrNotAcquired) && (sentinel(err) || !c.transient(err)) {
			hopeless++
		}
	}
	return hopeless <= len(e.errs)-r.group.need
}

// minPatience is for how long a member is waited for at least.
const minPatience = 50 * time.Millisecond

// ask asks a member for the lock, without waiting for the answer.
func (e *groupEntry) ask(i int, values context.Context, lease time.Duration) { //nolint:revive // values only lends them
	m := e.group.members[i]
	c := m.leaves()[0].client
	var opts []AcquireOption
	patience := c.watchdogTimeout
	if lease > 0 {
		opts, patience = []AcquireOption{Lease(lease)}, lease
	}
	patience = min(max(patience/30, minPatience)+c.ackTimeout, c.commandTimeout)
	e.mu.Lock()
	e.asked[i] = true
	e.mu.Unlock()
	c.background(func() {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(values), patience, errNoAnswer)
		defer cancel()
		h, err := m.take(ctx, acquisition{op: "acquire", byHold: true, try: true, group: e.owner}, opts)
		if err == nil && !e.add(i, h) {
			err = h.Unlock(context.WithoutCancel(values)) // nobody wants it any more
		}
		if errors.Is(err, ErrNotAcquired) && !errors.Is(err, errRefused) {
			err = errNoAnswer
		}
		e.mu.Lock()
		e.asked[i], e.errs[i] = false, err
		e.mu.Unlock()
		select {
		case e.changed <- struct{}{}:
		default:
		}
	})
}

// keep has the members that are not held asked again, now and then, for as long as the entry is held.
func (e *groupEntry) keep() {
	if !e.renewed {
		return
	}
	pause := time.Duration(0)
	for _, l := range e.group.all {
		if d := l.client.watchdogTimeout / 3; pause == 0 || d < pause {
			pause = d
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why == nil {
		e.timer = time.AfterFunc(pause, func() { e.heal(pause) })
	}
}

// heal asks again for the members that are not held. A member that lost the lock gets a new holder: what it said before
// counts no more.
func (e *groupEntry) heal(pause time.Duration) {
	var missing []int
	e.mu.Lock()
	tell := e.look()
	if e.why == nil {
		for i, h := range e.members {
			if !e.asked[i] && (h == nil || h.Err() != nil && !errors.Is(h.Err(), ErrClosed)) {
				missing = append(missing, i)
				e.asked[i] = true
			}
		}
		e.timer.Reset(pause)
	}
	e.mu.Unlock()
	tell()
	for _, i := range missing {
		e.mu.Lock()
		gone := e.members[i]
		e.members[i] = nil
		e.mu.Unlock()
		if gone == nil {
			e.ask(i, context.Background(), 0)
			continue
		}
		gone.locks()[0].client.background(func() {
			_ = gone.Unlock(context.Background()) // its owner has to hear of the loss before it asks anew
			if e.Err() == nil {
				e.ask(i, context.Background(), 0)
			}
		})
	}
}

// wakes listens on the channels of members that were refused.
type wakes struct {
	wake chan struct{}
	on   map[*Lock]*listener
}

func newWakes() *wakes { return &wakes{wake: make(chan struct{}, 1), on: make(map[*Lock]*listener)} }

func (w *wakes) listen(e *groupEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, m := range e.group.members {
		l := m.leaves()[0]
		if w.on[l] != nil && !errors.Is(e.errs[i], errRefused) { // our own release would wake us
			w.on[l].close()
			delete(w.on, l)
		}
		if errors.Is(e.errs[i], errRefused) && l.kind.channel != "" && !l.kind.queues && w.on[l] == nil {
			w.on[l] = l.client.pubsub.listenWith(l.wire().channel, w.wake)
		}
	}
}

func (w *wakes) close() {
	for _, l := range w.on {
		l.close()
	}
}
