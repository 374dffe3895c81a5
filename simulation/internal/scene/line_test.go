package scene

import (
	"slices"
	"testing"
	"time"

	"github.com/go-rlock/rlock"
)

// TestCheckersBiteOnLines breaks the promises about those who wait.
func TestCheckersBiteOnLines(t *testing.T) {
	t.Parallel()
	stands := func(r *run, name string, members ...string) {
		for range 40 {
			for _, l := range r.lines {
				if l.of[0].name == name {
					r.queued(l, members, false)
				}
			}
			time.Sleep(glance)
		}
	}
	stays := func(r *run, a *worker, has string) {
		l := r.lines[slices.IndexFunc(r.lines, func(l *line) bool { return l.of[0].name == "fenced" })]
		r.servers[0].Do("HSET", "fenced", a.clients[0].ID()+has, "1")
		r.servers[0].Do("ZADD", l.key, "1", a.clients[0].ID()+":1|3000|t")
		all := r.members(l)
		r.leavesLine(l, r.served(l, all))
	}
	// passes has somebody take permits now and then, and another process ask for them, for so long at each look.
	passes := func(r *run, a, b *worker, taken int, asks time.Duration) {
		r.Faults.Late = 0.01
		of := subject{0, "semaphore"}
		a.asks(plan{of: find(r, "semaphore"), permits: 1})
		for n := range 100 {
			time.Sleep(glance)
			b.inquest.questions[of] = []*question{{sent: time.Now().Add(-asks)}}
			r.wakesUp(find(r, "semaphore"), n%taken > 0, false, false)
		}
	}
	bite(t, map[string]breach{
		"permits that are kept for one whose question takes long": {func(r *run, a, b *worker) { passes(r, a, b, 3, time.Second) }, ""},
		"permits that are kept for one whose command is over":     {func(r *run, a, b *worker) { passes(r, a, b, 3, 2*commandTimeout) }, "lost wake-up"},
		"permits for which others ask all the time":               {func(r *run, a, b *worker) { passes(r, a, b, 3, 0) }, "lost wake-up"},
		"permits that nobody takes, whoever asks":                 {func(r *run, a, b *worker) { passes(r, a, b, 100, time.Second) }, "lost wake-up"},
		"a waiter that has the lock, and stays in its line":       {func(r *run, a, _ *worker) { stays(r, a, ":1") }, "left"},
		"a waiter behind another one of its process":              {func(r *run, a, _ *worker) { stays(r, a, ":2") }, ""},
		"a waiter that has left": {func(r *run, a, _ *worker) {
			stands(r, "fenced", a.clients[0].ID()+":1|3000")
		}, "left"},
		"a waiter that has left, beside one that waits": {func(r *run, a, _ *worker) {
			a.asks(plan{of: find(r, "fair"), permits: 1})
			stands(r, "fair", a.clients[0].ID()+":-1", a.clients[0].ID()+":-2")
		}, "left"},
		"waiters": {func(r *run, a, b *worker) {
			a.asks(plan{of: find(r, "fair"), permits: 1})
			a.asks(plan{of: find(r, "fair"), permits: 1})
			b.asks(plan{of: find(r, "fair"), permits: 1})
			stands(r, "fair", a.clients[0].ID()+":-1", b.clients[0].ID()+":-1", a.clients[0].ID()+":-2")
		}, ""},
		"a waiter for a group": {func(r *run, a, _ *worker) {
			a.asks(plan{of: find(r, "a b"), permits: 1})
			stands(r, "b", a.clients[0].ID()+":1|3000")
		}, ""},
		"a waiter of a process that cannot leave": {func(r *run, a, _ *worker) {
			a.links[0].Cut(time.Hour)
			stands(r, "fenced", a.clients[0].ID()+":1|3000")
		}, ""},
		"an outage that ends a call without a limit": {func(r *run, a, _ *worker) {
			r.disturbed = time.Now().Add(time.Hour)
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1}), rlock.ErrUnavailable)
		}, "which nothing limits"},
		"an outage that ends a call with a limit": {func(r *run, a, _ *worker) {
			r.disturbed = time.Now().Add(time.Hour)
			a.answered(a.ctx, a.asks(plan{of: find(r, "fair"), permits: 1, wait: time.Second}), rlock.ErrUnavailable)
		}, ""},
	})
}
