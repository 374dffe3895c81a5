package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/observe"
)

// patience is how long an act waits for what should come by a message. Waiters poll each minute, so a poll is not taken for one.
const patience = 3 * time.Second

// acts are what is tried, in this order.
var acts = []act{
	{name: "lock", kind: "lock", works: exclusive, run: func(ctx context.Context, s *scene) error {
		return s.excludes(ctx, s.one.NewLock(s.name), s.two.NewLock(s.name))
	}},
	{name: "re-entry", kind: "lock", works: "an owner took its lock twice, and the second unlock freed it", run: reenters},
	{name: "renewal", kind: "lock", works: "a lock outlived its lease while it was held, and so did several at a time", run: renews},
	{name: "expiry", kind: "lock", works: "a lock that nobody renewed was free at the end of its lease", run: expires},
	{name: "inspect", kind: "inspect", works: "Redis says who holds a lock", run: inspects},
	{name: "fenced", kind: "fenced", works: exclusive + numbered, run: func(ctx context.Context, s *scene) error {
		return s.fences(ctx, s.one.NewLock(s.name, rlock.Fenced()), s.two.NewLock(s.name, rlock.Fenced()))
	}},
	{name: "fair", kind: "fair", works: exclusive, run: func(ctx context.Context, s *scene) error {
		return s.excludes(ctx, s.one.NewFairLock(s.name), s.two.NewFairLock(s.name))
	}},
	{name: "fenced fair", kind: "fenced fair", works: exclusive + numbered, run: func(ctx context.Context, s *scene) error {
		return s.fences(ctx, s.one.NewFairLock(s.name, rlock.Fenced()), s.two.NewFairLock(s.name, rlock.Fenced()))
	}},
	{name: "read", kind: "read", works: "two readers shared it, and a message gave it to the next writer", run: shares},
	{name: "write", kind: "write", works: exclusive, run: func(ctx context.Context, s *scene) error {
		return s.excludes(ctx, s.one.NewRWLock(s.name).Writer(), s.two.NewRWLock(s.name).Writer())
	}},
	{name: "fenced write", kind: "fenced write", works: exclusive + numbered, run: func(ctx context.Context, s *scene) error {
		return s.fences(ctx, s.one.NewRWLock(s.name, rlock.Fenced()).Writer(), s.two.NewRWLock(s.name, rlock.Fenced()).Writer())
	}},
	{name: "spin", kind: "spin", works: "one client alone held it", run: func(ctx context.Context, s *scene) error {
		return s.refuses(ctx, s.one.NewSpinLock(s.name), s.two.NewSpinLock(s.name))
	}},
	{name: "semaphore", kind: "semaphore", works: counted, run: func(ctx context.Context, s *scene) error {
		return s.counts(ctx, s.one.NewSemaphore(s.name, rlock.Total(1)), s.two.NewSemaphore(s.name, rlock.Total(1)))
	}},
	{name: "plain semaphore", kind: "plain semaphore", works: counted, run: signals},
	{name: "count-down latch", kind: "count-down latch", works: "a message woke the caller that waited for it", run: opens},
	{
		name: "sharded pub/sub", works: exclusive,
		applies: func(d *deployment) bool { return d.cluster && d.hasSharded() },
		run: func(ctx context.Context, s *scene) error {
			return s.excludes(ctx, s.one.NewLock(s.name), s.two.NewLock(s.name))
		},
	},
	{
		name: replicated, works: "they acknowledged an acquisition (WAIT)", run: acknowledged,
		opts: func(o Options) rlock.Option {
			return rlock.WithReplicaAcks(cmp.Or(o.Acks, 1), min(time.Second, o.timeout()/2))
		},
	},
}

// What most acts have seen if all is well.
const (
	exclusive = "one client alone held it, and a message gave it to the next one"
	numbered  = "; each holder had a greater token"
	counted   = "one client alone held the permit, and a message told the next one of it"
)

// heard is told how an acquisition of the second client went.
type heard struct {
	observe.Base

	remote atomic.Bool
}

// AcquireEnd implements [observe.Observer].
func (h *heard) AcquireEnd(_ context.Context, d observe.AcquireEnd) {
	h.remote.Store(d.Via == observe.ViaRemote)
}

// taker is what has holds of its own: locks and semaphores.
type taker interface {
	Acquire(ctx context.Context, opts ...rlock.AcquireOption) (*rlock.Hold, error)
	TryAcquire(ctx context.Context, opts ...rlock.AcquireOption) (*rlock.Hold, error)
}

// refused checks that somebody else has it.
func refused(ctx context.Context, t taker) error {
	switch hold, err := t.TryAcquire(ctx); {
	case err == nil:
		_ = hold.Unlock(ctx)
		return errors.New("two clients held it at the same time")
	case !errors.Is(err, rlock.ErrNotAcquired):
		return err
	}
	return nil
}

// refuses has one client take it, and checks that the other one cannot.
func (s *scene) refuses(ctx context.Context, one, two taker) error {
	hold, err := one.Acquire(ctx, rlock.Wait(patience))
	if err != nil {
		return err
	}
	if err := errors.Join(refused(ctx, two), hold.Unlock(ctx)); err != nil {
		return err
	}
	if hold, err = two.Acquire(ctx, rlock.Wait(patience)); err != nil {
		return fmt.Errorf("after the unlock: %w", err)
	}
	return hold.Unlock(ctx)
}

// excludes is refuses, and then has the second client wait until a release by the first one gives it the lock.
func (s *scene) excludes(ctx context.Context, one, two taker) error {
	return s.gives(ctx, one, two, s.heard.remote.Load)
}

// counts is excludes for permits, whose waiters are told that they may ask.
func (s *scene) counts(ctx context.Context, one, two taker) error {
	return s.gives(ctx, one, two, func() bool { return true })
}

func (s *scene) gives(ctx context.Context, one, two taker, chosen func() bool) error {
	if err := s.refuses(ctx, one, two); err != nil {
		return err
	}
	return s.handsOver(ctx, one, two, chosen)
}

// handsOver has the second client wait for what the first one has.
func (s *scene) handsOver(ctx context.Context, one, two taker, chosen func() bool) error {
	return s.wakes(ctx, func(ctx context.Context) (func(context.Context) error, error) {
		hold, err := one.Acquire(ctx, rlock.Wait(patience))
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}, func(ctx context.Context) error {
		hold, err := two.Acquire(ctx, rlock.Wait(patience))
		if err != nil {
			return err
		}
		return hold.Unlock(ctx)
	}, chosen)
}

// wakes has somebody wait for what another one has, until that one ends it. A waiter may still be about to subscribe when that
// happens, so who hears nothing is tried again with more time.
func (s *scene) wakes(
	ctx context.Context, begin func(context.Context) (end func(context.Context) error, err error), wait func(context.Context) error, chosen func() bool,
) error {
	pauses := []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond}
	if s.stage.silent {
		pauses = pauses[1:]
	}
	var worse error
	for _, pause := range pauses {
		end, err := begin(ctx)
		if err != nil {
			return err
		}
		waited := make(chan error, 1)
		go func() { waited <- wait(ctx) }()
		sleep(ctx, pause)
		err = end(ctx)
		switch late := <-waited; {
		case err != nil:
			return err
		case errors.Is(late, rlock.ErrNotAcquired) && ctx.Err() == nil:
			worse = &degradedError{"no message told the next client of a release, so waiters find it by polling"}
			s.stage.silent = true
		case late != nil:
			return late
		case chosen():
			return nil
		default:
			worse = &degradedError{"a release wakes all waiters instead of only the next one"}
		}
	}
	return worse
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func reenters(ctx context.Context, s *scene) error {
	lock, other := s.one.NewLock(s.name), s.two.NewLock(s.name)
	hold, err := lock.Acquire(ctx, rlock.Wait(patience))
	if err != nil {
		return err
	}
	again, err := lock.Acquire(hold.Context(), rlock.Wait(patience))
	if err != nil {
		return errors.Join(err, hold.Unlock(ctx))
	}
	if err := errors.Join(again.Unlock(ctx), refused(ctx, other), hold.Unlock(ctx)); err != nil {
		return err
	}
	if held, err := other.IsLocked(ctx); err != nil || held {
		return errors.Join(err, errors.New("it is held after the last unlock"))
	}
	return nil
}

// together is how many locks are renewed at a time. By their names they are in several slots.
const together = 8

// errTogether means that locks are lost that are renewed by one script, which has keys of several slots then.
var errTogether = errors.New("locks that one client held at the same time were lost")

// renews holds one lock for longer than its lease, and then several.
func renews(ctx context.Context, s *scene) error {
	for _, n := range []int{1, together} {
		holds := make([]*rlock.Hold, n)
		for i := range holds {
			name := fmt.Sprintf("%s:%d", s.name, i)
			s.stage.note(name, s.one, s.two)
			hold, err := s.one.NewLock(name).Acquire(ctx, rlock.RenewedLease(renewed), rlock.Wait(patience))
			if err != nil {
				return err
			}
			holds[i] = hold
		}
		sleep(ctx, renewed+renewed/4)
		for i, hold := range holds {
			if err := hold.Err(); err != nil && n > 1 {
				return fmt.Errorf("%w: %s", errTogether, reason(err))
			} else if err != nil {
				return err
			}
			if err := errors.Join(refused(ctx, s.two.NewLock(fmt.Sprintf("%s:%d", s.name, i))), hold.Unlock(ctx)); err != nil {
				return err
			}
		}
	}
	return nil
}

// renewed is the lease of the locks that are renewed.
const renewed = 2 * time.Second

func expires(ctx context.Context, s *scene) error {
	const lease = time.Second
	if err := s.one.NewLock(s.name).Lock(ctx, rlock.Lease(lease), rlock.Wait(patience)); err != nil {
		return err
	}
	other := s.two.NewLock(s.name)
	if err := refused(ctx, other); err != nil {
		return err
	}
	hold, err := other.Acquire(ctx, rlock.Wait(lease+2*patience))
	if err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

func inspects(ctx context.Context, s *scene) error {
	lock := s.one.NewLock(s.name)
	hold, err := lock.Acquire(ctx, rlock.Wait(patience))
	if err != nil {
		return err
	}
	info, err := lock.Inspect(ctx)
	if err == nil && (len(info.Holders) != 1 || !info.Holders[0].Own) {
		err = fmt.Errorf("Redis names %d holders instead of the one", len(info.Holders)) //nolint:staticcheck // Redis is a name
	}
	return errors.Join(err, hold.Unlock(ctx))
}

func (s *scene) fences(ctx context.Context, one, two taker) error {
	var tokens []rlock.Token
	for _, lock := range []taker{one, two} {
		hold, err := lock.Acquire(ctx, rlock.Wait(patience))
		if err != nil {
			return err
		}
		tokens = append(tokens, hold.Token())
		if err := hold.Unlock(ctx); err != nil {
			return err
		}
	}
	if tokens[0] >= tokens[1] {
		return fmt.Errorf("the token %d followed %d", tokens[1], tokens[0])
	}
	return s.excludes(ctx, one, two)
}

func shares(ctx context.Context, s *scene) error {
	one, two := s.one.NewRWLock(s.name), s.two.NewRWLock(s.name)
	first, err := one.Reader().Acquire(ctx, rlock.Wait(patience))
	if err != nil {
		return err
	}
	second, err := two.Reader().Acquire(ctx, rlock.Wait(patience))
	if err != nil {
		return errors.Join(err, first.Unlock(ctx))
	}
	if err := errors.Join(refused(ctx, two.Writer()), second.Unlock(ctx), first.Unlock(ctx)); err != nil {
		return err
	}
	return s.handsOver(ctx, one.Reader(), two.Writer(), s.heard.remote.Load)
}

// signals has one client take the permit of a plain semaphore, and the other one wait until it is released.
func signals(ctx context.Context, s *scene) error {
	one, two := s.one.NewPlainSemaphore(s.name, rlock.Total(1)), s.two.NewPlainSemaphore(s.name, rlock.Total(1))
	release := func(ctx context.Context) error { return one.Release(ctx, 1) }
	return s.wakes(ctx, func(ctx context.Context) (func(context.Context) error, error) {
		if err := one.Acquire(ctx, rlock.Wait(patience)); err != nil {
			return nil, err
		}
		switch got, err := two.TryAcquire(ctx); {
		case err != nil:
			return nil, errors.Join(err, release(ctx))
		case got:
			return nil, errors.New("two clients held it at the same time")
		}
		return release, nil
	}, func(ctx context.Context) error {
		if err := two.Acquire(ctx, rlock.Wait(patience)); err != nil {
			return err
		}
		return two.Release(ctx, 1)
	}, func() bool { return true })
}

func opens(ctx context.Context, s *scene) error {
	one, two := s.one.NewCountDownLatch(s.name), s.two.NewCountDownLatch(s.name)
	return s.wakes(ctx, func(ctx context.Context) (func(context.Context) error, error) {
		if set, err := one.TrySetCount(ctx, 1); err != nil || !set {
			return nil, errors.Join(err, errors.New("the latch is not open"))
		}
		return func(ctx context.Context) error { _, err := one.CountDown(ctx); return err }, nil
	}, func(ctx context.Context) error { return two.Await(ctx, rlock.Wait(patience)) }, func() bool { return true })
}

func acknowledged(ctx context.Context, s *scene) error {
	hold, err := s.one.NewLock(s.name).Acquire(ctx, rlock.Wait(patience))
	if err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

// keys returns all keys that may have come to be under a name.
func (m made) keys() []string {
	seen := map[string]bool{m.name: true}
	keys := []string{m.name}
	add := func(more []any) {
		for _, key := range more {
			if text, ok := key.(string); ok && !seen[text] {
				seen[text] = true
				keys = append(keys, text)
			}
		}
	}
	locks, _ := core.Plain.Keys(m.name) // their line is that of semaphores, too
	add(locks)
	for _, client := range m.clients {
		for _, kind := range []*wire.Kind{wire.Plain, wire.FencedFair, wire.Permit, wire.PlainPermit} {
			names := wire.NewNames(kind, m.name, client)
			add(names.Keys)
			add(names.LineKeys)
		}
		names := wire.NewNames(wire.Read, m.name, client)
		for number := range int64(16) { // more than an act acquires
			holder := wire.NewHolder(wire.Read, names, client, number)
			for _, key := range holder.Keys(names) {
				add([]any{key})
			}
		}
	}
	return keys
}
