// Package scene runs processes that use rlock in a simulated network, with faults that a seed decides, and checks the promises of rlock.
package scene

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
	"github.com/go-rlock/rlock/simulation/internal/simseed"
)

// Scene is a workload with faults.
type Scene struct {
	Servers   int // for red locks; other locks are on the first one
	Topology  string
	Acks      time.Duration // how long an acquisition waits for a replica; zero means that none does
	Broadcast bool          // all nodes of the cluster tell all subscribers, so nobody knows who listens: there is no line
	Processes int
	Workers   int // of each process
	Peers     int // of Redisson
	Duration  time.Duration
	Locks     []Lock
	Rest      time.Duration // the longest between two turns of a worker
	Hold      time.Duration // the longest usual hold
	Faults    simnet.Faults
	Nemeses   []string
	Pause     time.Duration // the usual one between two nemeses
	Options   []rlock.Option
	Beat      time.Duration // turns begin at multiples of it, so that few workers meet nevertheless; zero: each when it likes
	Grid      time.Duration // turns, holds and waits begin and end at multiples of it, so that several things happen at one moment; zero: when they like
	Panics    bool          // observers panic at times
	Total     bool          // semaphores are set up by their handles
	Identity  bool          // clients have identities, which they write
	Monitor   bool          // somebody receives what is published on all channels
	Gathers   bool          // calls wait for others, with which they go to the server
	HandsOver bool          // locks stay in a process for some turns
	Leans     []string      // what owners do often that they do seldom elsewhere
	MaxHold   time.Duration // see [rlock.WithMaxHold]; zero means no limit
	FairWait  time.Duration // see [tune.FairWait]; zero means the default

	Unsafe   bool          // Redis may forget: locks may be lost, and two owners may be inside
	WakeUp   time.Duration // how long a free lock with waiters may stay free
	Overtake time.Duration // by how much later an owner may ask for a fair lock and be first; zero: it is not checked
}

// Lock is something that the workers of a scene want.
type Lock struct {
	Kind string
	Name string // of a multi lock: of its members, separated by spaces
}

func (l Lock) String() string { return l.Kind + " " + l.Name }

func (s *Scene) String() string {
	return fmt.Sprintf("%d processes of %d workers, %d peers, %d servers %s, %v, rest %v, hold %v, beat %v, grid %v, nemeses %v every %v, panics %v, total %v, monitor %v, leans %v, limit %v, faults %+v, unsafe %v, %d options",
		s.Processes, s.Workers, s.Peers, s.Servers, s.Topology, s.Locks, s.Rest, s.Hold, s.Beat, s.Grid, s.Nemeses, s.Pause, s.Panics, s.Total, s.Monitor, s.Leans, s.MaxHold, s.Faults, s.Unsafe,
		len(s.Options))
}

// Result is what came of a run.
type Result struct {
	Seed     uint64
	Scene    string
	Broken   []string // the promises that were broken
	Hash     uint64   // of the trace
	Exact    bool     // the seed decided everything
	Virtual  time.Duration
	Commands int
	Got      int
	Refused  int
	Failed   int
	Lost     int
	Nemeses  int
}

// String is one line.
func (r *Result) String() string {
	return fmt.Sprintf("seed %d: trace %016x, %v, %d commands, %d acquisitions, %d refusals, %d failures, %d losses, %d nemeses, %d promises broken",
		r.Seed, r.Hash, r.Virtual.Round(time.Second), r.Commands, r.Got, r.Refused, r.Failed, r.Lost, r.Nemeses, len(r.Broken))
}

// run is a scene on stage. Its mutex guards all that the checkers know.
type run struct {
	Scene

	trace   *simnet.Trace
	servers []*simnet.Server
	group   *simnet.Group   // of the servers; nil if each is alone
	stop    context.Context //nolint:containedctx // it ends the run
	workers sync.WaitGroup

	mu         sync.Mutex
	res        Result
	locks      []*target // those of the scene, and the members of its multi locks
	wanted     []*target // those of the scene
	lines      []*line
	latches    map[string]*latch
	processes  []*process
	leaders    []*leader
	owners     int       // of anything, so far
	disturbed  time.Time // until when a nemesis may have consequences
	forgot     time.Time // when a server last forgot something
	forgetting bool      // it may be forgetting something now
	silences   []span    // in which a server answered nobody
}

// span is a time from one moment to another.
type span struct{ from, to time.Time }

// Play runs a scene in the present bubble. The events are written to w, unless it is nil.
func Play(s Scene, seed uint64, w io.Writer) Result {
	simseed.Seed(seed)
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], seed+1)
	uuid.SetRand(rand.NewChaCha8(b))
	defer uuid.SetRand(nil)
	stop, end := context.WithCancel(context.Background()) // a deadline would change what single attempts do
	time.AfterFunc(s.Duration, end)
	r := &run{Scene: s, trace: simnet.NewTrace(w), stop: stop, latches: make(map[string]*latch)}
	r.res.Seed, r.res.Scene, r.res.Exact = seed, s.String(), simseed.Deterministic
	r.build(seed)
	if r.Monitor {
		r.servers[0].Monitor()
	}
	r.prepare()
	random := rand.New(rand.NewPCG(seed, 99))
	for range s.Processes {
		r.start(random.Uint64())
	}
	for i := range s.Peers {
		r.peer(i, rand.New(rand.NewPCG(seed, 7000+uint64(i))))
	}
	r.workers.Go(func() { r.strike(rand.New(rand.NewPCG(seed, 5))) })
	r.workers.Go(r.watch)
	r.workers.Wait()
	r.calm()
	r.sweep()
	r.finish()
	r.res.Hash, r.res.Virtual = r.trace.Hash(), time.Since(r.trace.Began)
	for _, server := range r.servers {
		r.res.Commands += server.Commands()
	}
	return r.res
}

// most is how many broken promises a result lists.
const most = 20

// brokenf records a broken promise. The run must be locked.
func (r *run) brokenf(format string, args ...any) {
	if text := fmt.Sprintf("%v ", time.Since(r.trace.Began)) + fmt.Sprintf(format, args...); len(r.res.Broken) < most {
		r.res.Broken = append(r.res.Broken, text)
		r.trace.Note("BROKEN: %s", text)
	}
}

// checks returns the checkers. The run must be locked.
func (r *run) checks() promises.Judge { return r.brokenf }

// unlessForgotten are the same, unless Redis may forget. The run must be locked.
func (r *run) unlessForgotten() promises.Judge {
	if r.Unsafe {
		return promises.Nobody
	}
	return r.checks()
}

// moment is a moment as the checkers have it.
func (r *run) moment(t time.Time) promises.Moment { return promises.Moment(r.at(t)) }

// at is a moment as the trace has it.
func (r *run) at(t time.Time) time.Duration { return t.Sub(r.trace.Began) }

// disturb records that the faults of a nemesis may have consequences for so long.
func (r *run) disturb(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := time.Now().Add(d); end.After(r.disturbed) {
		r.disturbed = end
	}
}

// alive returns the processes that work.
func (r *run) alive() (all []*process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.processes {
		if !p.ended && !p.dead() {
			all = append(all, p)
		}
	}
	return all
}
