package scene

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// stage is a run with two processes that do nothing, for the checkers.
func stage(t *testing.T) (*run, *worker, *worker) {
	t.Helper()
	s := Scene{Processes: 2, WakeUp: time.Second, Overtake: time.Second, Locks: []Lock{
		{kindFenced, "fenced"}, {kindFair, "fair"}, {kindSemaphore, "semaphore"}, {kindRW, "rw"}, {kindMulti, "a b"},
	}}
	r := &run{Scene: s, trace: simnet.NewTrace(nil), latches: make(map[string]*latch)}
	r.servers = []*simnet.Server{simnet.NewServer("redis", 1, r.trace, s.Faults)}
	var end context.CancelFunc
	r.stop, end = context.WithCancel(t.Context())
	r.prepare()
	r.start(1)
	r.start(2)
	t.Cleanup(func() {
		end()
		r.calm() // a minute passes, and what is left is checked by nobody
		for _, p := range r.processes {
			p.close()
		}
	})
	return r, &worker{process: r.processes[0]}, &worker{process: r.processes[1]}
}

// TestCheckersBite breaks each promise, as the workers would see it.
func TestCheckersBite(t *testing.T) {
	t.Parallel()
	const s = time.Second
	held := func() error { return nil }
	lost := fmt.Errorf("wrapped: %w", rlock.ErrLost)
	unavailable := fmt.Errorf("wrapped: %w", rlock.ErrUnavailable)
	find := func(r *run, name string) *target {
		for _, t := range r.wanted {
			if t.name == name {
				return t
			}
		}
		panic(name)
	}
	enter := func(w *worker, p plan, token rlock.Token) *holder {
		a := w.asks(p)
		w.answered(w.ctx, a, nil)
		h := &holder{plan: p, p: w.process, asked: a.asked, since: time.Now(), err: held}
		w.enters(a, h, token)
		return h
	}
	for name, c := range map[string]struct {
		breaks func(r *run, a, b *worker)
		says   string // empty means that it breaks nothing
	}{
		"two owners": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, "exclusion"},
		"two owners, of which one knows of its loss": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0).err = func() error { return lost }
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, ""},
		"a lock and a group that has it": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "a b"), permits: 1}, 0)
			enter(b, plan{of: find(r, "a b").members[1], permits: 1}, 0)
		}, "exclusion"},
		"two readers": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "rw"), permits: 1, reads: true}, 0)
			enter(b, plan{of: find(r, "rw"), permits: 1, reads: true}, 0)
		}, ""},
		"a reader and a writer": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "rw"), permits: 1, reads: true}, 0)
			enter(b, plan{of: find(r, "rw"), permits: 1}, 0)
		}, "exclusion"},
		"too many permits": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "semaphore"), permits: 2}, 0)
			enter(b, plan{of: find(r, "semaphore"), permits: 2}, 0)
		}, "permits"},
		"a token again": {func(r *run, a, b *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1}, 7)
			a.leaves(h, nil)
			enter(b, plan{of: find(r, "fenced"), permits: 1}, 7)
		}, "token"},
		"a later waiter is first": {func(r *run, a, b *worker) {
			a.asks(plan{of: find(r, "fair"), permits: 1})
			time.Sleep(2 * s)
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, "order"},
		"a lock that AtLeast keeps": {func(r *run, a, b *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1, atLeast: 10 * s}, 1)
			a.leaves(h, nil)
			a.unlocked(h, nil, nil, time.Now().Add(s), 0)
			enter(b, plan{of: find(r, "fenced"), permits: 1}, 2)
		}, "kept"},
		"a loss": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			a.leaves(h, lost)
		}, "false loss"},
		"the end of a fixed lease": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1, lease: s}, 1)
			a.leaves(h, lost)
			a.unlocked(h, lost, lost, time.Now(), 0)
		}, ""},
		"an unlock that hides a loss": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1, lease: s}, 1)
			a.leaves(h, lost)
			a.unlocked(h, lost, nil, time.Now(), 0)
		}, "unlock: that of the lost"},
		"a slow unlock of what is lost": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1, lease: s}, 1)
			a.leaves(h, lost)
			a.unlocked(h, lost, lost, time.Now(), s)
		}, "late"},
		"an outage of which nothing is known": {func(r *run, a, _ *worker) {
			time.Sleep(10 * s)
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1}), unavailable)
		}, "all was well"},
		"an outage that is contention": {func(r *run, a, _ *worker) {
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1}), fmt.Errorf("%w: %w", unavailable, rlock.ErrNotAcquired))
		}, "an outage and more"},
		"contention without an answer": {func(r *run, a, _ *worker) {
			strike{run: r}.silence(10*s, &a.cuts)
			x := a.asks(plan{of: find(r, "fair"), permits: 1, wait: 2 * s})
			time.Sleep(2 * s)
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, "reported as contention"},
		"an error that says nothing": {func(r *run, a, _ *worker) {
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1}), fmt.Errorf("oh"))
		}, "none of the errors"},
		"a call that returns late": {func(r *run, a, _ *worker) {
			x := a.asks(plan{of: find(r, "fair"), permits: 1, wait: 2 * s})
			time.Sleep(3 * s)
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, "late"},
		"a waiter whom nobody wakes": {func(r *run, a, _ *worker) {
			time.Sleep(s)
			a.asks(plan{of: find(r, "fair"), permits: 1})
			for range 100 {
				time.Sleep(glance)
				r.wakesUp(find(r, "fair"), true, false)
			}
		}, "lost wake-up"},
		"a hold that the gauges do not have": {func(r *run, a, _ *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			r.gauge(a.process)
		}, "gauges"},
		"a latch that opens too early": {func(r *run, _, _ *worker) {
			r.servers[0].Do("SET", "l", "1")
			r.counted(&latch{name: "l", set: true, started: 1, done: 1})
		}, "latch"},
		"a key that is left": {func(r *run, _, _ *worker) {
			r.servers[0].Do("SET", "x", "1")
			r.finish()
		}, "left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, a, b := stage(t)
				c.breaks(r, a, b)
				if c.says == "" {
					require.Empty(t, r.res.Broken)
					return
				}
				require.NotEmpty(t, r.res.Broken)
				require.Contains(t, r.res.Broken[0], c.says)
			})
		})
	}
}
