package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// Semaphores and latches count. Their turns have checks of their own, because several owners are in at a time.

const (
	kindSemaphore = "semaphore"
	kindPlain     = "plain semaphore"
	kindLatch     = "latch"
)

// The totals of the semaphores. Nobody gives the permits back that a killed process had of a plain one, so that has many.
const (
	leasedTotal = 3
	plainTotal  = 200
	plainShare  = 60 // that a turn takes at most
)

// single is a semaphore with one permit, which is held for longer than that of others, so that somebody waits.
const single = "sem1"

// total returns how many permits there are of what the turn is about. Zero means that it has none.
func (t *Turn) total() int {
	switch t.Kind {
	case kindSemaphore:
		return totalOf(t.Names[0])
	case kindPlain:
		return plainTotal
	}
	return 0
}

// totalOf returns how many permits there are of a semaphore with leases.
func totalOf(name string) int {
	if name == single {
		return 1
	}
	return leasedTotal
}

// counts is the part of the workload that counts.
var counts = []Share{
	{kindSemaphore, 8, []string{"sem0", single}},
	{kindPlain, 6, []string{"sem-plain"}},
	{kindLatch, 6, []string{latched}},
}

// latched stands for a latch whose name changes four times a second, and is the same for all sites. Its count is more than all of
// them count down, so that it never opens.
const (
	latched    = "latch"
	latchCount = 1000
)

// counts reports whether the turn is about something that counts.
func (t *Turn) counts() bool { return counting(t.Kind) }

func counting(kind string) bool {
	return kind == kindSemaphore || kind == kindPlain || kind == kindLatch
}

// drawCounted adapts a plan to what counts.
func (w *worker) drawCounted(p *plan) {
	if !counting(p.share.Kind) {
		return
	}
	p.depth, p.permits = 1, 1 // nothing is re-entered
	switch {
	case p.share.Kind == kindPlain:
		p.permits = 1 + w.random.IntN(plainShare)
		p.verb, p.lease, p.renewed, p.extend = verbAcquire, 0, 0, 0
		if !p.try && p.wait+p.cancel+p.deadline == 0 {
			p.wait = time.Second // those that were killed may have taken all
		}
	case p.share.Kind == kindLatch:
		p.names[0] = fmt.Sprintf("%s-%d", latched, now()/Moment(250*time.Millisecond))
	case p.names[0] == single:
		p.hold += 5*time.Millisecond + time.Duration(w.random.IntN(int(40*time.Millisecond)))
	default:
		p.permits = 1 + w.random.IntN(leasedTotal)
	}
}

// counted returns a new handle of a semaphore with leases, or nil for another kind.
func counted(c *rlock.Client, kind, name string) handles.Any {
	if kind != kindSemaphore {
		return nil
	}
	return c.NewSemaphore(name, rlock.Total(totalOf(name)))
}

// countPlain takes permits of a plain semaphore, and gives them back.
func (s *section) countPlain(ctx context.Context) {
	s.Renew, s.Lease = false, 0
	sem := s.clients[0].NewPlainSemaphore(s.Names[0], rlock.Total(plainTotal))
	ctx, opts, cancel := s.terms(ctx)
	defer cancel()
	var err error
	if s.try {
		var ok bool
		if ok, err = sem.TryAcquire(ctx, opts...); !ok && err == nil {
			err = rlock.ErrNotAcquired
		}
	} else {
		err = sem.Acquire(ctx, opts...)
	}
	if s.answered(ctx, err); err != nil {
		return
	}
	s.First, s.Last = s.Answered, s.Answered
	s.emit(*s.Turn)
	pause(context.Background(), s.hold)
	s.Last = now()
	s.Unlocking = now()
	err = sem.Release(ctx, max(s.Permits, 1)) // which ctx does not end
	s.Unlocked, s.Unlock = now(), got
	if s.class(err); err != nil {
		s.Unlock, s.Err = failed, err.Error()
	}
}

// countDown counts a latch down once. The latch never opens, so nobody may pass it, unless Redis loses it.
func (s *section) countDown(ctx context.Context) {
	s.wait, s.Wait, s.try, s.Try, s.Renew = 0, 0, false, false, false
	ctx, _, cancel := s.terms(ctx)
	defer cancel()
	latch := s.clients[0].NewCountDownLatch(s.Names[0])
	_, err := latch.TrySetCount(ctx, latchCount)
	if err == nil {
		s.Counted = true
		s.emit(*s.Turn)
		s.Left, err = latch.CountDown(ctx)
	}
	s.Passed = err == nil && s.random.IntN(4) == 0 && latch.Await(ctx, rlock.Wait(time.Millisecond)) == nil
	s.answered(ctx, err)
	s.Unlock, s.Unlocked = got, s.Answered
}

// settle checks what is left of everything that counts, once all clients are closed, and deletes it.
func (a *Arena) settle() {
	site, err := a.site(formPlain, 0).start(func(message) {})
	if err != nil {
		a.collector.foundf("after the end: %v", err)
		return
	}
	defer func() { _, _ = site.close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := site.all()[0]
	for _, name := range a.collector.counted() {
		switch kind := name[0]; kind {
		case kindSemaphore:
			a.settleLeased(ctx, c.NewSemaphore(name[1], rlock.Total(totalOf(name[1]))))
		case kindPlain:
			s := c.NewPlainSemaphore(name[1], rlock.Total(plainTotal))
			free, err := s.AvailablePermits(ctx)
			a.settled(ctx, name[1], int64(free), err, s.Delete)
		case kindLatch:
			l := c.NewCountDownLatch(name[1])
			left, err := l.Count(ctx)
			a.settled(ctx, name[1], left, err, l.Delete)
		}
	}
}

// settleLeased takes all permits, of which the last ones may still be out for a lease.
func (a *Arena) settleLeased(ctx context.Context, s *rlock.Semaphore) {
	want := totalOf(s.Name())
	total, err := s.Permits(ctx)
	if total != want && a.keepsCounts() || err != nil {
		a.collector.foundf("after the end, %s has %d permits instead of %d: %v", s.Name(), total, want, err)
	}
	if err := s.SetPermits(ctx, want); err != nil {
		a.collector.foundf("after the end, setting the permits of %s failed: %v", s.Name(), err)
	}
	start := now()
	hold, err := s.Acquire(ctx, rlock.Permits(want))
	if took := now().Sub(start); err != nil || took > watchdogTimeout+time.Second {
		a.collector.foundf("after the end, all permits of %s were free after %v: %v", s.Name(), took, err)
	}
	if err == nil {
		if err := hold.Unlock(ctx); err != nil {
			a.collector.foundf("after the end, giving the permits of %s back failed: %v", s.Name(), err)
		}
	}
	if _, err := s.Delete(ctx); err != nil {
		a.collector.foundf("after the end, deleting %s failed: %v", s.Name(), err)
	}
}

func (a *Arena) settled(ctx context.Context, name string, n int64, err error, del func(context.Context) (bool, error)) {
	if err == nil {
		_, err = del(ctx)
	}
	if err != nil {
		a.collector.foundf("after the end, %s: %v", name, err)
	}
	a.collector.rest(name, n)
}

// keepsCounts reports whether no nemesis deletes keys. A failover keeps the total of leased permits: all that a script does
// reaches a replica together.
func (a *Arena) keepsCounts() bool {
	return !slices.ContainsFunc(a.scene.Nemeses, func(n string) bool { return n == n12Restart || n == n17Evict || n == n19FlushAll })
}

// counted checks that each call counted once.
func (c *checker) counted() {
	names := make(map[string][]*Turn)
	for _, t := range c.Turns {
		if t.counts() {
			names[t.Names[0]] = append(names[t.Names[0]], t)
		}
	}
	for name, turns := range names {
		switch turns[0].Kind {
		case kindSemaphore:
			c.idle(name, turns)
		case kindPlain:
			c.remaining(name, turns)
		case kindLatch:
			c.latch(name, turns)
		}
	}
}

// latch checks the calls of a latch, which is never open, and what is left of its count.
func (c *checker) latch(name string, turns []*Turn) {
	l := promises.Latch{Name: name, Count: latchCount}
	for _, t := range turns {
		if t.Counted {
			l.Starts()
		}
	}
	for _, t := range turns {
		if t.Answer == got {
			l.Counted(c.safely(), t, t.Left)
		}
		if t.Passed {
			l.Passed(c.safely(), t)
		}
	}
	if left, ok := c.rest(name, turns); ok {
		l.Rest(c.safely(), left)
	}
}

// rest returns what was left of a count at the end, if somebody had set it and Redis did not lose it.
func (c *checker) rest(name string, turns []*Turn) (int64, bool) {
	left, known := c.Rest[name]
	known = known && c.Scene.Safe && slices.ContainsFunc(turns, func(t *Turn) bool { return t.Answer == got })
	if known {
		c.Figures.Counts++
	}
	return left, known
}

// idle measures for how long a permit was free while somebody waited for one. Others may take it again and again meanwhile, so
// that all these times count. It looks only where each turn wants one permit, because a waiter that wants several is passed.
func (c *checker) idle(name string, turns []*Turn) {
	if c.Scene.WakeUp == 0 || name != single {
		return
	}
	total := totalOf(name)
	type change struct {
		at  Moment
		out int
	}
	var changes []change
	for _, t := range turns {
		switch end := c.freed(t); {
		case t.Answer == refused:
		case end == 0:
			changes = append(changes, change{t.Asked, 1})
		case t.Answer == got:
			changes = append(changes, change{t.Answered, 1}, change{end, -1})
		default: // no reply is lost where this is checked, so it had one for a moment at most
			changes = append(changes, change{t.Answered, 1}, change{end, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return int(a.at - b.at) })
	for _, t := range turns {
		if t.Answer != got || c.stopped(t.Site, t.Asked, t.Answered) {
			continue
		}
		out, since, waited := 0, t.Asked, time.Duration(0)
		for _, ch := range append(changes, change{t.Answered, 0}) {
			at := min(max(ch.at, t.Asked), t.Answered)
			if out < total {
				waited += at.Sub(since)
			}
			since = at
			out += ch.out
			if ch.at >= t.Answered {
				break
			}
		}
		c.Figures.WakeUps = append(c.Figures.WakeUps, waited)
		c.judge().WakeUp("a permit of "+name, t.owner(), waited, c.Scene.WakeUp+c.noise)
	}
}

// keeps reports whether a turn may have kept its permits of a plain semaphore for good: its process was killed, or its client closed,
// while the turn had them or Redis was yet to be told.
func (c *checker) keeps(t *Turn) bool {
	if t.Answer == refused || t.Answer == got && t.Unlock == got {
		return false
	}
	return c.killed(t.Site) != 0 || c.Scene.closes()
}

// closes reports whether a nemesis closes clients.
func (s *Scene) closes() bool {
	return slices.ContainsFunc(s.Nemeses, func(n string) bool { return n == n1Close || strings.HasPrefix(n, "N23") })
}

// remaining checks how many permits of a plain semaphore are left at the end.
func (c *checker) remaining(name string, turns []*Turn) {
	left, ok := c.rest(name, turns)
	if !ok {
		return
	}
	least := int64(plainTotal)
	for _, t := range turns {
		if c.keeps(t) {
			least -= int64(max(t.Permits, 1))
		}
	}
	c.safely().Rest(name, left, least, plainTotal)
}
