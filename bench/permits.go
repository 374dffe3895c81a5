package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"github.com/go-rlock/rlock"
)

// permits returns the scenarios with semaphores. The peers have a lock for each permit, which is how their users do it.
func permits() []scenario {
	const total = 8
	only := []string{floor, "rlock", onRueidis, rlockPlain, "bsm/redislock", "redsync"}
	raw := []string{"floor-rueidis", "layout", "layout-rueidis"} // a recorded command of rlock expires
	loops := Cell{Permits: total, Goroutines: 128, Poll: 5 * time.Millisecond, Warmup: 300 * time.Millisecond, Measure: 1200 * time.Millisecond}
	held := loops
	held.Hold = time.Millisecond
	return []scenario{
		{
			id: "S13", title: "An uncontended permit", rounds: steady, fine: true, pinned: true, only: slices.Concat(only, raw),
			how: "One goroutine acquires and releases a permit of a semaphore of 8. rlock is NewSemaphore, whose permits have leases; " +
				rlockPlain + " is NewPlainSemaphore. The floor is a raw pair of scripts that count; the layout and the checks are those of " +
				"NewSemaphore. The other libraries have no semaphore: " +
				"theirs is a lock for each permit, tried from a random one on.",
			head: mLatency, lowIsGood: true, columns: []string{mLatency99, mAllocs, mCommands, mScriptCPU, mCPU},
			sizes: []size{{id: "one caller", cell: pairOf(Cell{Permits: total})}},
		},
		{
			id: "S14", title: "8 permits and 128 goroutines", rounds: rounds, only: only,
			how: "All goroutines of a process acquire a permit, hold it, and release it. The floor is one goroutine alone. Without a semaphore " +
				"of their own, the other libraries poll every 5 ms. More inside than there are permits would be an error.",
			head: mPairs, columns: []string{mLatency99, mCommands},
			sizes: []size{{id: "128 × 0s", cell: loops}, {id: "128 × 1ms", cell: held, rounds: steady}},
		},
	}
}

const rlockPlain = "rlock-plain"

var errOverbooked = errors.New("BROKEN: more were inside than there are permits")

// share acquires and releases permits of a semaphore that all goroutines share. The latency is that of the whole turn.
func (l *loop) share(ctx context.Context, a *arena, h Handle, c *Cell, inside *atomic.Int64) {
	l.waits = Waits{}
	release := context.WithoutCancel(ctx)
	for {
		phase := a.phase.Load()
		if phase == phaseOver {
			return
		}
		start := time.Now()
		if err := h.Lock(ctx); err != nil {
			if l.left = ctx.Err() != nil; !l.left {
				l.err = err
			}
			return
		}
		if inside.Add(1) > int64(c.Permits) {
			l.err = errOverbooked
		}
		if c.Hold > 0 {
			time.Sleep(c.Hold)
		}
		inside.Add(-1)
		if err := h.Unlock(release); err != nil || l.err != nil {
			l.err = errors.Join(l.err, err)
			return
		}
		if phase == phaseCount {
			l.pairs++
			l.waits.add(time.Since(start))
		}
	}
}

// openRlockPlain opens rlock with the defaults, for plain semaphores.
func openRlockPlain(c Cell) (Library, error) {
	lib, err := openRlock()(c)
	if err != nil {
		return nil, err
	}
	return rlockPermits{client: lib.(rlockPermits).client, permits: c.Permits, plain: true}, nil
}

// rlockPermits has a semaphore where others have a lock.
type rlockPermits struct {
	client  *rlock.Client
	permits int
	plain   bool
}

func (l rlockPermits) Handle(name string) Handle {
	if l.plain {
		return plainPermit{l.client.NewPlainSemaphore(name, rlock.Total(l.permits))}
	}
	return &rlockPermit{semaphore: l.client.NewSemaphore(name, rlock.Total(l.permits))}
}

func (rlockPermits) Key(name string) string { return name }

type rlockPermit struct {
	semaphore *rlock.Semaphore
	hold      *rlock.Hold
}

func (h *rlockPermit) Lock(ctx context.Context) (err error) {
	h.hold, err = h.semaphore.Acquire(ctx)
	return err
}

func (h *rlockPermit) Unlock(ctx context.Context) error { return h.hold.Unlock(ctx) }

type plainPermit struct{ semaphore *rlock.PlainSemaphore }

func (p plainPermit) Lock(ctx context.Context) error   { return p.semaphore.Acquire(ctx) }
func (p plainPermit) Unlock(ctx context.Context) error { return p.semaphore.Release(ctx, 1) }

// slots is a semaphore with a lock for each permit. It tries them all, from a random one on, and then pauses.
type slots struct {
	library Library
	try     func(ctx context.Context, h Handle) (bool, error)
	cell    Cell
}

func (s *slots) Handle(name string) Handle {
	h := &slot{of: s}
	for i := range s.cell.Permits {
		h.locks = append(h.locks, s.library.Handle(fmt.Sprint(name, ":", i)))
	}
	return h
}

func (s *slots) Key(name string) string { return s.library.Key(name) }

type slot struct {
	of    *slots
	locks []Handle
	taken Handle
}

func (h *slot) Lock(ctx context.Context) error {
	for {
		first := rand.IntN(len(h.locks))
		for i := range h.locks {
			lock := h.locks[(first+i)%len(h.locks)]
			ok, err := h.of.try(ctx, lock)
			if ok || err != nil {
				h.taken = lock
				return err
			}
		}
		select {
		case <-time.After(h.of.cell.poll()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *slot) Unlock(ctx context.Context) error { return h.taken.Unlock(ctx) }

func tryBSM(ctx context.Context, h Handle) (bool, error) {
	lock := h.(*bsmHandle)
	lock.options.RetryStrategy = redislock.NoRetry()
	err := lock.Lock(ctx)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func tryRedsync(ctx context.Context, h Handle) (bool, error) {
	err := h.(redsyncHandle).mutex.TryLockContext(ctx)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return false, nil
	}
	return err == nil, err
}
