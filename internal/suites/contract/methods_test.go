package contract

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/wire"
)

// locks lists the kinds of locks, in the order of the page. The groups come last.
var locks = []string{"lock", "fenced", "fair", "read", "write", "spin", "multi", "red"}

// The kinds that are no locks.
const (
	semaphore      = "semaphore"
	plainSemaphore = "plain semaphore"
	latch          = "latch"
)

// kinds lists all kinds, in the order of the page.
var kinds = append(slices.Clone(locks), semaphore, plainSemaphore, latch)

// handleOf returns a handle of a kind. A semaphore has one permit, and its handle sets it up before its first acquisition.
func handleOf(kind string, client *rlock.Client, name string) any {
	switch kind {
	case semaphore:
		return client.NewSemaphore(name, rlock.Total(1))
	case plainSemaphore:
		return client.NewPlainSemaphore(name, rlock.Total(1))
	case latch:
		return client.NewCountDownLatch(name)
	}
	return testkit.Kinds[kind].Make(client, name)
}

// nameOf returns the nth name. All of them are in the slot of "{orders}". In a cluster, a latch cannot have braces in its name.
func nameOf(kind string, n int) string {
	if kind == latch {
		return latchNames()[n%len(latchNames())]
	}
	return fmt.Sprintf("{orders}:%d", n)
}

// latchNames returns more names than there are latches under one fault.
var latchNames = sync.OnceValue(func() (names []string) {
	for i := 0; len(names) < 40; i++ {
		if name := fmt.Sprintf("orders:%d", i); wire.Slot(name) == wire.Slot("orders") {
			names = append(names, name)
		}
	}
	return names
})

// permits is what both kinds of semaphores have.
type permits interface {
	AvailablePermits(ctx context.Context) (int, error)
	AddPermits(ctx context.Context, more int) error
}

// deleter is what semaphores and latches have.
type deleter interface {
	Delete(ctx context.Context) (bool, error)
}

// call is what a case calls: the handle, and the hold if the method needs one that was acquired before the fault.
type call struct {
	handle any
	hold   *rlock.Hold
}

// method is a method of a handle or of a hold.
type method struct {
	name     string
	acquires bool
	held     bool // it is acquired before the fault
	single   bool // groups do not have it
	unlocks  bool // the end of its context does not end it, because a lock must not stay taken

	runner
}

// runner runs a method of the handles that have it.
type runner struct {
	fits func(handle any) bool
	run  func(context.Context, call, []rlock.AcquireOption) (result string, err error)
}

// of makes a runner of a method of the handles that are a T.
func of[T any](run func(context.Context, T, []rlock.AcquireOption) (string, error)) runner {
	return runner{
		fits: func(handle any) bool { _, ok := handle.(T); return ok },
		run: func(ctx context.Context, c call, opts []rlock.AcquireOption) (string, error) {
			return run(ctx, c.handle.(T), opts)
		},
	}
}

// ofHold makes a runner of a method of holds.
func ofHold(fits func(handle any) bool, run func(context.Context, *rlock.Hold) error) runner {
	return runner{fits: fits, run: func(ctx context.Context, c call, _ []rlock.AcquireOption) (string, error) {
		return "", run(ctx, c.hold)
	}}
}

// result makes what a runner returns of what a method returned.
func result[V any](v V, err error) (string, error) { return fmt.Sprint(v), err }

func acquires(handle any) bool { _, ok := handle.(handles.Any); return ok }

var methods = []method{
	{name: "Lock", acquires: true, runner: of(func(ctx context.Context, l *rlock.Lock, opts []rlock.AcquireOption) (string, error) {
		return "", l.Lock(ctx, opts...)
	})},
	{name: "Acquire", acquires: true, runner: of(func(ctx context.Context, a handles.Any, opts []rlock.AcquireOption) (string, error) {
		return "", testkit.Second(a.Acquire(ctx, opts...))
	})},
	{name: "Do", acquires: true, runner: of(func(ctx context.Context, a handles.Any, opts []rlock.AcquireOption) (string, error) {
		return "", a.Do(ctx, func(context.Context) error { return nil }, opts...)
	})},
	{name: "TryLock", acquires: true, runner: of(func(ctx context.Context, l *rlock.Lock, opts []rlock.AcquireOption) (string, error) {
		return result(l.TryLock(ctx, opts...))
	})},
	{name: "TryAcquire", acquires: true, runner: of(func(ctx context.Context, a handles.Any, opts []rlock.AcquireOption) (string, error) {
		return "", testkit.Second(a.TryAcquire(ctx, opts...))
	})},
	{name: "Acquire", acquires: true, runner: of(func(ctx context.Context, s *rlock.PlainSemaphore, opts []rlock.AcquireOption) (string, error) {
		return "", s.Acquire(ctx, opts...)
	})},
	{name: "TryAcquire", acquires: true, runner: of(func(ctx context.Context, s *rlock.PlainSemaphore, opts []rlock.AcquireOption) (string, error) {
		return result(s.TryAcquire(ctx, opts...))
	})},
	{name: "Await", acquires: true, runner: of(func(ctx context.Context, l *rlock.CountDownLatch, opts []rlock.AcquireOption) (string, error) {
		return "", l.Await(ctx, opts...)
	})},
	{name: "Unlock", held: true, unlocks: true, runner: of(func(ctx context.Context, l *rlock.Lock, _ []rlock.AcquireOption) (string, error) {
		return "", l.Unlock(ctx)
	})},
	{name: "Hold.Unlock", held: true, unlocks: true, runner: ofHold(acquires, func(ctx context.Context, h *rlock.Hold) error {
		return h.Unlock(ctx)
	})},
	{name: "Hold.Extend", held: true, runner: ofHold(acquires, func(ctx context.Context, h *rlock.Hold) error {
		return h.Extend(ctx, time.Minute)
	})},
	{name: "IsLocked", single: true, runner: of(func(ctx context.Context, l *rlock.Lock, _ []rlock.AcquireOption) (string, error) {
		return result(l.IsLocked(ctx))
	})},
	{name: "ForceUnlock", single: true, held: true, runner: of(func(ctx context.Context, l *rlock.Lock, _ []rlock.AcquireOption) (string, error) {
		return result(l.ForceUnlock(ctx))
	})},
	{name: "AvailablePermits", runner: of(func(ctx context.Context, p permits, _ []rlock.AcquireOption) (string, error) {
		return result(p.AvailablePermits(ctx))
	})},
	{name: "AddPermits", runner: of(func(ctx context.Context, p permits, _ []rlock.AcquireOption) (string, error) {
		return "", p.AddPermits(ctx, 1)
	})},
	{name: "Count", runner: of(func(ctx context.Context, l *rlock.CountDownLatch, _ []rlock.AcquireOption) (string, error) {
		return result(l.Count(ctx))
	})},
	{name: "CountDown", runner: of(func(ctx context.Context, l *rlock.CountDownLatch, _ []rlock.AcquireOption) (string, error) {
		return result(l.CountDown(ctx))
	})},
	{name: "TrySetCount", runner: of(func(ctx context.Context, l *rlock.CountDownLatch, _ []rlock.AcquireOption) (string, error) {
		return result(l.TrySetCount(ctx, 1))
	})},
	{name: "Delete", held: true, runner: of(func(ctx context.Context, d deleter, _ []rlock.AcquireOption) (string, error) {
		return result(d.Delete(ctx))
	})},
}
