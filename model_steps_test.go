package rlock_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// What may happen in the walks of TestModel.

func (w *walk) run(steps int) {
	w.Helper()
	lapses := 3 // they take time
	for range steps {
		switch n := w.random.IntN(20); {
		case n < 5:
			w.try(w.somebody(), w.side())
		case n < 10:
			w.wait(w.newcomer(), w.side(), w.fair && w.random.IntN(12) == 0)
		case n < 11:
			w.waitInVain(w.newcomer(), w.side())
		case n < 15:
			w.release(w.holder(nil))
		case n < 16:
			w.downgrade()
		case n < 17:
			w.giveUp()
		case n < 18:
			w.force()
		case lapses > 0:
			lapses--
			w.lapse()
		}
		w.check()
	}
	for len(w.holding(nil))+len(w.waiters) > 0 {
		w.release(w.holder(nil))
		w.check()
	}
	eventually(w, "nothing is left in Redis", func() bool {
		keys := w.rdb.Keys(w.Context(), "*"+w.name+"*").Val()
		if w.forced { // the own key of a read hold that others ended by force lives out its lease
			keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":rwlock_timeout:1") })
		}
		return !leftIn(w, w.rdb, keys)
	})
}

// try asks once, and after that goes on as if nothing had happened, or holds the lock.
func (w *walk) try(a *actor, side bool) {
	w.Helper()
	want := w.answer(a, side)
	e, err := w.take(a, side, w.random.IntN(2) == 0)
	w.Logf("%v asks for %s: %v", w.who(a), sideName(side), err)
	require.ErrorIs(w, err, want)
	if err == nil {
		a.open = append(a.open, e)
	}
}

// take asks once, by one of the verbs. An owner who holds anything of the name never waits, so it may be ready to.
func (w *walk) take(a *actor, side, byHold bool, opts ...rlock.AcquireOption) (*entry, error) {
	lock, ctx, e := w.lock(a.client, side), a.context(), &entry{side: side}
	byHold = byHold || a.plain
	if len(opts) == 0 && (!w.renewed || !byHold) {
		opts = append(opts, rlock.Lease(forGood))
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
		opts = append(opts, rlock.Wait(aLongTime))
	}
	hold, err := lock.TryAcquire(ctx, opts...)
	return e.by(hold), err
}

func (e *entry) by(hold *rlock.Hold) *entry {
	e.hold = hold
	e.unlock = func() error { return hold.Unlock(context.Background()) }
	hold.Done() // watched: nothing need be logged when it is lost
	return e
}

// context is the one to lock with. One of a hold ends with it, but goes on to tell who asks.
func (a *actor) context() context.Context {
	if a.plain && len(a.open) > 0 {
		return context.WithoutCancel(a.open[0].hold.Context())
	}
	return a.ctx
}

// wait starts to wait, and goes on when the waiter has its place.
func (w *walk) wait(a *actor, side, short bool) {
	w.Helper()
	ctx, cancel := context.WithCancel(a.ctx)
	me := &waiter{actor: a, side: side, short: short, cancel: cancel}
	w.waiters = append(w.waiters, me)
	a.waits = true
	w.Logf("%v waits for %s, short: %v", w.who(a), sideName(side), short)
	lock := w.lock(a.client, side)
	var opts []rlock.AcquireOption
	if short {
		opts = append(opts, rlock.Lease(shortLease))
	} else if !w.renewed {
		opts = append(opts, rlock.Lease(forGood))
	}
	go func() {
		hold, err := lock.Acquire(ctx, opts...)
		w.events <- event{me, hold, err, time.Now()}
	}()
	if w.grantable(me) {
		return
	}
	eventually(w, "the waiter has its place", func() bool {
		if w.fair {
			return len(w.events) > 0 || w.rdb.LLen(w.Context(), lock.Keys()[1]).Val() == int64(len(w.waiters))
		}
		return len(w.events) > 0 || lock.Waiting() == len(w.line(a.client))
	})
}

// waitInVain waits for a moment, if that is in vain.
func (w *walk) waitInVain(a *actor, side bool) {
	w.Helper()
	if !w.keptOut(a, side) && len(w.line(a.client)) == 0 {
		return
	}
	w.Logf("%v waits for %s in vain", w.who(a), sideName(side))
	ok, err := w.lock(a.client, side).TryLock(a.ctx, rlock.Wait(10*time.Millisecond))
	require.NoError(w, err)
	require.False(w, ok)
}

// release unlocks one entry of an owner. Behind the last one of a fair lock newcomers try to be quicker than who waits.
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
	if !a.plain { // in any order
		i = w.random.IntN(len(a.open))
	}
	w.Logf("%v unlocks %s", w.who(a), sideName(a.open[i].side))
	require.NoError(w, a.open[i].unlock())
	a.open = slices.Delete(a.open, i, i+1)
}

// downgrade lets a writer read, and others wait for that, before it gives up the write lock alone.
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
		i := slices.IndexFunc(a.open, func(e *entry) bool { return e.side == writing })
		w.Logf("%v unlocks write", w.who(a))
		require.NoError(w, a.open[i].unlock())
		a.open = slices.Delete(a.open, i, i+1)
	}
}

// giveUp ends a wait by its context, perhaps while the lock becomes free: then the next one gets it, whichever of the
// two Redis hears of first.
func (w *walk) giveUp() {
	w.Helper()
	if len(w.waiters) == 0 {
		return
	}
	i := w.random.IntN(len(w.waiters)) * w.random.IntN(2)
	gone := w.waiters[i]
	w.Logf("%v gives up", w.who(gone.actor))
	gone.cancel()
	if w.random.IntN(2) == 0 {
		for a := w.holder(nil); a != nil && len(a.open) > 0; {
			w.unlock(a)
		}
	}
	e := within(w, "the wait ends", w.events)
	for ; e.waiter != gone; e = within(w, "the wait ends", w.events) {
		w.came = append(w.came, e) // quicker, because now it is their turn
	}
	if e.err == nil { // quicker himself
		w.came = append(w.came, e)
		return
	}
	require.ErrorIs(w, e.err, rlock.ErrNotAcquired)
	require.ErrorIs(w, e.err, context.Canceled)
	w.waiters = slices.Delete(w.waiters, i, i+1)
	gone.actor.waits = false
}

// force unlocks by force, from a client where nobody waits: what is granted there at that moment may end as well.
func (w *walk) force() {
	w.Helper()
	c := w.newClient()
	if mine := w.clients[w.random.IntN(3)]; len(w.line(mine)) == 0 {
		c = mine
	}
	side := w.side()
	freed, err := w.lock(c, side).ForceUnlock(w.Context())
	w.Logf("%s is unlocked by force: %v", sideName(side), freed)
	require.NoError(w, err)
	require.Equal(w, w.freedBy(side), freed)
	if !freed {
		return
	}
	w.forced = true
	for _, a := range w.holding(nil) {
		for _, e := range a.open {
			w.late = append(w.late, lapsed{a, e})
		}
		w.hear()
		a.open = nil
	}
}

// lapse takes the lock for a moment, lets others wait and unlock meanwhile, and lets the lease run out, of a process
// that goes on or of one that dies, whose end nobody announces.
func (w *walk) lapse() {
	w.Helper()
	a, side, dies := w.newcomer(), w.side(), w.random.IntN(2) == 0
	if dies {
		a = w.stranger()
		a.client = w.newClient()
	}
	if w.answer(a, side) != nil {
		w.try(a, side)
		return
	}
	e, err := w.take(a, side, true, rlock.Lease(shortLease))
	w.Logf("%v asks for %s for a moment, dies: %v", w.who(a), sideName(side), dies)
	require.NoError(w, err)
	a.open = append(a.open, e)
	if side == writing && !w.fair && !dies && w.random.IntN(3) == 0 {
		own, err := w.take(a, reading, true)
		if err == nil {
			w.Logf("and reads")
			a.open = append(a.open, own)
		} else {
			require.ErrorIs(w, e.hold.Err(), rlock.ErrLost, "a writer may read: %v", err)
		}
	}
	others := func(b *actor) bool { return b != a }
	for range w.random.IntN(6) {
		if e.hold.Err() != nil || len(w.came)+len(w.events) > 0 {
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
		w.bar(e)
		require.NoError(w, a.client.Close())
		w.dead = append(w.dead, a.client.ID())
		w.drop(a, e)
		return
	}
	w.lapses(a, e)
}

// lapses waits until the lease of a hold has run out.
func (w *walk) lapses(a *actor, e *entry) {
	w.Helper()
	within(w, "the hold is over", e.hold.Done())
	require.ErrorIs(w, e.hold.Err(), rlock.ErrLost)
	w.bar(e)
	w.drop(a, e)
	w.late = append(w.late, lapsed{a, e})
}

// bar has nobody get in before the lease of a hold is over, if all who wait are kept out.
func (w *walk) bar(e *entry) {
	if !slices.ContainsFunc(w.waiters, w.grantable) {
		w.since = e.hold.Deadline()
	}
}

func (w *walk) drop(a *actor, e *entry) {
	a.open = slices.DeleteFunc(a.open, func(f *entry) bool { return f == e })
}
