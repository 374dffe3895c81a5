package trouble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest/host"
	"github.com/go-rlock/rlock/internal/testkit"
)

// This file has the steps of the walks of TestModel.

// walks returns how many there are for each lock and server.
func walks() int {
	if n, err := strconv.Atoi(os.Getenv("RLOCK_MODEL_ROUNDS")); err == nil {
		return n
	}
	if host.Virtual { // they cost only what the processor does
		return 40
	}
	return 8
}

func (w *walk) run(steps int) {
	w.Helper()
	expiries := 3 // each one takes time
	for range steps {
		switch n := w.random.IntN(20); {
		case n < 5:
			w.try(w.idleActor(), w.side())
		case n < 10:
			w.wait(w.newcomer(), w.side(), w.fair && w.random.IntN(12) == 0)
		case n < 11:
			w.waitInVain(w.newcomer(), w.side())
		case n < 15:
			w.release(w.holder(nil))
		case n < 16:
			w.downgrade()
		case n < 17:
			w.cancelWait()
		case n < 18:
			w.force()
		case expiries > 0:
			expiries--
			w.expire()
		}
		w.check()
	}
	for len(w.holding(nil))+len(w.waiters) > 0 {
		w.release(w.holder(nil))
		w.check()
	}
	testkit.Eventually(w, "nothing is left in Redis", func() bool {
		keys := w.rdb.Keys(w.Context(), "*"+w.name+"*").Val()
		if w.forced { // after a force unlock, the own key of a read hold stays until its lease ends
			keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":rwlock_timeout:1") })
		}
		return !testkit.LeftIn(w, w.rdb, keys)
	})
}

// try makes a single attempt and checks its result against the model.
func (w *walk) try(a *actor, side bool) {
	w.Helper()
	want := w.expected(a, side)
	e, err := w.take(a, side, w.random.IntN(2) == 0)
	w.Logf("%v tries %s: %v", w.describe(a), sideName(side), err)
	require.ErrorIs(w, err, want)
	if err == nil {
		a.open = append(a.open, e)
	}
}

// take makes a single attempt with one of the verbs. An owner that already holds the lock never waits, so it may also use a
// verb that waits.
func (w *walk) take(a *actor, side, byHold bool, opts ...rlock.AcquireOption) (*acquisition, error) {
	lock, ctx, e := w.lock(a.client, side), a.context(), &acquisition{side: side}
	byHold = byHold || a.plain
	if len(opts) == 0 && (!w.renewed || !byHold) {
		opts = append(opts, rlock.Lease(longLease))
	}
	if !byHold {
		e.unlock = func() error { return lock.Unlock(ctx) }
		ok, err := lock.TryLock(ctx, opts...)
		if err == nil && !ok {
			err = rlock.ErrNotAcquired
		}
		return e, err
	}
	if len(a.open) > 0 && w.random.IntN(2) == 0 {
		opts = append(opts, rlock.Wait(testkit.ALongTime))
	}
	hold, err := lock.TryAcquire(ctx, opts...)
	return e.by(hold), err
}

func (e *acquisition) by(hold *rlock.Hold) *acquisition {
	e.hold = hold
	e.unlock = func() error { return hold.Unlock(context.Background()) }
	hold.Done() // a loss of a watched hold is not logged
	return e
}

// context returns the context to lock with. The context of a hold ends with the hold, so its values are used without its end.
func (a *actor) context() context.Context {
	if a.plain && len(a.open) > 0 {
		return context.WithoutCancel(a.open[0].hold.Context())
	}
	return a.ctx
}

// wait starts a waiter and returns when it is in the queue, unless it gets the lock at once. That of a fair lock must be reached
// by messages, too, or else a later one may have its turn before it.
func (w *walk) wait(a *actor, side, short bool) {
	w.Helper()
	ctx, cancel := context.WithCancel(a.ctx)
	me := &waiter{actor: a, side: side, short: short, cancel: cancel}
	w.waiters = append(w.waiters, me)
	a.waits = true
	w.Logf("%v waits for %s, short: %v", w.describe(a), sideName(side), short)
	lock := w.lock(a.client, side)
	var opts []rlock.AcquireOption
	if short {
		opts = append(opts, rlock.Lease(shortLease))
	} else if !w.renewed {
		opts = append(opts, rlock.Lease(longLease))
	}
	go func() {
		hold, err := lock.Acquire(ctx, opts...)
		w.events <- event{me, hold, err, time.Now()}
	}()
	if w.grantable(me) {
		return
	}
	testkit.Eventually(w, "the waiter is in the queue", func() bool {
		if w.fair { // others may have got the lock meanwhile, which says nothing about this one
			queue := w.rdb.LRange(w.Context(), testkit.Keys(lock)[1], 0, -1).Val()
			ended := len(w.events) + len(w.unexplained)
			return len(queue)+ended == len(w.waiters) && !slices.ContainsFunc(queue, func(seat string) bool { return !w.hears(lock, seat) })
		}
		return len(w.events) > 0 || testkit.Waiting(lock) == len(w.queue(a.client))
	})
}

// hears reports whether somebody listens to the channel of a waiter in the queue of a fair lock.
func (w *walk) hears(lock *rlock.Lock, seat string) bool {
	channel := testkit.Channel(lock) + ":" + seat
	return w.rdb.PubSubNumSub(w.Context(), channel).Val()[channel] > 0
}

// waitInVain waits for a moment for a lock that it cannot get. It does nothing if the lock may be free.
func (w *walk) waitInVain(a *actor, side bool) {
	w.Helper()
	if !w.excluded(a, side) && len(w.queue(a.client)) == 0 {
		return
	}
	w.Logf("%v waits for %s in vain", w.describe(a), sideName(side))
	ok, err := w.lock(a.client, side).TryLock(a.ctx, rlock.Wait(10*time.Millisecond))
	require.NoError(w, err)
	require.False(w, ok)
}

// release unlocks one acquisition of an owner. When a fair lock becomes free, newcomers may try to overtake its waiters.
func (w *walk) release(a *actor) {
	w.Helper()
	if w.unlock(a); !w.fair || len(w.waiters) == 0 || len(w.holding(nil)) > 0 {
		return
	}
	switch w.random.IntN(3) {
	case 0:
		w.try(w.stranger(), writing)
	case 1:
		w.wait(w.newcomer(), writing, false)
	}
}

func (w *walk) unlock(a *actor) {
	w.Helper()
	if a == nil {
		return
	}
	i := len(a.open) - 1
	if !a.plain { // an owner unlocks in any order
		i = w.random.IntN(len(a.open))
	}
	w.Logf("%v unlocks %s", w.describe(a), sideName(a.open[i].side))
	require.NoError(w, a.open[i].unlock())
	a.open = slices.Delete(a.open, i, i+1)
}

// downgrade lets a writer take the read lock and then release the write lock, while others wait.
func (w *walk) downgrade() {
	w.Helper()
	a := w.holder(func(a *actor) bool { return !a.plain && a.count(writing) > 0 })
	if a == nil || w.fair {
		return
	}
	w.try(a, reading)
	for range w.random.IntN(3) {
		w.wait(w.newcomer(), w.random.IntN(3) == 0, false)
	}
	for a.count(writing) > 0 {
		i := slices.IndexFunc(a.open, func(e *acquisition) bool { return e.side == writing })
		w.Logf("%v unlocks write", w.describe(a))
		require.NoError(w, a.open[i].unlock())
		a.open = slices.Delete(a.open, i, i+1)
	}
}

// cancelWait cancels a wait, sometimes while the lock becomes free. In that race either the waiter gets the lock, or the next one
// does.
func (w *walk) cancelWait() {
	w.Helper()
	if len(w.waiters) == 0 {
		return
	}
	i := w.random.IntN(len(w.waiters)) * w.random.IntN(2)
	gone := w.waiters[i]
	w.Logf("%v cancels its wait", w.describe(gone.actor))
	gone.cancel()
	if w.random.IntN(2) == 0 {
		for a := w.holder(nil); a != nil && len(a.open) > 0; {
			w.unlock(a)
		}
	}
	e := testkit.Within(w, "the wait ends", w.events)
	for ; e.waiter != gone; e = testkit.Within(w, "the wait ends", w.events) {
		w.unexplained = append(w.unexplained, e) // other waiters got the lock first
	}
	if e.err == nil { // it got the lock before the cancellation
		w.unexplained = append(w.unexplained, e)
		return
	}
	require.ErrorIs(w, e.err, context.Canceled)
	// It may stand in Redis's queue although it has had no reply yet. Then its cancellation says nothing about the lock.
	require.NotErrorIs(w, e.err, rlock.ErrUnavailable)
	w.waiters = slices.Delete(w.waiters, i, i+1)
	gone.actor.waits = false
}

// force calls ForceUnlock on a client without waiters, because a grant in flight on the same client may end too.
func (w *walk) force() {
	w.Helper()
	c := w.newClient()
	if mine := w.clients[w.random.IntN(3)]; len(w.queue(mine)) == 0 {
		c = mine
	}
	side := w.side()
	freed, err := w.lock(c, side).ForceUnlock(w.Context())
	w.Logf("force unlock of %s: %v", sideName(side), freed)
	require.NoError(w, err)
	require.Equal(w, w.freedBy(side), freed)
	if !freed {
		return
	}
	w.forced = true
	for _, a := range w.holding(nil) {
		for _, e := range a.open {
			w.losses = append(w.losses, lostAcquisition{a, e})
		}
		w.reportLosses()
		a.open = nil
	}
}

// expire takes the lock with a short lease, lets others wait and unlock meanwhile, and lets the lease expire. The holder either
// lives on or dies. Nobody announces the release of a dead holder.
func (w *walk) expire() {
	w.Helper()
	a, side, dies := w.newcomer(), w.side(), w.random.IntN(2) == 0
	if dies {
		a = w.stranger()
		a.client = w.newClient()
	}
	if w.expected(a, side) != nil {
		w.try(a, side)
		return
	}
	e, err := w.take(a, side, true, rlock.Lease(shortLease))
	w.Logf("%v tries %s with a short lease, dies: %v, %v", w.describe(a), sideName(side), dies, err)
	if errors.Is(err, rlock.ErrUnavailable) {
		return // the reply came when most of the lease was over, so the hold was given back
	}
	require.NoError(w, err)
	a.open = append(a.open, e)
	if side == writing && !w.fair && !dies && w.random.IntN(3) == 0 {
		own, err := w.take(a, reading, true)
		if err == nil {
			w.Logf("it reads too")
			a.open = append(a.open, own)
		} else {
			require.ErrorIs(w, e.hold.Err(), rlock.ErrLost, "a writer may read unless it has lost its lock: %v", err)
		}
	}
	others := func(b *actor) bool { return b != a }
	for range w.random.IntN(6) {
		if e.hold.Err() != nil || len(w.unexplained)+len(w.events) > 0 {
			break
		}
		if w.random.IntN(2) == 0 {
			w.wait(w.newcomer(), w.side(), false)
		} else {
			w.unlock(w.holder(others))
		}
		w.settle(e.hold.Done())
	}
	if dies {
		w.forbidGrants(e)
		require.NoError(w, a.client.Close())
		w.dead = append(w.dead, a.client.ID())
		w.drop(a, e)
		return
	}
	w.awaitExpiry(a, e)
}

// awaitExpiry waits until the lease of a hold has expired.
func (w *walk) awaitExpiry(a *actor, e *acquisition) {
	w.Helper()
	testkit.Within(w, "the hold ends", e.hold.Done())
	require.ErrorIs(w, e.hold.Err(), rlock.ErrLost)
	w.forbidGrants(e)
	w.drop(a, e)
	w.losses = append(w.losses, lostAcquisition{a, e})
}

// forbidGrants forbids grants before the lease of a hold ends, if the hold excludes all waiters.
func (w *walk) forbidGrants(e *acquisition) {
	if !slices.ContainsFunc(w.waiters, w.grantable) {
		w.notBefore = e.hold.Deadline()
	}
}

func (w *walk) drop(a *actor, e *acquisition) {
	a.open = slices.DeleteFunc(a.open, func(f *acquisition) bool { return f == e })
}

func (w *walk) describe(a *actor) string {
	name := fmt.Sprintf("%p", a)
	return fmt.Sprintf("%s of %.4s, plain: %v,", name[max(0, len(name)-5):], a.client.ID(), a.plain)
}

func sideName(side bool) string {
	if side == writing {
		return "write"
	}
	return "read"
}

// queue returns the queue of a client's waiters.
func (w *walk) queue(c *rlock.Client) (all []*waiter) {
	for _, waiter := range w.waiters {
		if w.fair || waiter.actor.client == c {
			all = append(all, waiter)
		}
	}
	return all
}
