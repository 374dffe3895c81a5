package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock"
)

// silence waits while Redis is kept silent. Meanwhile some callers want locks that nobody else uses, so an answer about these locks
// can come neither from Redis nor from another owner.
func (a *Arena) silence(r *rand.Rand, e *Event, d time.Duration) {
	wait(20 * time.Millisecond) // the last replies are under way
	e.Silent = now()
	for n := range 4 {
		l := lonely{running: a.sites[r.IntN(len(a.sites))], name: fmt.Sprintf("lonely-%d-%d", e.Silent, n)}
		switch limit := time.Duration(1 + r.Int64N(int64(d))); n {
		case 0:
			l.try = true
		case 1:
			l.wait = limit
		case 2:
			l.cancel = limit
		case 3:
			l.deadline = limit
		}
		a.alone.Go(l.turn)
	}
	wait(d)
	e.Heard = now()
}

// lonely wants a lock that nobody else knows. One of the limits is set.
type lonely struct {
	*running

	name                   string
	try                    bool
	wait, cancel, deadline time.Duration
}

func (l lonely) turn() {
	s, hold := l.begin(plan{try: l.try, wait: l.wait, cancel: l.cancel, deadline: l.deadline})
	if hold != nil {
		s.unlock(context.Background(), hold)
	}
	l.emit(*s.Turn)
}

// begin acquires the lock. The hold is nil if it could not.
func (l lonely) begin(p plan) (*section, *rlock.Hold) {
	clients := l.all()
	t := Turn{
		ID: l.ids.Add(1), Site: l.Name, Worker: -2, Kind: kindLock, Names: []string{l.name}, Try: p.try, Lease: watchdogTimeout,
		Client: clients[0].ID(), Verb: verbAcquire, Wait: p.wait,
	}
	if t.Renew = p.lease == 0; t.Renew {
		t.Renewal = watchdogTimeout
	} else {
		t.Lease = p.lease
	}
	s := &section{
		worker: &worker{running: l.running}, Turn: &t, clients: clients, lock: handle(clients, kindLock, l.name), plan: p,
	}
	ctx, opts, cancel := s.terms(context.Background())
	defer cancel()
	verb := s.lock.Acquire
	if p.try {
		verb = s.lock.TryAcquire
	}
	hold, err := verb(ctx, opts...)
	if s.answered(ctx, err); err != nil {
		return s, nil
	}
	s.believe(hold)
	l.emit(t)
	return s, hold
}

// overstay acquires two locks before Redis is silent. The owner of the first one unlocks after the end of its lease. The
// owner of the second one extends its lease meanwhile.
func (a *Arena) overstay(r *rand.Rand) {
	if a.scene.Topology != topologySingle {
		return
	}
	at, site := now(), a.sites[r.IntN(len(a.sites))]
	late := lonely{running: site, name: fmt.Sprintf("late-%d", at)}
	if s, hold := late.begin(plan{lease: shortLease}); hold != nil {
		a.alone.Go(func() {
			<-hold.Done()
			s.unlock(context.Background(), hold)
			site.emit(*s.Turn)
		})
	}
	longer := lonely{running: site, name: fmt.Sprintf("longer-%d", at)}
	if s, hold := longer.begin(plan{}); hold != nil {
		a.alone.Go(func() {
			wait(20 * time.Millisecond) // until Redis is silent
			s.extend(hold, 5*watchdogTimeout)
			s.stillBelieves(hold)
			s.unlock(context.Background(), hold)
			site.emit(*s.Turn)
		})
	}
}
