package scene

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	rlockfault "github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/testkit/promises"
)

// solitude is a turn during which nobody else wants the target, and the process does nothing else.
type solitude struct {
	*attempt

	turns, executed int
}

// solitary returns the solitude of a turn that begins, or nil. The run must be locked.
func (w *worker) solitary(a *attempt) *solitude {
	quiet := !w.faulty() && len(w.Nemeses) == 0 && !w.Identity && !w.Panics && w.Peers == 0 && w.Servers <= 1 && w.Topology == ""
	plain := !a.again && a.extend == 0 && a.ticket == 0 && a.atLeast == 0 && a.visit > 6 && a.verb > 1 && !a.limited() && a.hold < 3*time.Second
	runs := a.lease > 0 && a.lease < 2*a.hold+time.Second || w.MaxHold > 0 // nothing is sent when such a hold is unlocked after its end
	if !quiet || !plain || runs || !a.alone || a.of.kind == kindMulti || a.of.counts() && w.Total || w.active != 1 || time.Since(w.idle) < 5*time.Second {
		return nil
	}
	return &solitude{a, w.turns, w.executed()}
}

// over checks that the turn has cost two commands. The run must be locked.
func (s *solitude) over(r *run) {
	if s == nil || !s.alone || s.p.turns != s.turns {
		return
	}
	if n := s.p.executed() - s.executed; n != 2 {
		r.brokenf("commands: a turn of %v for %s, which nobody else wanted, took %d commands instead of 2", s.p, s.of.name, n)
	}
}

// wasAsked checks that a single attempt that reports an outage has asked anything. It waits for nobody, so what others of its process knew does not
// count: a hold of theirs may have ended while the process was stopped. The run must be locked.
func (w *worker) wasAsked(a *attempt, c promises.Call) {
	skips := !a.try || a.past != nil || a.owned || a.of.group() || a.of.counts() || w.Faults.Pool > 0
	if skips || c.Class != promises.Outage || w.ctx.Err() != nil {
		return
	}
	// Before that, a client asks a cluster which node has the lock, and may get no reply.
	err, _ := c.Err.(error)
	if unlocated := w.Topology == topologyCluster && errors.Is(err, rlockfault.ErrNotSent); !unlocated && len(w.inquest.since(subject{0, a.of.name}, a.asked)) == 0 {
		w.brokenf("error: %v was told of an outage about %s, for which it has not asked: %v", w.process, a.of.name, c.Err)
	}
}

// executed returns how many commands the processes have sent in all.
func (r *run) executed() (n int) {
	for _, p := range r.processes {
		n += p.executed()
	}
	return n
}

// executed returns how many commands the process has sent.
func (p *process) executed() (n int) {
	for _, l := range p.links {
		n += l.Executed()
	}
	return n
}

// The last checks of a process.
const (
	keeps   = 4
	keepFor = 65 * time.Second
)

// keeping checks how many commands a process sends that holds several locks for long: one for each round of renewals.
func (r *run) keeping(p *process) {
	ctx := context.Background()
	var holds []*rlock.Hold
	for i := range keeps {
		hold, err := p.clients[0].NewLock(fmt.Sprintf("kept-%d", i)).Acquire(ctx)
		if err != nil {
			r.note("stuck: a lock that nobody else wants: %v", err)
			continue
		}
		holds = append(holds, hold)
	}
	before := p.executed()
	time.Sleep(keepFor)
	most := int(keepFor/(watchdogTimeout/3)) + 1
	if n := p.executed() - before; n > most {
		r.note("commands: %v renewed %d locks for %v with %d commands instead of %d", p, len(holds), keepFor, n, most)
	}
	for _, hold := range holds {
		if err := hold.Unlock(ctx); err != nil {
			r.note("unlock: that of a lock that nobody else wants: %v", err)
		}
	}
}

// The turns of handing: how many each process takes, and how many before those that are counted.
const (
	handTurns  = 20
	handBefore = 4
	handHold   = 20 * time.Millisecond
)

// handing checks what a hand-off costs when all faults are over, and only rlock waits: two commands, whatever the number of processes. A
// question is refused, and a release gives the lock to the next process. Before, all have subscribed. When the line begins and ends, those who
// watch the free lock may ask twice more.
func (r *run) handing(kind string, all []*process) {
	t := &target{kind: kind, name: "handed"}
	turns := func(n int) {
		var wg sync.WaitGroup
		for _, p := range all {
			wg.Go(func() {
				lock := p.acquirer(t, false)
				for range n {
					hold, err := lock.Acquire(context.Background())
					if err == nil {
						time.Sleep(handHold) // meanwhile all others ask, so that the line is never empty
						err = hold.Unlock(context.Background())
					}
					if err != nil {
						r.note("stuck: a lock for which all processes take turns: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	turns(handBefore)
	before := r.executed()
	turns(handTurns)
	most := 2 * len(all) * (handTurns + 1)
	if r.Topology != "" {
		most += 2 * len(all) // a process is sent to the node that has the slot now, which may not know the script
	}
	if n := r.executed() - before; n > most {
		r.note("commands: %d turns of %d processes for a %s lock took %d commands instead of %d", handTurns*len(all), len(all), kind, n, most)
	}
}

// sendNothing checks that processes send nothing while they have nothing and want nothing.
func (r *run) sendNothing() {
	before := r.executed()
	time.Sleep(30 * time.Second)
	if n := r.executed() - before; n > 0 {
		r.note("commands: %d were sent although nobody has or wants anything", n)
	}
}
