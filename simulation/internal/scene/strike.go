package scene

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// strike is one strike of a nemesis.
type strike struct {
	*run

	p      *process
	random *rand.Rand
	on     *simnet.Server
}

// upTo draws a duration.
func (s strike) upTo(d time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(d) + 1))
}

// outage is the longest that a lease survives which the line has just granted.
const outage = 2300 * time.Millisecond

// silence records for how long nothing comes back. On several servers, others answer.
func (s strike) silence(d time.Duration, of *[]span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.servers) == 1 {
		*of = append(*of, span{time.Now(), time.Now().Add(d)})
	}
}

// network strikes what is between a process and the servers.
func (s strike) network(what string) {
	switch what {
	case nemesisBreak:
		for _, l := range s.p.links {
			l.BreakSubscriptions(false, s.upTo(2*time.Second))
		}
	case nemesisDeaf:
		for _, l := range s.p.links {
			l.BreakSubscriptions(true, s.upTo(8*time.Second))
		}
		s.disturb(8 * time.Second)
	case nemesisCut:
		d := s.upTo(outage)
		s.silence(d, &s.p.cuts)
		for _, l := range s.p.links {
			l.Cut(d)
		}
		s.disturb(d + 8*time.Second)
		time.Sleep(d + 4*time.Second)
	case nemesisClog:
		s.clog()
	}
}

// clog has some connections of the process hang in one direction: commands are carried out long after they were sent, and after later ones, or
// their replies come late. Others pass meanwhile. Sometimes that takes longer than the command timeout, but less than two thirds of any lease
// that is renewed.
func (s strike) clog() {
	d := logarithmic(s.random, 20*time.Millisecond, outage)
	if s.random.IntN(4) == 0 {
		d = commandTimeout + s.upTo(1500*time.Millisecond)
		s.mu.Lock()
		s.p.clogs = append(s.p.clogs, span{time.Now(), time.Now().Add(d)})
		s.mu.Unlock()
	}
	c := []simnet.Clog{{Replies: 1}, {Replies: 0.5}, {Requests: 0.5}, {Requests: 0.4, Replies: 0.4}}[s.random.IntN(4)]
	c.Messages = s.random.IntN(2) == 0
	for _, l := range s.p.links {
		l.Clog(d, c)
	}
	s.disturb(d + 2*time.Second)
	time.Sleep(d)
}

// server strikes a server, which forgets no data.
func (s strike) server(what string) {
	switch what {
	case nemesisFlush:
		s.on.With(func(r *simredis.Server) { r.FlushScripts() })
	case nemesisLoading, nemesisFull:
		s.refuses(what, s.upTo(outage), 8*time.Second)
	case nemesisBusy:
		s.refuses(what, s.upTo(outage), 2*time.Second) // a subscription is asked for again after a second
	case nemesisHang:
		d := s.upTo(outage)
		s.silence(d, &s.silences)
		s.on.Hang(d)
		s.disturb(d + 8*time.Second)
		time.Sleep(d + 4*time.Second)
	case nemesisRestart:
		d := s.upTo(2 * time.Second)
		s.disturb(d + 12*time.Second)
		s.on.Stop()
		time.Sleep(d)
		s.on.Start(s.on.Snapshot())
		time.Sleep(4 * time.Second)
	}
}

// refuses has a server refuse commands for a while, of which the consequences last for another while.
func (s strike) refuses(what string, d, after time.Duration) {
	s.disturb(d + after)
	set := func(on bool) {
		s.on.With(func(r *simredis.Server) {
			switch {
			case what == nemesisLoading:
				r.SetLoading(on)
			case what == nemesisBusy:
				r.SetBusy(on)
			case on:
				r.Do("CONFIG", "SET", "maxmemory", "1")
			default:
				r.Do("CONFIG", "SET", "maxmemory", "0")
			}
		})
	}
	set(true)
	time.Sleep(d)
	set(false)
	time.Sleep(4 * time.Second)
}

// A killed process may have held locks until their leases end, and adopted ones longer.
const leasesEnd = 42 * time.Second

// fairWait is for how long a dead waiter may stand at the head of a fair queue: a minute, and the time for a question. On a
// cluster with classic pub/sub, no script can tell that it is dead.
const fairWait = time.Minute + 10*time.Second

// end ends a process, unless it is the last one, and starts another.
func (s strike) end(what string, alive int) {
	s.mu.Lock()
	holds := s.p.clients[0].Stats().Held > 0
	s.mu.Unlock()
	if alive <= 1 || what == nemesisWaiter && holds {
		return
	}
	if s.Broadcast && slices.ContainsFunc(s.locks, (*target).fair) {
		s.disturb(fairWait)
	}
	switch what {
	case nemesisKill:
		s.disturb(leasesEnd)
		s.p.kill()
	case nemesisWaiter:
		s.p.kill()
	default:
		s.disturb(leasesEnd)
		s.mu.Lock()
		s.p.ended = true
		s.mu.Unlock()
		limit := 10*time.Second + time.Duration(s.random.IntN(2))*s.upTo(2*time.Minute)
		s.workers.Go(func() {
			if what == nemesisShutdown {
				s.p.self.Do(func() { s.shutdown(limit) })
			}
			s.p.cancel()
			s.disturb(leasesEnd)
			s.p.close()
		})
	}
	s.start(s.random.Uint64())
}

// restore starts the server with an old snapshot.
func (s strike) restore(old *simredis.DB) {
	s.disturb(leasesEnd + 10*time.Second)
	s.isForgetting()
	s.on.Stop()
	time.Sleep(s.upTo(2 * time.Second))
	s.on.Start(old)
	s.hasForgotten()
}

// forget has a server forget something, or step its clock.
func (s strike) forget(what string) {
	s.disturb(leasesEnd + 10*time.Second)
	s.isForgetting()
	defer s.hasForgotten()
	switch what {
	case nemesisForce:
		s.force()
	case nemesisAmnesia:
		s.on.Stop()
		time.Sleep(s.upTo(3 * time.Second))
		s.on.Start(nil)
		s.setPermits()
	case nemesisFailover:
		if s.group != nil {
			s.failOver()
			return
		}
		replica := s.on.Snapshot()
		time.Sleep(s.upTo(2 * time.Second))
		s.on.Stop()
		time.Sleep(s.upTo(5 * time.Second))
		s.on.Start(replica)
	case nemesisClock:
		s.on.StepClock(s.upTo(20*time.Second) - 10*time.Second)
	case nemesisFlushAll:
		s.on.Do("FLUSHALL")
		s.setPermits()
	case nemesisDelete:
		locks := slices.DeleteFunc(slices.Clone(s.locks), (*target).counts)
		if len(locks) > 0 {
			t := locks[s.random.IntN(len(locks))]
			began := time.Now()
			s.on.Do("DEL", t.name)
			s.mu.Lock()
			t.deleting, t.deleted = began, time.Now()
			s.mu.Unlock()
		}
	}
}

// isForgetting notes that the server is about to forget something.
func (s strike) isForgetting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetting = true
}

// hasForgotten notes what a server has, that it has forgotten something, and when.
func (s strike) hasForgotten() {
	s.relics()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgot, s.forgetting = time.Now(), false
}

// force has a process free a lock, whoever has it. The holds of the process itself are lost at once.
func (s strike) force() {
	locks := slices.DeleteFunc(slices.Clone(s.locks), func(t *target) bool { return t.counts() || t.kind == kindRed || t.kind == kindLatch })
	if len(locks) == 0 {
		return
	}
	t := locks[s.random.IntN(len(locks))]
	lock, _ := s.p.acquirer(t, false).(*rlock.Lock)
	s.mu.Lock()
	var mine []*holder
	for _, h := range t.inside {
		if h.p == s.p && !h.ends && !h.blind && h.err() == nil && !h.reads {
			mine = append(mine, h)
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var forced bool
	var err error
	began := time.Now()
	s.p.self.Do(func() { forced, err = lock.ForceUnlock(ctx) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && forced {
		t.deleting, t.deleted = began, time.Now()
	}
	if slices.Contains(s.Nemeses, nemesisClock) {
		return // where Redis's clock was set back, what was freed seems older than the hold: a renewal tells of the loss
	}
	for _, h := range mine { // of which one may have become blind meanwhile
		if err == nil && forced && !h.ends && !h.blind && h.err() == nil {
			s.brokenf("force: %v freed %s by force, and its own hold goes on", s.p, t.name)
		}
	}
}
