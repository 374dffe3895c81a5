package scene

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/testkit/tune"
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
	a, b := r.processes[0], r.processes[1]
	return r, &worker{process: a, ctx: a.ctx}, &worker{process: b, ctx: b.ctx}
}

// TestCheckersBite breaks each promise, as the workers would see it.
func TestCheckersBite(t *testing.T) {
	t.Parallel()
	const s = time.Second
	held := func() error { return nil }
	unavailable := fmt.Errorf("wrapped: %w", rlock.ErrUnavailable)
	bite(t, map[string]breach{
		"two owners": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
		}, "exclusion"},
		"two owners, of which one knows of its loss": {func(r *run, a, b *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0).err = func() error { return errLost }
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
			a.leaves(h, errLost)
		}, "false loss"},
		"the end of a fixed lease": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1, lease: s}, 1)
			a.leaves(h, errLost)
			a.unlocked(h, errLost, errLost, time.Now(), 0)
		}, ""},
		"an unlock that hides a loss": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1, lease: s}, 1)
			a.leaves(h, errLost)
			a.unlocked(h, errLost, nil, time.Now(), 0)
		}, "unlock: that of the lost"},
		"a slow unlock of what is lost": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1, lease: s}, 1)
			a.leaves(h, errLost)
			a.unlocked(h, errLost, errLost, time.Now(), s)
		}, "late"},
		"an outage of which nothing is known": {func(r *run, a, _ *worker) {
			time.Sleep(10 * s)
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1}), unavailable)
		}, "all was well"},
		"an outage that is contention": {func(r *run, a, _ *worker) {
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1}), fmt.Errorf("%w: %w", unavailable, rlock.ErrNotAcquired))
		}, "at once"},
		"contention without an answer": {func(r *run, a, _ *worker) {
			strike{run: r}.silence(10*s, &a.cuts)
			x := a.asks(plan{of: find(r, "fair"), permits: 1, wait: 2 * s})
			time.Sleep(2 * s)
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, "as contention"},
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
				r.wakesUp(find(r, "fair"), true, false, false)
			}
		}, "lost wake-up"},
		"a waiter who is passed over": {func(r *run, a, _ *worker) {
			a.asks(plan{of: find(r, "fenced"), permits: 1})
			for n := range 100 { // others have the lock at one look of three
				time.Sleep(glance)
				r.wakesUp(find(r, "fenced"), n%3 > 0, false, false)
			}
		}, "lost wake-up: fenced was free for"},
		"a waiter whom Redisson, which is nearer, passes over": {func(r *run, a, _ *worker) {
			a.asks(plan{of: find(r, "fenced"), permits: 1})
			java := &peer{run: r, conn: r.servers[0].NewPeer("java"), random: rand.New(rand.NewPCG(1, 1)), holder: "x:1"}
			for range 100 { // the watch mostly looks while the lock is free for a moment
				java.turn(find(r, "fenced"))
				r.wakesUp(find(r, "fenced"), true, false, false)
				r.wakesUp(find(r, "fenced"), true, false, false)
				time.Sleep(glance)
				r.wakesUp(find(r, "fenced"), false, false, false)
			}
		}, ""},
		"a red lock whose members have no time to answer": {func(r *run, a, _ *worker) {
			r.Faults.Latency = 30 * time.Millisecond
			red := &target{kind: kindRed, name: "red"}
			a.asks(plan{of: red, permits: 1, lease: s})
			for n := range 100 {
				time.Sleep(glance)
				r.wakesUp(red, n%3 > 0, false, false)
			}
		}, ""},
		"a hold that the gauges do not have": {func(r *run, a, _ *worker) {
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			for range 40 {
				r.gauge(a.process)
				time.Sleep(glance)
			}
		}, "gauges"},
		"a latch that opens too early": {func(r *run, _, _ *worker) {
			r.servers[0].Do("SET", "l", "1")
			l := &latch{Latch: promises.Latch{Name: "l", Count: latchCount}, set: true}
			l.Starts()
			l.Counted(r.checks(), r.processes[0], 2)
			r.counted(l)
		}, "left: l has 1 at the end instead of 2 to 2"},
		"a refusal although nobody has the lock": {func(r *run, a, _ *worker) {
			time.Sleep(10 * s)
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1, try: true}), rlock.ErrNotAcquired)
		}, "refused"},
		"a refusal after an unlock": {func(r *run, a, b *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			a.leaves(h, nil)
			a.unlocked(h, nil, nil, time.Now().Add(s), 0)
			time.Sleep(s)
			b.answered(b.ctx, b.asks(plan{of: find(r, "fenced"), permits: 1, try: true}), rlock.ErrNotAcquired)
			r.linearizable()
		}, "linearizability: of 3 operations on fenced, no lock could do this: find"},
		"a refusal during an unlock": {func(r *run, a, b *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			a.leaves(h, nil)
			x := b.asks(plan{of: find(r, "fenced"), permits: 1, try: true})
			hears(b, subject{0, "fenced"}, refused, s/10)
			a.unlocked(h, nil, nil, time.Now().Add(s), s/20)
			b.answered(b.ctx, x, rlock.ErrNotAcquired)
			r.linearizable()
		}, ""},
		"a refusal because of an owner": {func(r *run, a, b *worker) {
			time.Sleep(10 * s)
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			x := b.asks(plan{of: find(r, "fair"), permits: 1, try: true})
			hears(b, subject{0, "fair"}, refused, 0)
			b.answered(b.ctx, x, rlock.ErrNotAcquired)
		}, ""},
		"an unlock that ends with its context": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fenced"), permits: 1}, 1)
			a.leaves(h, nil)
			a.unlocked(h, nil, context.Canceled, time.Now().Add(s), 0)
		}, "the unlock of fenced"},
		"an owner who does not notice that another one has the lock": {func(r *run, a, b *worker) {
			r.Unsafe = true
			enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			enter(b, plan{of: find(r, "fair"), permits: 1}, 0)
			time.Sleep(30 * s)
			r.notices(find(r, "fair"))
		}, "notice"},
		"a leader who does not know of its end": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x", rlock.Fenced()).Acquire(a.ctx, rlock.Lease(s))
			if err == nil {
				time.Sleep(2 * s)
				l := &leader{a.process, a.clients[0].NewElection("x"), hold, a.ctx, 0}
				r.leads(l)
				r.leads(l)
			}
		}, "election: the context"},
		"a leader who resigns too early": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x", rlock.Fenced()).Acquire(a.ctx)
			if err == nil && hold.Unlock(a.ctx) == nil {
				l := &leader{a.process, a.clients[0].NewElection("x"), hold, hold.Context(), 0}
				r.leads(l)
				r.leads(l)
			}
		}, "resigned before"},
		"a shutdown that tells nobody": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			h.ctx, a.stopping = a.ctx, time.Now()
			time.Sleep(s)
			r.told(h)
		}, "shutdown"},
		"a shutdown of the first of several clients": {func(r *run, a, _ *worker) {
			a.clients = append(a.clients, r.processes[1].clients[0])
			h := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			h.ctx, a.stopping = a.ctx, time.Now()
			time.Sleep(s)
			r.told(h)
			a.clients = a.clients[:1]
		}, ""},
		"a turn of three commands": {func(r *run, a, _ *worker) {
			time.Sleep(10 * s)
			a.active = 1
			alone := a.solitary(a.asks(plan{of: find(r, "fenced"), permits: 1, visit: 9, verb: 9}))
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil && hold.Extend(a.ctx, s) == nil && hold.Unlock(a.ctx) == nil {
				alone.over(r)
			}
		}, "took 3 commands instead of 2"},
		"commands for nothing": {func(r *run, a, _ *worker) {
			time.AfterFunc(s, func() { _, _ = a.clients[0].NewLock("x").IsLocked(a.ctx) })
			r.sendNothing()
		}, "were sent although"},
		"a command for each renewal": {func(r *run, _, _ *worker) {
			r.Options = []rlock.Option{tune.BatchSize(1)}
			r.start(3)
			r.keeping(r.processes[2])
		}, "renewed 4 locks"},
		"a lease of the dead": {func(r *run, a, _ *worker) {
			a.kill()
			time.Sleep(leasesEnd + s)
			r.servers[0].Do("SET", "{rw}:"+a.clients[0].ID()+":1:rwlock_timeout:1", "1", "PX", "1000")
			r.graves()
		}, "was killed"},
		"a hold that survives an unlock by force": {func(r *run, a, _ *worker) {
			for _, t := range r.locks {
				r.servers[0].Do("DEL", t.name)
				r.servers[0].Do("HSET", t.name, "x:1", "1", "mode", "write")
				enter(a, plan{of: t, permits: 1}, 1)
			}
			strike{run: r, p: a.process, random: rand.New(rand.NewPCG(1, 1)), on: r.servers[0]}.force()
		}, "force"},
		"a context that carries another hold": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil {
				a.borrows(a.clients[0].NewLock("y"), hold)
			}
		}, "borrow"},
		"another owner who gets the lock": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil {
				a.another(a.clients[0].NewLock("y"), hold, plan{of: find(r, "fair"), permits: 1})
			}
		}, "owner"},
		"a query that does not know the holder": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil {
				a.asksAbout(a.clients[0].NewLock("y"), hold, plan{of: find(r, "fair"), permits: 1})
			}
		}, "query"},
		"a re-entry that is not refused": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil {
				a.nested(hold, plan{of: find(r, "a b").members[0], permits: 1})
			}
		}, "nested"},
		"a writer for whose reading Redis has no memory": {func(r *run, a, _ *worker) {
			r.Nemeses = []string{nemesisFull}
			hold, err := a.side(find(r, "rw"), false).Acquire(a.ctx)
			if err == nil {
				r.servers[0].Do("CONFIG", "SET", "maxmemory", "1")
				a.nested(hold, plan{of: find(r, "rw"), permits: 1})
			}
		}, ""},
		"what is impossible and works": {func(r *run, a, _ *worker) {
			a.impossible(find(r, "fair"), a.clients[0].NewLock("x"))
		}, "misuse"},
		"two semaphores with the same leases": {func(_ *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil {
				a.besides(a.clients[0].NewSemaphore("y"), hold)
			}
		}, "could set up"},
		"a hold that is nearly over": {func(r *run, a, _ *worker) {
			x := a.asks(plan{of: find(r, "fenced"), permits: 1})
			a.enters(x, &holder{plan: x.plan, p: a.process, err: held, deadline: time.Now().Add(s / 2)}, 1)
		}, "nearly over"},
		"a shutdown that refuses a past context": {func(r *run, a, _ *worker) {
			hold, err := a.clients[0].NewLock("x").Acquire(a.ctx)
			if err == nil {
				a.past = append(a.past, hold.Context())
				strike{run: r, p: a.process, random: rand.New(rand.NewPCG(1, 1))}.shutdown(s)
			}
		}, "shutdown"},
		"a Do that hides an error": {func(_ *run, a, _ *worker) {
			_ = a.done(errOwn, rlock.ErrLost)
		}, "do: it returned"},
		"an observer who is not told": {func(r *run, a, _ *worker) {
			a.observer.started++
			r.observed(a.process)
		}, "observer"},
		"permits that cannot be added": {func(r *run, a, _ *worker) {
			a.close()
			a.adds(find(r, "semaphore"))
		}, "could not change"},
		"a key that is left": {func(r *run, _, _ *worker) {
			r.servers[0].Do("SET", "x", "1")
			r.finish()
		}, "left"},
	})
}

// breach breaks a promise, as the workers would see it.
type breach struct {
	breaks func(r *run, a, b *worker)
	says   string // empty means that it breaks nothing
}

// bite checks that breaches are found.
func bite(t *testing.T, all map[string]breach) {
	t.Helper()
	for name, c := range all {
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
				require.Contains(t, strings.Join(r.res.Broken, "\n"), c.says)
			})
		})
	}
}

var errLost = fmt.Errorf("wrapped: %w", rlock.ErrLost)

// find returns a target of the stage.
func find(r *run, name string) *target {
	for _, t := range r.wanted {
		if t.name == name {
			return t
		}
	}
	panic(name)
}

// enter has a worker get a target.
func enter(w *worker, p plan, token rlock.Token) *holder {
	a := w.asks(p)
	w.answered(w.ctx, a, nil)
	h := &holder{plan: p, p: w.process, asked: a.asked, since: time.Now(), err: func() error { return nil }}
	w.enters(a, h, token)
	return h
}
