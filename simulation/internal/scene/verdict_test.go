package scene

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	rlockfault "github.com/go-rlock/rlock/internal/fault"
)

var errCut = &rlockfault.Error{Fate: rlockfault.InDoubt, Transient: true, Err: errors.New("the connection broke")}

// hears has a client of a process ask for a lock, and hear that after a while.
func hears(w *worker, of subject, what told, after time.Duration) {
	q := &question{sent: time.Now()}
	w.inquest.questions[of] = append(w.inquest.questions[of], q)
	time.Sleep(after)
	if q.told = what; what != nothing {
		q.over = time.Now()
	}
	if what == failed {
		q.err = errCut
	}
}

// TestVerdictsBite has calls say something else than what they were told.
func TestVerdictsBite(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	unavailable := fmt.Errorf("wrapped: %w", rlock.ErrUnavailable)
	tries := func(r *run, w *worker, name string) *attempt {
		r.disturbed = time.Now().Add(time.Hour) // which the other checkers take for a reason
		return w.asks(plan{of: find(r, name), permits: 1, wait: 10 * s})
	}
	canceled := func(r *run, w *worker, err error, later time.Duration) {
		x := tries(r, w, "fair")
		time.Sleep(later)
		ctx, end := context.WithCancel(w.ctx)
		end()
		w.answered(ctx, x, err)
	}
	// after has a worker try a lock, which is told one thing after the other, and returns an error then.
	after := func(err error, heard ...told) func(r *run, a, b *worker) {
		return func(r *run, a, _ *worker) {
			x := tries(r, a, "fair")
			for _, h := range heard {
				hears(a, subject{0, "fair"}, h, 1500*ms)
			}
			a.answered(a.ctx, x, err)
		}
	}
	// earlier has a question of an earlier call be answered while the second one of a worker is silent, which ends a while later.
	earlier := func(name string, later time.Duration, err error) func(r *run, a, b *worker) {
		return func(r *run, a, _ *worker) {
			of, last := subject{0, name}, &question{sent: time.Now()}
			a.inquest.questions[of] = []*question{last}
			time.Sleep(ms)
			x := tries(r, a, name)
			hears(a, of, refused, ms)
			hears(a, of, nothing, 1500*ms)
			last.told, last.over = refused, time.Now()
			time.Sleep(later)
			a.answered(a.ctx, x, err)
		}
	}
	bite(t, map[string]breach{
		"contention of which nobody spoke":                              {after(rlock.ErrNotAcquired), "told contention about fair, instead of outage"},
		"contention after a refusal":                                    {after(rlock.ErrNotAcquired, refused), ""},
		"contention after a failure":                                    {after(rlock.ErrNotAcquired, refused, failed), "told contention about fair, instead of outage"},
		"contention after silence":                                      {after(rlock.ErrNotAcquired, refused, nothing), "told contention about fair, instead of outage"},
		"contention after a failure and a refusal":                      {after(rlock.ErrNotAcquired, failed, refused), ""},
		"an outage after a refusal":                                     {after(unavailable, failed, refused), "told outage about fair, instead of contention"},
		"an outage after a failure":                                     {after(unavailable, refused, failed), ""},
		"an outage after silence":                                       {after(unavailable, nothing), ""},
		"an outage after a grant that came too late":                    {after(unavailable, refused, got), ""},
		"contention after a set-up that failed first":                   {after(rlock.ErrNotAcquired, failed, answered, refused), ""},
		"contention after silence, while an earlier call was answered":  {earlier("fenced", 500*ms, rlock.ErrNotAcquired), ""},
		"an outage after silence, while an earlier call was answered":   {earlier("fenced", 500*ms, unavailable), "told outage about fenced, instead of contention"},
		"contention after silence that lasts since then":                {earlier("fenced", 1500*ms, rlock.ErrNotAcquired), "told contention about fenced, instead of outage"},
		"an outage at a fair lock, while an earlier call was answered":  {earlier("fair", 500*ms, unavailable), ""},
		"contention at a fair lock, while an earlier call was answered": {earlier("fair", 500*ms, rlock.ErrNotAcquired), "told contention about fair, instead of outage"},
		"a cancellation that forgets a failure": {func(r *run, a, _ *worker) {
			x := tries(r, a, "fair")
			hears(a, subject{0, "fair"}, failed, ms)
			ctx, end := context.WithCancel(a.ctx)
			end()
			a.answered(ctx, x, ctx.Err())
		}, "told neither about fair, instead of outage"},
		"a cancellation that knows nothing": {func(r *run, a, _ *worker) {
			x := tries(r, a, "fair")
			hears(a, subject{0, "fair"}, nothing, ms)
			ctx, end := context.WithCancel(a.ctx)
			end()
			a.answered(ctx, x, ctx.Err())
		}, ""},
		"a cancellation after an outage, although nobody was asked": {func(r *run, a, _ *worker) {
			canceled(r, a, unavailable, 2*s)
		}, "told outage about fair, instead of neither"},
		"that on a cluster, of which no node has said where the lock is": {func(r *run, a, _ *worker) {
			r.Topology = topologyCluster
			canceled(r, a, unavailable, 2*s)
		}, ""},
		"that, before it took long": {func(r *run, a, _ *worker) {
			r.Topology = topologyCluster
			canceled(r, a, unavailable, ms)
		}, "told outage about fair, instead of neither"},
		"contention beside another call, which may have been refused": {func(r *run, a, _ *worker) {
			x := tries(r, a, "fair")
			tries(r, a, "fair")
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, ""},
		"contention during an unlock, which may give the lock to others": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1}, 0)
			a.leaves(h, nil)
			a.answered(a.ctx, tries(r, a, "fair"), rlock.ErrNotAcquired)
		}, ""},
		"contention of a group of which no member refused": {func(r *run, a, _ *worker) {
			x := tries(r, a, "a b")
			hears(a, subject{0, "a"}, failed, ms)
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, "about a b, of which no member has refused it"},
		"contention of a group of which one member refused": {func(r *run, a, _ *worker) {
			x := tries(r, a, "a b")
			hears(a, subject{0, "a"}, refused, ms)
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, ""},
		"contention because of a hold that is long over": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1, lease: s}, 0)
			h.deadline = time.Now().Add(s)
			x := tries(r, a, "fair")
			h.err = func() error { return errLost }
			time.Sleep(4 * s)
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, "because of a hold that was over 3s before"},
		"contention because of a hold that was over just before": {func(r *run, a, _ *worker) {
			h := enter(a, plan{of: find(r, "fair"), permits: 1, lease: s}, 0)
			h.deadline = time.Now().Add(s)
			x := tries(r, a, "fair")
			h.err = func() error { return errLost }
			time.Sleep(2 * s)
			a.answered(a.ctx, x, rlock.ErrNotAcquired)
		}, ""},
	})
}

// TestVerdictsOfRedLocksBite does so with a red lock, of which a member has little time to reply.
func TestVerdictsOfRedLocksBite(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	unavailable := fmt.Errorf("wrapped: %w", rlock.ErrUnavailable)
	// after has a worker try a red lock of three, whose members say this, each as the only thing, and returns an error then.
	after := func(err error, took time.Duration, heard ...told) func(r *run, a, b *worker) {
		return func(r *run, a, b *worker) {
			r.disturbed = time.Now().Add(time.Hour)
			own := a.clients
			a.clients = append(own[:1:1], b.clients[0], b.clients[0])
			defer func() { a.clients = own }()
			red := &target{kind: kindRed, name: "red"}
			x := a.asks(plan{of: red, permits: 1, wait: 10 * time.Second})
			for i, h := range heard {
				hears(a, subject{i, "red"}, h, took)
			}
			a.answered(a.ctx, x, err)
		}
	}
	bite(t, map[string]breach{
		"an outage that a majority refused":      {after(unavailable, ms, failed, refused, refused), "about red, which 2 of 3 members refuse"},
		"an outage that one refused":             {after(unavailable, ms, failed, failed, refused), ""},
		"an outage that a majority refused late": {after(unavailable, 50*ms, failed, refused, refused), ""},
		"an outage that a majority refused, which has given the lock since": {func(r *run, a, b *worker) {
			r.servers[0].Do("HSET", "red", b.clients[0].ID()+":1", "1")
			after(unavailable, ms, failed, refused, refused)(r, a, b)
		}, ""},
		"contention although a majority failed":    {after(rlock.ErrNotAcquired, ms, failed, failed, refused), "about red, of which 1 of 3 members refuse, and 2 fail"},
		"contention that a majority refused":       {after(rlock.ErrNotAcquired, ms, failed, refused, refused), ""},
		"contention of which no member spoke":      {after(rlock.ErrNotAcquired, ms, nothing, nothing, nothing), "about red, of which 0 of 3 members refuse, and 0 fail"},
		"contention of which a member spoke later": {after(rlock.ErrNotAcquired, 50*ms, refused, nothing, nothing), ""},
	})
}

// TestLeft checks that a refusal counts unless its caller had taken the question back before.
func TestLeft(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	refusal := question{sort: acquires, told: refused, sent: at(10), over: at(20)}
	release := func(ms int) question { return question{sort: releases, told: answered, sent: at(ms), over: at(ms + 1)} }
	require.True(t, left([]question{refusal, release(15)}))
	require.False(t, left([]question{refusal, release(25)}), "it was released later")
	require.False(t, left([]question{release(5), refusal}), "an earlier one was released")
	require.False(t, left([]question{refusal}))
	require.False(t, left([]question{refusal, release(15), {sort: acquires, told: refused, sent: at(30), over: at(31)}}), "it asked again")
	require.False(t, left(nil))
}
