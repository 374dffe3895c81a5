package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
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

// mix returns the workload for one Redis. Groups and plain locks share some names. Of many names there is a pair, without braces and
// with: Redisson's rule derives the same keys and channels from both.
func mix() []Share {
	return append([]Share{
		{kindLock, 18, []string{"a", "{a}", "b"}},
		{kindLock, 12, []string{fresh}},
		{kindSpin, 6, []string{"{b}"}},
		{kindFenced, 12, []string{"fenced0", "{fenced0}"}},
		{kindFenced, 6, []string{elections}},
		{kindFair, 12, []string{"fair0", "{fair0}"}},
		{kindFencedFair, 6, []string{"fair-fenced"}},
		{kindRead, 16, []string{"rw0", "{rw0}", "rw-fenced"}},
		{kindYieldingRead, 6, []string{yielded}},
		{kindWrite, 8, []string{"rw0", "{rw0}", yielded}},
		{kindFencedWrite, 6, []string{"rw-fenced"}},
		{kindMulti, 10, []string{"a", "{a}", "e"}},
	}, counts...)
}

// worker is one goroutine of a site. It is a new owner in every turn.
type worker struct {
	*running
	number int
	random *rand.Rand
}

// turn uses a lock once.
func (w *worker) turn(ctx context.Context) {
	p := w.draw()
	w.drawCounted(&p)
	w.drawLead(&p)
	if p.rest > 0 {
		if pause(ctx, p.rest); ctx.Err() != nil {
			return
		}
	}
	clients := w.all()
	t := Turn{
		ID: w.ids.Add(1), Site: w.Name, Worker: w.number, Kind: p.share.Kind, Names: p.names, Lease: p.lease, Renew: p.lease == 0, Try: p.try,
		Client: clients[0].ID(), Verb: p.verb, Wait: p.wait,
	}
	if t.Renew {
		t.Lease = watchdogTimeout
		if p.renewed > 0 {
			t.Lease = p.renewed
		}
		t.Renewal = t.Lease
	}
	if t.counts() {
		t.Permits = p.permits
	}
	s := section{worker: w, plan: p, Turn: &t, clients: clients, lock: handle(clients, t.Kind, t.Names...)}
	if w.random.IntN(200) == 0 {
		t.badInput(s.lock)
	}
	switch {
	case t.Kind == kindLatch:
		s.countDown(ctx)
	case t.Kind == kindPlain:
		s.countPlain(ctx)
	case p.verb == verbAcquire:
		s.acquire(ctx)
	case p.verb == verbLead:
		s.lead(ctx)
	default:
		s.do(ctx)
	}
	w.emit(t)
	if t.Answer == failed {
		pause(ctx, 2*time.Millisecond)
	}
}

// section is a turn in progress.
type section struct {
	*worker
	plan
	*Turn

	clients []*rlock.Client
	lock    handles.Any
	past    *outlived // that the context of the turn has; nil means none
}

// terms returns the context and the options of the attempt, and notes when it is asked. The caller must call the function
// once it no longer needs the context.
func (s *section) terms(ctx context.Context) (context.Context, []rlock.AcquireOption, context.CancelFunc) {
	var opts []rlock.AcquireOption
	if s.Permits > 1 {
		opts = append(opts, rlock.Permits(s.Permits))
	}
	if s.lease > 0 {
		opts = append(opts, rlock.Lease(s.lease))
	}
	if s.renewed > 0 {
		opts = append(opts, rlock.RenewedLease(s.renewed))
	}
	if s.wait > 0 {
		opts = append(opts, rlock.Wait(s.wait))
	}
	var cancel context.CancelFunc = func() {}
	// The moments are read before the timers start. Otherwise an attempt may end by its timer, and before the recorded end.
	switch start := now(); {
	case s.deadline > 0:
		s.Timed = true
		s.Limit = start.Add(s.deadline)
		s.Ended = s.Limit
		ctx, cancel = context.WithTimeout(context.Background(), s.deadline)
	case s.cancel > 0:
		s.Ended = start.Add(s.cancel)
		ended, end := context.WithCancel(context.Background())
		stop := time.AfterFunc(s.cancel, end)
		ctx, cancel = ended, func() { stop.Stop(); end() }
	}
	ctx = s.outlive(ctx)
	s.Hears = s.deadline == 0 && s.cancel == 0
	s.Asked = now()
	s.emit(*s.Turn)
	return ctx, opts, cancel
}

// answered records that the attempt is over.
func (s *section) answered(ctx context.Context, err error) {
	s.Answered = now()
	if s.Ended > s.Answered {
		s.Ended = 0
	}
	s.Class = s.class(err)
	switch {
	case err == nil:
		s.Answer = got
		return
	case ctx.Err() == nil && s.Class == contention:
		s.Answer = refused
	default:
		s.Answer = failed
	}
	s.Err = err.Error()
}

// acquire uses the lock with Acquire, or TryAcquire.
func (s *section) acquire(ctx context.Context) {
	ctx, opts, cancel := s.terms(ctx)
	verb := s.lock.Acquire
	if s.try {
		verb = s.lock.TryAcquire
	}
	hold, err := verb(ctx, opts...)
	if s.answered(ctx, err); err == nil {
		s.Token = uint64(hold.Token())
		s.believe(hold)
	}
	cancel()
	s.emit(*s.Turn)
	if err != nil {
		return
	}
	again := s.reenter(hold)
	if s.random.IntN(4) == 0 {
		s.borrow(hold.Context(), hold)
	}
	if hold = s.handOff(hold); hold == nil {
		s.emit(*s.Turn)
		return
	}
	s.work(hold)
	s.unlockAll(again)
	s.release(hold)
}

// badInput tries invalid leases, which rlock must reject before it sends anything.
func (t *Turn) badInput(lock handles.Any) {
	for _, d := range []time.Duration{0, -time.Second, 700 * time.Microsecond, 1<<63 - 1} {
		if hold, err := lock.TryAcquire(context.Background(), rlock.Lease(d)); !errors.Is(err, rlock.ErrInvalidOption) {
			t.wrong("Lease(%v) returned %v %v", d, hold, err)
		}
	}
	t.endedContext(lock)
}

// reenter acquires the lock again as its owner.
func (s *section) reenter(hold *rlock.Hold) []*rlock.Hold {
	var again []*rlock.Hold
	if s.lease > 0 && s.lease < 2*shortLease || s.depth == 1 {
		return nil
	}
	s.Lease = max(s.Lease, watchdogTimeout)
	for i := range s.depth - 1 {
		ctx := hold.Context()
		if i > 0 {
			ctx = rlock.EnsureOwner(ctx)
		}
		from := now()
		inner, err := s.lock.TryAcquire(ctx)
		s.called(from, err)
		if s.judge().Reentry(s, hold, inner, err); err == nil {
			again = append(again, inner)
		}
	}
	return again
}

// unlockAll ends the re-entries.
func (s *section) unlockAll(again []*rlock.Hold) {
	for _, h := range again {
		from := now()
		err := h.Unlock(context.Background())
		s.called(from, err)
		if errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost) {
			s.wrong("the unlock of a re-entry returned %v", err)
		}
	}
}

// work holds the lock for as long as planned. It writes to the protected data at the beginning and at the end.
func (s *section) work(hold *rlock.Hold) {
	if s.First == 0 {
		return
	}
	s.Writes = append(s.Writes, now())
	until := s.Answered.Add(s.hold)
	if s.plan.extend > 0 {
		s.extend(hold, s.plan.extend)
	}
	for told := now(); now() < until; {
		pause(context.Background(), min(until.Sub(now()), 4*time.Millisecond))
		s.notice(hold)
		if !s.stillBelieves(hold) {
			return
		}
		if now().Sub(told) > 50*time.Millisecond {
			told = now()
			s.emit(*s.Turn)
		}
	}
	if s.stillBelieves(hold) {
		pause(context.Background(), s.gap)
		s.Writes = append(s.Writes, now())
	}
}

// stillBelieves looks at the hold, and records a loss.
func (s *section) stillBelieves(hold *rlock.Hold) bool {
	if s.believe(hold) {
		return true
	}
	if errors.Is(hold.Err(), rlock.ErrLost) {
		s.Lost = now()
	}
	return false
}

// release ends the hold in the way that the plan chose.
func (s *section) release(hold *rlock.Hold) {
	ctx := context.Background()
	switch s.plan.release {
	case releaseNever:
		s.Unlock, s.Unlocked = left, now()
		s.Deadline = s.Unlocked.Add(time.Until(hold.Deadline()))
		return
	case releaseCanceled:
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	case releaseAtOnce:
		s.releaseAtOnce(hold)
		return
	}
	if s.gap == 0 {
		s.believe(hold)
	}
	s.unlock(ctx, hold)
	s.leaves(hold)
	if s.plan.release == releaseTwice {
		if err := hold.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
			s.wrong("the second unlock returned %v", err)
		}
	}
}

// releaseAtOnce lets two goroutines unlock the same hold. One of them must release it, and the other must get
// [rlock.ErrNotHeld].
func (s *section) releaseAtOnce(hold *rlock.Hold) {
	s.unlocking(hold)
	var wg sync.WaitGroup
	var errs [2]error
	for i := range errs {
		wg.Go(func() { errs[i] = hold.Unlock(context.Background()) })
	}
	wg.Wait()
	s.Unlocked = now()
	late := 0
	for _, err := range errs {
		s.class(err)
		switch {
		case err == nil:
			s.Unlock = got
		case errors.Is(err, rlock.ErrLost):
			s.Unlock, s.Err = lost, err.Error()
		case errors.Is(err, rlock.ErrNotHeld):
			late++
		default:
			s.Unlock, s.Err = failed, err.Error()
		}
	}
	if late != 1 {
		s.wrong("two unlocks at once returned %v and %v", errs[0], errs[1])
	}
}
