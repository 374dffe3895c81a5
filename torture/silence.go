package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// silence waits for as long as Redis is to be silent. Meanwhile some callers want locks that nobody else knows: what they
// are told about these locks cannot come from Redis, nor from another owner.
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
	clients := l.all()
	t := Turn{
		ID: l.ids.Add(1), Site: l.Name, Worker: -2, Kind: kindLock, Names: []string{l.name}, Try: l.try, Lease: watchdogTimeout,
		Renew: true, Renewal: watchdogTimeout, Client: clients[0].ID(), Verb: verbAcquire, Wait: l.wait,
	}
	s := section{
		worker: &worker{running: l.running}, Turn: &t, clients: clients, lock: handle(clients, kindLock, l.name),
		plan: plan{try: l.try, wait: l.wait, cancel: l.cancel, deadline: l.deadline},
	}
	ctx, opts, cancel := s.terms(context.Background())
	defer cancel()
	verb := s.lock.Acquire
	if l.try {
		verb = s.lock.TryAcquire
	}
	hold, err := verb(ctx, opts...)
	s.answered(ctx, err)
	if err == nil {
		s.believe(hold)
		s.unlock(context.Background(), hold)
	}
	l.emit(t)
}
