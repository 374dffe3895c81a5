package scene

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock"
)

// private is something that only one worker uses, while no fault strikes: each answer is known.
type private struct {
	*worker

	name string
}

// ownUse is how many locks or calls a worker has with what is its own, for the gauges.
const ownUse = 2

// private uses something that is its own.
func (w *worker) private() {
	if w.faulty() || len(w.Nemeses) > 0 || w.Panics || w.Unsafe || w.MaxHold > 0 {
		return
	}
	w.mu.Lock()
	w.owns++
	p := private{w, fmt.Sprintf("own-%v-%d", w.process, w.owns)}
	w.mu.Unlock()
	w.occupied(w.process, ownUse)
	defer w.occupied(w.process, -ownUse)
	switch w.random.IntN(4) {
	case 0:
		p.semaphore()
	case 1:
		p.plainSemaphore()
	case 2:
		p.latch()
	case 3:
		p.lock()
	}
}

// is checks an answer. Of an error, it is enough that it matches.
func (p private) is(what string, got, want any) {
	wrong := got != want
	if err, ok := want.(error); ok {
		is, _ := got.(error)
		wrong = !errors.Is(is, err)
	}
	if wrong && p.ctx.Err() == nil && !p.isOver() {
		p.note("own: %s of %s, which nobody else uses, says %v instead of %v", what, p.name, got, want)
	}
}

// ok checks that there was no error, and passes the answer on.
func ok[T any](p private, what string) func(got T, err error) T {
	return func(got T, err error) T {
		if err != nil {
			p.is(what, err, nil)
		}
		return got
	}
}

// errorOf is the error of a call that should fail, so that it has no result to keep.
func errorOf[T any](_ T, err error) error { return err }

func (p private) semaphore() {
	ctx, s := context.Background(), p.clients[0].NewSemaphore(p.name)
	defer func() { _, _ = s.Delete(ctx) }()
	p.is("Delete", ok[bool](p, "Delete")(s.Delete(ctx)), false)
	p.is("TryAcquire", errorOf(s.TryAcquire(ctx)), rlock.ErrNoPermits)
	p.is("TrySetPermits", ok[bool](p, "TrySetPermits")(p.clients[0].NewSemaphore(p.name, rlock.ExpireAfter(time.Minute)).TrySetPermits(ctx, 2)), true)
	p.is("TrySetPermits", ok[bool](p, "TrySetPermits")(s.TrySetPermits(ctx, 3)), false)
	p.is("Permits", ok[int](p, "Permits")(s.Permits(ctx)), 2)
	p.is("SetPermits", s.SetPermits(ctx, 3), nil)
	p.is("AddPermits", s.AddPermits(ctx, 1), nil)
	hold, err := s.TryAcquire(ctx, rlock.Permits(3))
	if err != nil {
		p.is("Acquire", err, nil)
		return
	}
	p.is("AvailablePermits", ok[int](p, "AvailablePermits")(s.AvailablePermits(ctx)), 1)
	ids := hold.PermitIDs()
	p.is("Release", s.Release(ctx, ids[:2]...), nil)
	p.is("Release of what is free", s.Release(ctx, ids[1]), rlock.ErrNotHeld)
	p.is("Release of one twice", s.Release(ctx, ids[2], ids[2]), rlock.ErrInvalidOption)
	p.is("AvailablePermits", ok[int](p, "AvailablePermits")(s.AvailablePermits(ctx)), 3)
	p.is("Unlock of what is not held whole", hold.Unlock(ctx), rlock.ErrLost)
	p.is("Delete", ok[bool](p, "Delete")(s.Delete(ctx)), true)
}

func (p private) plainSemaphore() {
	ctx, s := context.Background(), p.clients[0].NewPlainSemaphore(p.name)
	defer func() { _, _ = s.Delete(ctx) }()
	p.is("TrySetPermits", ok[bool](p, "TrySetPermits")(s.TrySetPermits(ctx, 2)), true)
	p.is("TrySetPermits", ok[bool](p, "TrySetPermits")(s.TrySetPermits(ctx, 3)), false)
	p.is("DrainPermits", ok[int](p, "DrainPermits")(s.DrainPermits(ctx)), 2)
	p.is("TryAcquire", ok[bool](p, "TryAcquire")(s.TryAcquire(ctx)), false)
	p.is("Release", s.Release(ctx, 2), nil)
	p.is("AddPermits", s.AddPermits(ctx, 1), nil)
	p.is("TryAcquire", ok[bool](p, "TryAcquire")(s.TryAcquire(ctx, rlock.Permits(2))), true)
	p.is("AvailablePermits", ok[int](p, "AvailablePermits")(s.AvailablePermits(ctx)), 1)
	p.is("Release", s.Release(ctx, 2), nil)
	p.is("AvailablePermits", ok[int](p, "AvailablePermits")(s.AvailablePermits(ctx)), 3)
	p.is("Delete", ok[bool](p, "Delete")(s.Delete(ctx)), true)
}

func (p private) latch() {
	ctx, l := context.Background(), p.clients[0].NewCountDownLatch(p.name)
	defer func() { _, _ = l.Delete(ctx) }()
	p.is("Await before it is set", l.Await(ctx, rlock.Wait(0)), nil)
	p.is("TrySetCount", ok[bool](p, "TrySetCount")(l.TrySetCount(ctx, 2)), true)
	p.is("TrySetCount", ok[bool](p, "TrySetCount")(l.TrySetCount(ctx, 3)), false)
	p.is("Await", l.Await(ctx, rlock.Wait(0)), rlock.ErrNotAcquired)
	began := time.Now()
	p.is("Await", l.Await(ctx, rlock.Wait(time.Second)), rlock.ErrNotAcquired)
	if took := time.Since(began); took < time.Second || took > time.Second+p.slack() {
		p.is("Await", took, time.Second)
	}
	p.is("CountDown", ok[int64](p, "CountDown")(l.CountDown(ctx)), int64(1))
	p.is("Count", ok[int64](p, "Count")(l.Count(ctx)), int64(1))
	opened := make(chan error, 1)
	p.workers.Go(func() { opened <- l.Await(ctx, rlock.Wait(10*time.Second)) })
	time.Sleep(p.upTo(time.Second))
	if p.one(2) {
		p.is("CountDown", ok[int64](p, "CountDown")(l.CountDown(ctx)), int64(0))
	} else {
		p.is("Delete", ok[bool](p, "Delete")(l.Delete(ctx)), true)
	}
	p.is("Await of what has opened", <-opened, nil)
	p.is("Count", ok[int64](p, "Count")(l.Count(ctx)), int64(0))
	p.is("Delete", ok[bool](p, "Delete")(l.Delete(ctx)), false)
}

func (p private) lock() {
	ctx, l := context.Background(), p.clients[0].NewLock(p.name)
	p.is("IsLocked", ok[bool](p, "IsLocked")(l.IsLocked(ctx)), false)
	p.is("Unlock of what nobody has locked", l.Unlock(ctx), rlock.ErrNotHeld)
	p.is("ForceUnlock", ok[bool](p, "ForceUnlock")(l.ForceUnlock(ctx)), false)
	hold, err := l.TryAcquire(ctx)
	if err != nil {
		p.is("Acquire", err, nil)
		return
	}
	latch := p.clients[0].NewCountDownLatch(p.name) // whose key has another type
	for _, a := range []answer{{"Count", second(latch.Count(ctx))}, {"Await", latch.Await(ctx)}, {"CountDown", second(latch.CountDown(ctx))}} {
		if a.err == nil || errors.Is(a.err, rlock.ErrNotAcquired) || errors.Is(a.err, rlock.ErrUnavailable) {
			p.is(a.of+" of a latch that is a lock", a.err, "an error of Redis")
		}
	}
	p.is("Err beside a latch", hold.Err(), nil)
	p.is("Unlock of what a hold has", l.Unlock(hold.Context()), rlock.ErrNotHeld)
	p.is("ForceUnlockFrom of another", ok[bool](p, "ForceUnlockFrom")(l.ForceUnlockFrom(ctx, "x:1")), false)
	info := ok[rlock.LockInfo](p, "Inspect")(l.Inspect(ctx))
	if p.is("holders", len(info.Holders), 1); len(info.Holders) != 1 {
		return
	}
	p.is("Own", info.Holders[0].Own, true)
	p.is("ForceUnlockFrom", ok[bool](p, "ForceUnlockFrom")(l.ForceUnlockFrom(ctx, info.Holders[0].Holder)), true)
	p.is("Unlock of what was unlocked by force", hold.Unlock(ctx), rlock.ErrLost)
	p.is("IsLocked", ok[bool](p, "IsLocked")(l.IsLocked(ctx)), false)
}
