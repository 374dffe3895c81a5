package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
)

// Share is a kind of lock in the workload, with its weight and its names.
type Share struct {
	Kind   string
	Weight int
	Names  []string // each turn draws one, a group two
}

// fresh stands for a name that changes forty times a second, and is the same for all sites. Few owners want each name, and
// each waiter's subscription is new.
const fresh = "fresh"

// mix returns the workload for one Redis. Groups and plain locks share some names.
func mix() []Share {
	return []Share{
		{kindLock, 18, []string{"a", "b", "c"}},
		{kindLock, 12, []string{fresh}},
		{kindSpin, 6, []string{"d"}},
		{kindFenced, 12, []string{"fenced0", "fenced1"}},
		{kindFair, 12, []string{"fair0", "fair1"}},
		{kindFencedFair, 6, []string{"fair-fenced"}},
		{kindRead, 16, []string{"rw0", "rw1", "rw-fenced"}},
		{kindWrite, 6, []string{"rw0", "rw1"}},
		{kindFencedWrite, 6, []string{"rw-fenced"}},
		{kindMulti, 10, []string{"a", "b", "e"}},
	}
}

// worker is one goroutine of a site. It is a new owner in every turn.
type worker struct {
	*running
	number int
	random *rand.Rand
}

// plan holds the random choices for a turn.
type plan struct {
	share   Share
	names   []string
	try     bool
	wait    time.Duration // zero means no limit
	cancel  time.Duration // until the context ends; zero means never
	lease   time.Duration // zero means renewed
	depth   int           // acquisitions in total; all but one are re-entries
	hold    time.Duration
	gap     time.Duration // between the last look and the last write
	release string
}

const (
	releaseOnce     = "once"
	releaseCanceled = "with an ended context"
	releaseTwice    = "twice"
	releaseAtOnce   = "twice at once"
	releaseNever    = "never"
)

func (w *worker) draw() plan {
	r := w.random
	p := plan{share: w.pick(), depth: 1, release: releaseOnce}
	p.names = []string{p.share.Names[r.IntN(len(p.share.Names))]}
	if p.share.Kind == kindMulti {
		i := r.IntN(len(p.share.Names))
		p.names = []string{p.share.Names[i], p.share.Names[(i+1)%len(p.share.Names)]}
	}
	if p.names[0] == fresh {
		p.names[0] = fmt.Sprintf("%s-%d", fresh, now()/Moment(25*time.Millisecond))
	}
	switch n := r.IntN(100); {
	case n < 30:
		p.try = true
	case n < 60:
		p.wait = time.Duration(1+r.IntN(400)) * time.Millisecond
	case n < 75:
		p.cancel = time.Duration(r.IntN(int(60 * time.Millisecond)))
	}
	p.hold = time.Duration(r.IntN(int(5 * time.Millisecond)))
	if r.IntN(6) == 0 {
		p.depth += 1 + r.IntN(2)
	}
	if r.IntN(6) == 0 {
		p.lease = shortLease + time.Duration(r.IntN(int(2*shortLease)))
	}
	switch n := r.IntN(1000); {
	case n < 12: // the owner sleeps while its lease runs out
		p.lease = shortLease
		p.hold, p.gap = shortLease/2, shortLease
	case n < 24: // the owner works for longer than its lease, and checks the hold
		p.lease = shortLease
		p.hold = 2 * shortLease
	case n < 27: // the owner works for longer than the watchdog's lease
		p.hold, p.lease = watchdogTimeout*11/10, 0
	}
	switch n := r.IntN(100); {
	case n < 10:
		p.release = releaseCanceled
	case n < 13:
		p.release = releaseTwice
	case n < 15:
		p.release = releaseAtOnce
	case n < 40 && p.lease > 0:
		p.release, p.depth = releaseNever, 1 // a re-entry has no Lease and would extend the lease
	}
	return p
}

func (w *worker) pick() Share {
	total := 0
	for _, s := range w.Mix {
		total += s.Weight
	}
	n := w.random.IntN(total)
	for _, s := range w.Mix {
		if n -= s.Weight; n < 0 {
			return s
		}
	}
	panic("unreachable")
}

// turn uses a lock once.
func (w *worker) turn(ctx context.Context) {
	p := w.draw()
	t := Turn{ID: w.ids.Add(1), Site: w.Name, Worker: w.number, Kind: p.share.Kind, Names: p.names, Lease: p.lease, Renew: p.lease == 0, Try: p.try}
	if t.Renew {
		t.Lease = watchdogTimeout
	}
	lock := w.make(t.Kind, t.Names...)
	if w.random.IntN(200) == 0 {
		t.badInput(lock)
	}
	hold := w.acquire(ctx, &t, p, lock)
	w.emit(t)
	if hold == nil {
		if t.Answer == failed {
			pause(ctx, 2*time.Millisecond)
		}
		return
	}
	again := w.reenter(&t, p, lock, hold)
	w.work(&t, p, hold)
	for _, h := range again {
		if err := h.Unlock(context.Background()); errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost) {
			t.wrong("the unlock of a re-entry returned %v", err)
		}
	}
	w.release(&t, p, hold)
	w.emit(t)
}

func (w *worker) acquire(ctx context.Context, t *Turn, p plan, lock rlock.Locker) *rlock.Hold {
	var opts []rlock.AcquireOption
	if p.lease > 0 {
		opts = append(opts, rlock.Lease(p.lease))
	}
	if p.wait > 0 {
		opts = append(opts, rlock.Wait(p.wait))
	}
	if p.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.Background())
		stop := time.AfterFunc(p.cancel, cancel)
		defer stop.Stop()
		defer cancel()
		t.Ended = now().add(p.cancel)
	}
	t.Asked = now()
	w.emit(*t)
	verb := lock.Acquire
	if p.try {
		verb = lock.TryAcquire
	}
	hold, err := verb(ctx, opts...)
	t.Answered = now()
	if t.Ended > t.Answered {
		t.Ended = 0
	}
	switch {
	case err == nil:
		t.Answer, t.Token = got, uint64(hold.Token())
		t.believe(hold)
		return hold
	case ctx.Err() != nil:
		t.Answer = failed
	case errors.Is(err, rlock.ErrNotAcquired):
		t.Answer = refused
	default:
		t.Answer = failed
	}
	t.Err = err.Error()
	return nil
}

// badInput tries invalid leases, which rlock must reject before it sends anything.
func (t *Turn) badInput(lock rlock.Locker) {
	for _, d := range []time.Duration{0, -time.Second, 700 * time.Microsecond, 1<<63 - 1} {
		if hold, err := lock.TryAcquire(context.Background(), rlock.Lease(d)); !errors.Is(err, rlock.ErrInvalidOption) {
			t.wrong("Lease(%v) returned %v %v", d, hold, err)
		}
	}
}

// reenter acquires the lock again as its owner.
func (w *worker) reenter(t *Turn, p plan, lock rlock.Locker, hold *rlock.Hold) []*rlock.Hold {
	var again []*rlock.Hold
	if p.lease > 0 && p.lease < 2*shortLease {
		return nil
	}
	for range p.depth - 1 {
		inner, err := lock.TryAcquire(hold.Context())
		switch {
		case err == nil:
			again = append(again, inner)
		case errors.Is(err, rlock.ErrNotAcquired) && hold.Err() == nil && hold.Context().Err() == nil:
			t.wrong("a re-entry of the owner was refused: %v", err)
		}
	}
	return again
}

// work holds the lock for as long as planned. It writes to the protected data at the beginning and at the end.
func (w *worker) work(t *Turn, p plan, hold *rlock.Hold) {
	if t.First == 0 {
		return
	}
	t.Writes = append(t.Writes, now())
	until := t.Answered.add(p.hold)
	for told := now(); now() < until; {
		pause(context.Background(), min(until.sub(now()), 4*time.Millisecond))
		if !t.believe(hold) {
			t.Lost = now()
			return
		}
		if now().sub(told) > 50*time.Millisecond {
			told = now()
			w.emit(*t)
		}
	}
	if t.believe(hold) {
		pause(context.Background(), p.gap)
		t.Writes = append(t.Writes, now())
	}
}

// release ends the hold in the way that the plan chose.
func (w *worker) release(t *Turn, p plan, hold *rlock.Hold) {
	ctx := context.Background()
	switch p.release {
	case releaseNever:
		t.Unlock, t.Unlocked = left, now()
		t.Deadline = t.Unlocked.add(time.Until(hold.Deadline()))
		return
	case releaseCanceled:
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	case releaseAtOnce:
		w.releaseAtOnce(t, hold)
		return
	}
	if p.gap == 0 {
		t.believe(hold)
	}
	t.unlock(ctx, hold)
	if p.release == releaseTwice {
		if err := hold.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
			t.wrong("the second unlock returned %v", err)
		}
	}
}

// releaseAtOnce lets two goroutines unlock the same hold. One of them must release it, and the other must get
// [rlock.ErrNotHeld].
func (w *worker) releaseAtOnce(t *Turn, hold *rlock.Hold) {
	t.Unlocking = now()
	t.Deadline = t.Unlocking.add(time.Until(hold.Deadline()))
	var wg sync.WaitGroup
	var errs [2]error
	for i := range errs {
		wg.Go(func() { errs[i] = hold.Unlock(context.Background()) })
	}
	wg.Wait()
	t.Unlocked = now()
	late := 0
	for _, err := range errs {
		switch {
		case err == nil:
			t.Unlock = got
		case errors.Is(err, rlock.ErrLost):
			t.Unlock, t.Err = lost, err.Error()
		case errors.Is(err, rlock.ErrNotHeld):
			late++
		default:
			t.Unlock, t.Err = failed, err.Error()
		}
	}
	if late != 1 {
		t.wrong("two unlocks at once returned %v and %v", errs[0], errs[1])
	}
}
