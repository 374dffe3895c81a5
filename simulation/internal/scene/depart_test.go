package scene

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/observe"
)

// TestCheckersBiteOnDepartures breaks what is promised of a client that shuts down, and of an owner's second acquisitions.
func TestCheckersBiteOnDepartures(t *testing.T) {
	t.Parallel()
	const s = time.Second
	lost := fmt.Errorf("wrapped: %w", rlock.ErrLost)
	watches := func(r *run, p *process) {
		for range 60 {
			time.Sleep(glance)
			r.lingers(p)
		}
	}
	bite(t, map[string]breach{
		"a shutdown that goes on although nobody has anything": {func(r *run, a, _ *worker) {
			a.stopping = time.Now()
			watches(r, a.process)
		}, "goes on although nobody has anything"},
		"one that waits for an owner": {func(r *run, a, _ *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			a.stopping = time.Now()
			watches(r, a.process)
		}, ""},
		"one that waits for an owner who has lost its lock": {func(r *run, a, _ *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0).err = func() error { return lost }
			a.stopping = time.Now()
			watches(r, a.process)
		}, "goes on although nobody has anything"},
		"one that has not waited for an owner": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			a.shut = true
			a.leaves(h, rlock.ErrClosed)
		}, "has not unlocked it"},
		"one that has not waited for an owner who has lost its lock": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1, lease: s}, 0)
			a.shut = true
			a.leaves(h, lost)
		}, ""},
		"one that ends before its time": {func(r *run, a, _ *worker) {
			r.departed(a.process, rlock.ErrClosed, nil, observe.Stats{})
		}, "did not wait until its context ended"},
		"one whose time is over": {func(r *run, a, _ *worker) {
			r.departed(a.process, context.DeadlineExceeded, context.DeadlineExceeded, observe.Stats{Held: 1})
		}, ""},
		"one that has something": {func(r *run, a, _ *worker) {
			r.departed(a.process, nil, nil, observe.Stats{Held: 1})
		}, "succeeded, and it has"},
		"an owner who is not told when it asks": {func(_ *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			require.NoError(t, err)
			a.stopping = time.Now()
			time.Sleep(s)
			a.asksLate(hold)
			require.NoError(t, hold.Unlock(context.Background()))
		}, "the context goes on that an owner asks for"},
		"a lease that is not renewed": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			began := time.Now()
			h.term = func() time.Time { return began.Add(watchdogTimeout) }
			time.Sleep(watchdogTimeout/2 + s)
			r.keepsUp(h)
		}, "renewal: of the lease of 30s"},
		"a lease that is renewed": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			h.term = func() time.Time { return time.Now().Add(watchdogTimeout * 2 / 3) }
			time.Sleep(watchdogTimeout/2 + s)
			r.keepsUp(h)
		}, ""},
		"a re-entry of what was deleted": {func(r *run, a, _ *worker) {
			lock := a.clients[0].NewLock("fenced", rlock.Fenced())
			hold, err := lock.Acquire(a.ctx)
			require.NoError(t, err)
			h := &holder{plan: plan{of: find(r, "fenced")}, p: a.process, since: time.Now()}
			time.Sleep(s)
			h.of.deleting, h.of.deleted = time.Now(), time.Now() // not by anybody
			time.Sleep(s)
			a.again(lock, hold, h)
			require.NoError(t, hold.Unlock(context.Background()))
		}, "which was deleted"},
		"two unlocks of one hold that succeed": {func(r *run, a, _ *worker) {
			a.unlocksAgain(nil, find(r, "fenced"))
		}, "which has unlocked it, returned <nil>"},
		"an owner who was robbed, and whose robber has left": {func(r *run, a, b *worker) {
			r.Unsafe = true
			robbed := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			r.forgot = time.Now()
			time.Sleep(s)
			robber := enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
			r.notices(robbed.of)
			r.drop(robber)
			time.Sleep(watchdogTimeout)
			r.notices(robbed.of)
		}, "p0"},
		"two owners after a clock was stepped, of which one got the lock before": {func(r *run, a, b *worker) {
			r.Unsafe, r.Nemeses = true, []string{nemesisClock}
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			r.forgot = time.Now()
			time.Sleep(s)
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, ""},
		"two owners, of which one could not renew its first term and does not know it": {func(r *run, a, b *worker) {
			r.disturbed = time.Now().Add(time.Second)
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0).blind = true
			time.Sleep(3 * s)
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, ""},
		"two owners, of which one cannot ask": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0).blind = true
			time.Sleep(3 * s)
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, "exclusion"},
		"two owners that got the lock after a clock was stepped": {func(r *run, a, b *worker) {
			r.Unsafe, r.Nemeses = true, []string{nemesisClock}
			asked := time.Now()
			r.forgot = asked
			time.Sleep(s)
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0).asked = asked
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, "exclusion"},
	})
}
