package scene

import (
	"context"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
)

// campaign runs in an election, leads for a while, and resigns.
func (w *worker) campaign(t *target) {
	p := plan{of: t, permits: 1, hold: w.upTo(w.Hold), looks: true}
	if w.one(3) {
		p.deadline = 100*time.Millisecond + w.upTo(3*time.Second)
	}
	ctx, _, end := w.terms(&p)
	defer end()
	election := w.clients[0].NewElection(t.name)
	a, led := w.asks(p), false
	w.occupied(w.process, 1)
	defer w.occupied(w.process, -1)
	err := election.Run(ctx, func(ctx context.Context, term rlock.Token) error {
		defer end() // after a loss it would campaign again
		if led {
			return nil
		}
		led = true
		lock := w.clients[0].NewLock(t.name, rlock.Fenced())
		hold, ok := rlock.HoldFrom(ctx, lock)
		w.answered(ctx, a, nil)
		h := &holder{plan: p, p: w.process, asked: a.asked, since: time.Now(), err: ctx.Err}
		w.mu.Lock()
		if ok {
			h.err, h.ctx = hold.Err, ctx
			l := &leader{w.process, election, hold, ctx, 0}
			w.leaders = append(w.leaders, l)
			defer w.resigns(l)
		} else if ctx.Err() == nil {
			w.brokenf("election: the context of the leader of %s carries no hold", t.name)
		}
		w.mu.Unlock()
		w.enters(a, h, term)
		if ok && w.one(4) {
			w.leaderOf(lock, hold)
		}
		timer := time.NewTimer(p.hold)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			time.Sleep(w.upTo(2 * time.Second)) // the lead ends when the function does
		case <-timer.C:
		}
		if !w.dead() {
			w.leaves(h, h.err())
			w.occupied(w.process, -1) // Run is counted already
		}
		return nil
	})
	if !led {
		w.answered(ctx, a, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if election.IsLeader() && !w.dead() {
		w.brokenf("election: %v leads %s although Run has returned", w.process, t.name)
	}
}

// leaderOf asks who leads, as the leader.
func (w *worker) leaderOf(lock *rlock.Lock, hold *rlock.Hold) {
	before := hold.Err()
	info, err := lock.Inspect(context.WithoutCancel(w.ctx))
	if err == nil && !slices.ContainsFunc(info.Holders, func(h rlock.HolderInfo) bool { return h.Own }) {
		w.judge(hold, before, "election: %v leads, and Inspect has %+v", w.process, info.Holders)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.class(err)
}

// resigns notes that a leader's function returns.
func (r *run) resigns(l *leader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaders = slices.DeleteFunc(r.leaders, func(o *leader) bool { return o == l })
}
