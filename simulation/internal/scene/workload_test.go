package scene

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// refusing is a lock that waits for nobody.
type refusing struct{ of *rlock.Lock }

// Lock is a single attempt.
func (l refusing) Lock(ctx context.Context, opts ...rlock.AcquireOption) error {
	return l.of.Lock(ctx, append(opts, rlock.Wait(time.Millisecond))...)
}

func (l refusing) Unlock(ctx context.Context) error { return l.of.Unlock(ctx) }

// TestCheckersBiteTheWorkload breaks the promises about single turns, as TestCheckersBite does.
func TestCheckersBiteTheWorkload(t *testing.T) {
	t.Parallel()
	const s = time.Second
	bite(t, map[string]breach{
		"hand-offs of two commands": {func(r *run, _, _ *worker) {
			r.start(3)
			r.handing(kindLock, r.processes)
		}, ""},
		"hand-offs that cost a command more": {func(r *run, _, _ *worker) {
			for _, p := range r.processes {
				lock := p.clients[0].NewLock("x")
				r.workers.Go(func() {
					for range handTurns {
						time.Sleep(10 * time.Millisecond)
						_, _ = lock.IsLocked(context.Background())
					}
				})
			}
			r.handing(kindLock, r.processes)
		}, "commands: 40 turns of 2 processes for a lock lock took"},
		"a hold that is longer than it may be": {func(r *run, a, _ *worker) {
			r.MaxHold = 5 * s
			h := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			time.Sleep(6 * s)
			r.limits(h)
		}, "limit: p0 has had fair"},
		"the loss of a hold that was too long": {func(r *run, a, _ *worker) {
			r.MaxHold = 5 * s
			h := enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			time.Sleep(5 * s)
			a.leaves(h, errLost)
			a.unlocked(h, errLost, errLost, time.Now().Add(s), 0)
		}, ""},
		"the loss of a hold before its limit": {func(r *run, a, _ *worker) {
			r.MaxHold = 5 * s
			h := enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			time.Sleep(4 * s)
			a.leaves(h, errLost)
		}, "false loss"},
		"a wrong answer about what nobody else uses": {func(r *run, a, _ *worker) {
			r.servers[0].Do("SET", "own", "1")
			a.random = rand.New(rand.NewPCG(1, 1))
			private{a, "own"}.semaphore()
		}, "own: Delete of own, which nobody else uses, says true instead of false"},
		"an error about what nobody else uses": {func(_ *run, a, _ *worker) {
			private{a, "own"}.is("Unlock", errLost, rlock.ErrNotAcquired)
		}, "own: Unlock of own"},
		"nothing that works": {func(_ *run, a, _ *worker) {
			a.fails(rlock.ErrInvalidOption, a.noLock(a.clients[0].NewLock("x")))
		}, "misuse: Acquire of no lock returned <nil>"},
		"nothing that is a hold": {func(_ *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x", rlock.Fenced()).Acquire(a.ctx)
			if err == nil {
				a.noHold(hold)
			}
		}, "misuse: Unlock of no hold returned <nil>"},
		"a leader of whom Redis knows nothing": {func(_ *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x", rlock.Fenced()).Acquire(a.ctx)
			if err == nil {
				a.leaderOf(a.clients[0].NewLock("y", rlock.Fenced()), hold)
			}
		}, "election: p0 leads, and Inspect has"},
		"a latch that is open and refuses": {func(r *run, a, _ *worker) {
			r.mu.Lock()
			defer r.mu.Unlock()
			a.passed(&latch{Latch: promises.Latch{Name: "l"}, opened: time.Now().Add(-s)}, &attempt{p: a.process, plan: plan{wait: s}, asked: time.Now()}, rlock.ErrNotAcquired)
		}, "latch: p0 did not pass l"},
		"a latch that opened during a wait": {func(r *run, a, _ *worker) {
			r.mu.Lock()
			defer r.mu.Unlock()
			a.passed(&latch{Latch: promises.Latch{Name: "l"}, opened: time.Now()}, &attempt{p: a.process, plan: plan{wait: s}, asked: time.Now().Add(-s)}, rlock.ErrNotAcquired)
		}, ""},
		"a wait for a latch that returns late": {func(r *run, a, _ *worker) {
			r.mu.Lock()
			defer r.mu.Unlock()
			a.passed(&latch{Latch: promises.Latch{Name: "l"}}, &attempt{p: a.process, plan: plan{wait: s}, asked: time.Now().Add(-3 * s)}, rlock.ErrNotAcquired)
		}, "late: a call of p0 for l"},
		"an owner who may not lock again": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil {
				a.relocks(rlock.WithOwner(hold.Context()), refusing{a.clients[0].NewLock("x")}, find(r, "fair"))
			}
		}, "re-entry: p0 has fair"},
		"an unlock of what was unlocked": {func(r *run, a, _ *worker) {
			a.unlocksAgain(nil, find(r, "fair"))
		}, "which has unlocked it, returned <nil>"},
	})
}
