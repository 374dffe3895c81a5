package scene

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
)

// TestCheckersBiteOnStrays breaks the promises about locks that Redis keeps for others than those who believe to have them.
func TestCheckersBiteOnStrays(t *testing.T) {
	t.Parallel()
	const s = time.Second
	lost := fmt.Errorf("wrapped: %w", rlock.ErrLost)
	unavailable := fmt.Errorf("wrapped: %w", rlock.ErrUnavailable)
	bite(t, map[string]breach{
		"a lock that is kept for nobody": {func(r *run, a, _ *worker) {
			for range 40 {
				r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
				time.Sleep(glance)
			}
		}, "stray"},
		"a lock that is kept for nobody, in a process that unlocks others now and then": {func(r *run, a, _ *worker) {
			for i := range 80 {
				a.occupied(a.process, 1-i%2*2)
				r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
				time.Sleep(glance)
			}
		}, "stray"},
		"a lock that is being unlocked": {func(r *run, a, _ *worker) {
			a.occupied(a.process, 1)
			for range 40 {
				r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
				time.Sleep(glance)
			}
		}, ""},
		"a lock that a late command takes after Redis has forgotten its holder": {func(r *run, a, _ *worker) {
			r.keptAfterForgetting(a, 10*s)
		}, ""},
		"a lock that is taken after all late commands": {func(r *run, a, _ *worker) {
			r.keptAfterForgetting(a, 13*s)
		}, "stray"},
		"a lock that is kept for a waiter, who does not get it": {func(r *run, a, _ *worker) {
			a.asks(plan{of: find(r, "fair"), permits: 1})
			for range 40 {
				r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
				time.Sleep(glance)
			}
		}, "stray"},
		"a member of a group that waits for the rest": {func(r *run, a, _ *worker) {
			a.asks(plan{of: find(r, "a b"), permits: 1})
			for range 40 {
				r.strays(find(r, "a b").members[0], a.clients[0].ID()+":1", false)
				time.Sleep(glance)
			}
		}, ""},
		"a peer that is passed over": {func(r *run, _, _ *worker) {
			r.Peers = 1
			(&peer{run: r}).shares(find(r, "fenced"), 201)
		}, "share"},
		"a lock that is given to the dead": {func(r *run, a, _ *worker) {
			a.kill()
			time.Sleep(2 * s)
			r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
		}, "dead"},
		"a lock that the dead have": {func(r *run, a, _ *worker) {
			r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
			a.kill()
			time.Sleep(2 * s)
			r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
		}, ""},
		"an outage although the process has the lock": {func(r *run, a, _ *worker) {
			r.disturbed = time.Now().Add(time.Hour)
			enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			time.Sleep(s)
			a.answered(a.ctx, a.asks(plan{of: find(r, "fenced"), permits: 1}), unavailable)
		}, "an owner of"},
		"an outage although another process has the lock": {func(r *run, a, b *worker) {
			r.disturbed = time.Now().Add(time.Hour)
			enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			time.Sleep(s)
			b.answered(b.ctx, b.asks(plan{of: find(r, "fenced"), permits: 1, wait: s}), unavailable)
		}, ""},
		"a lock that is acquired during a shutdown": {func(r *run, a, _ *worker) {
			a.stopping = time.Now()
			time.Sleep(s)
			enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
		}, "shutdown"},
		"a refusal because of an owner whose lease is over": {func(r *run, a, _ *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0).err = func() error { return lost }
			time.Sleep(10 * s)
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1, try: true}), rlock.ErrNotAcquired)
		}, "refused"},
	})
}

// keptAfterForgetting has Redis keep a lock for nobody, from a time after it forgot something on. Commands are up to 12 s late.
func (r *run) keptAfterForgetting(a *worker, after time.Duration) {
	r.Faults.Late, r.Faults.LateMax, r.Unsafe, r.forgot = 0.01, 12*time.Second, true, time.Now()
	time.Sleep(after)
	for began := time.Now(); time.Since(began) < 25*time.Second; time.Sleep(glance) {
		r.strays(find(r, "fair"), a.clients[0].ID()+":1", false)
	}
}
