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
	"github.com/go-rlock/rlock/internal/driver"
	rlockfault "github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// TestCheckersAreTold breaks promises that one word of the workers decides.
func TestCheckersAreTold(t *testing.T) {
	t.Parallel()
	unavailable := fmt.Errorf("wrapped: %w", rlock.ErrUnavailable)
	lost := fmt.Errorf("wrapped: %w", rlock.ErrLost)
	// unlock is that of a hold of a minute, which said before that it was good.
	unlock := func(r *run, w *worker, lease time.Duration, err error) {
		time.Sleep(10 * time.Second)
		h := &holder{plan: plan{of: r.locks[0], permits: 1, lease: lease}, p: w.process, since: time.Now(), err: func() error { return nil }}
		w.leaves(h, nil)
		w.unlocked(h, nil, err, time.Now().Add(time.Minute), time.Second)
	}
	silent := func(r *run, w *worker, p plan, err error) {
		strike{run: r}.silence(10*time.Second, &w.cuts)
		p.of, p.permits = r.locks[0], 1
		a := w.asks(p)
		time.Sleep(10 * time.Millisecond)
		w.answered(w.ctx, a, err)
	}
	// delayed tells of an outage of a red lock, for whose members some replies take so much longer.
	delayed := func(slow time.Duration) func(r *run, w *worker) {
		return func(r *run, w *worker) {
			r.Faults.Slow, r.Faults.SlowMax = 0.2, slow
			w.answered(w.ctx, w.asks(plan{of: &target{kind: kindRed, name: "red"}, permits: 1, try: true}), unavailable)
		}
	}
	// late has the process read a message a second after it has come.
	late := func(r *run, w *worker) {
		d, _ := w.links[0].Open(driver.Config{CommandTimeout: time.Second})
		s := d.Subscribe(w.ctx, nil, false)
		_ = s.Subscribe(w.ctx, "x")
		_, _ = s.Receive(w.ctx)
		r.servers[0].Do("PUBLISH", "x", "1")
		time.Sleep(time.Second)
		_, _ = s.Receive(w.ctx)
		_ = s.Close()
		r.reads(w.process)
	}
	for name, c := range map[string]struct {
		breaks func(r *run, w *worker)
		says   string // empty means that it breaks nothing
	}{
		"an unlock that reports a loss too early": {func(r *run, w *worker) { unlock(r, w, 0, lost) }, "unlock: that of fenced by p0 reports a loss 1m0s before"},
		"of a fixed lease, too":                   {func(r *run, w *worker) { unlock(r, w, time.Hour, lost) }, "unlock: that of fenced by p0 reports a loss 1m0s before"},
		"where Redis may forget": {func(r *run, w *worker) {
			r.Unsafe = true
			unlock(r, w, 0, lost)
		}, ""},
		"a message that is read late": {late, "deaf: p0 has read a message that had been there for"},
		"where subscriptions break": {func(r *run, w *worker) {
			r.Nemeses = []string{nemesisBusy, nemesisBreak}
			late(r, w)
		}, ""},
		"an unlock that fails":            {func(r *run, w *worker) { unlock(r, w, 0, unavailable) }, "unlock: that of fenced by p0 failed, but all was well"},
		"a success while Redis is silent": {func(r *run, w *worker) { silent(r, w, plan{}, nil) }, "error: p0 got fenced although"},
		"a short deadline in silence":     {func(r *run, w *worker) { silent(r, w, plan{deadline: 9 * time.Millisecond}, context.DeadlineExceeded) }, "error: an outage was reported to p0 as neither"},
		"an outage of which nobody was asked": {func(r *run, w *worker) {
			r.disturb(time.Minute)
			w.answered(w.ctx, w.asks(plan{of: r.locks[0], permits: 1, try: true}), unavailable)
		}, "error: p0 was told of an outage about fenced, for which it has not asked"},
		"an outage on a cluster, of which nobody was asked": {func(r *run, w *worker) {
			r.Topology = topologyCluster
			r.disturb(time.Minute)
			w.answered(w.ctx, w.asks(plan{of: r.locks[0], permits: 1, try: true}), unavailable)
		}, "error: p0 was told of an outage about fenced, for which it has not asked"},
		"an outage on a cluster of which no node has said where the lock is": {func(r *run, w *worker) {
			r.Topology = topologyCluster
			r.disturb(time.Minute)
			w.answered(w.ctx, w.asks(plan{of: r.locks[0], permits: 1, try: true}), fmt.Errorf("%w: %w", rlock.ErrUnavailable, rlockfault.ErrNotSent))
		}, ""},
		"an outage of members that have too little time":  {delayed(60 * time.Millisecond), ""},
		"an outage of members that have just enough time": {delayed(40 * time.Millisecond), "error: an outage was reported to p0, but all was well"},
		"a cancellation that is an outage":                {func(r *run, w *worker) { silent(r, w, plan{cancel: 9 * time.Millisecond}, unavailable) }, "error: a cancellation alone"},
		"contention in silence, because another group of its process waits for a member": {func(r *run, w *worker) {
			member := find(r, "a b").members[0]
			other := &target{kind: kindMulti, name: "a", members: []*target{member}}
			r.wanted = append(r.wanted, other)
			w.asks(plan{of: other, permits: 1})
			strike{run: r}.silence(10*time.Second, &w.cuts)
			w.answered(w.ctx, w.asks(plan{of: find(r, "a b"), permits: 1, try: true}), rlock.ErrNotAcquired)
		}, ""},
		"a success after the limit": {func(r *run, w *worker) {
			a := w.asks(plan{of: r.locks[0], permits: 1, deadline: time.Second})
			time.Sleep(2 * time.Second)
			w.answered(w.ctx, a, nil)
		}, "late: a call of p0 for fenced returned 1s after its limit"},
		"a token for a lock without": {func(r *run, w *worker) {
			fair := r.locks[1]
			a := w.asks(plan{of: fair, permits: 1})
			w.enters(a, &holder{plan: a.plan, p: w.process, since: time.Now(), err: func() error { return nil }}, 7)
		}, "token: p0 got fair with the token 7, but it needs none"},
		"two owners with one token, after Redis forgot": {func(r *run, w *worker) {
			r.Unsafe = true
			for _, token := range []rlock.Token{7, 6, 7} {
				h := &holder{plan: plan{of: r.locks[0], permits: 1}, p: w.process, since: time.Now(), err: func() error { return nil }}
				w.raises(h, token, 0)
			}
		}, "token: p0 got fenced with the token 7, which p0 has, too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, w, _ := stage(t)
				require.Equal(t, []string{"fenced", "fair"}, []string{r.locks[0].name, r.locks[1].name})
				if c.breaks(r, w); c.says == "" {
					require.Empty(t, r.res.Broken)
					return
				}
				require.Contains(t, strings.Join(r.res.Broken, "\n"), c.says)
			})
		})
	}
}

// TestALatchTellsTheCheckers has workers use a latch of which more calls have begun than are counted.
func TestALatchTellsTheCheckers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w, _ := stage(t)
		w.random = rand.New(rand.NewPCG(1, 1))
		l := &latch{Latch: promises.Latch{Name: "l", Count: latchCount}, waiting: make(map[*process]int)}
		handle := w.clients[0].NewCountDownLatch("l")
		_, err := handle.TrySetCount(w.ctx, 1)
		require.NoError(t, err)
		w.counts(w.ctx, l, handle)
		w.awaits(w.ctx, l, handle)
		require.Contains(t, strings.Join(r.res.Broken, "\n"), "latch: p0 passed l, which was counted down 1 times of 3")
	})
}
