// Package turns plays the next core of rlock, internal/core, in the simulated network: processes that want a few locks, beside peers that lock as
// Redisson does, with faults that a seed decides. It checks that nobody has what another one has, that a free lock does not stay free while
// somebody waits for it, and that nothing is left in the end.
package turns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/core/coretest"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

const (
	commandTimeout = time.Second
	watchdog       = 10 * time.Second
	term           = 3 * time.Second // of a grant
)

// Scene is what a seed draws.
type Scene struct {
	Processes, Workers, Peers, Names int
	// Permits are how many permits each name has, and Wants how many a caller wants at most. Zero means that the names are locks.
	Permits, Wants int

	Length     time.Duration
	Rest, Hold time.Duration // at most
	Impatient  bool          // waits are short
	Faults     simnet.Faults
	Kills      bool // processes die, and others start
	Breaks     bool // subscriptions break
	Steps      bool // Redis's clock steps
}

// Draw draws a scene.
func Draw(seed uint64) Scene {
	r := rand.New(rand.NewPCG(seed, 1))
	yes := func(p float64) bool { return r.Float64() < p }
	s := Scene{
		Processes: 1 + r.IntN(4), Workers: 1 + r.IntN(3), Names: 1 + r.IntN(2), Length: time.Minute,
		Rest: time.Duration(1+r.IntN(300)) * time.Millisecond, Hold: time.Duration(1+r.IntN(100)) * time.Millisecond,
		Impatient: yes(0.3), Kills: yes(0.3), Breaks: yes(0.3), Steps: yes(0.1),
		Faults: simnet.Faults{Latency: time.Duration(200+r.IntN(5000)) * time.Microsecond},
	}
	if yes(0.4) {
		s.Peers = 1 + r.IntN(3)
	}
	if s.Peers == 0 && yes(0.4) {
		s.Permits, s.Steps = 1+r.IntN(4), false // the leases of permits end by Redis's clock
		s.Wants = 1 + r.IntN(s.Permits)
	}
	if yes(0.3) { // a process wants the lock again at once
		s.Rest = 10 * time.Microsecond
	}
	if yes(0.5) {
		f := &s.Faults
		f.Slow, f.SlowMax = 0.1*r.Float64(), time.Duration(1+r.IntN(200))*time.Millisecond
		f.LostSend, f.LostReply, f.Silent = 0.02*r.Float64(), 0.02*r.Float64(), 0.01*r.Float64()
		f.Late, f.Repeated, f.LateMax, f.Aim = 0.02*r.Float64(), 0.01*r.Float64(), 8*time.Second, 1
	}
	return s
}

// Result is what came of a scene.
type Result struct {
	Got, Refused, Failed, Lost, Peers int
	Idle                              time.Duration // the longest time for which a lock was free while somebody waited
	Waited                            time.Duration // the longest wait of a peer
	Broken                            []string
}

type run struct {
	Scene
	server *simnet.Server
	trace  *simnet.Trace
	stop   chan struct{}

	mu      sync.Mutex
	res     Result
	holders map[string]map[*core.Hold]string // who believes to hold a lock
	foreign map[string]string                // the peer that has it
	waiting map[string]map[any]time.Time     // since when somebody has waited for it
	taken   map[string]time.Time             // when somebody of rlock last got it
}

// Play plays a scene in the bubble of its caller.
func Play(s Scene, seed uint64, trace *simnet.Trace) Result {
	r := &run{
		Scene: s, trace: trace, stop: make(chan struct{}), holders: make(map[string]map[*core.Hold]string), foreign: make(map[string]string),
		waiting: make(map[string]map[any]time.Time), taken: make(map[string]time.Time),
	}
	r.server = simnet.NewServer("redis", seed, trace, s.Faults)
	for i := range s.Names {
		if s.Permits > 0 {
			r.server.Do("SET", name(i), strconv.Itoa(s.Permits))
		}
	}
	var all sync.WaitGroup
	for i := range s.Processes {
		all.Go(func() { r.processes(i, seed) })
	}
	for i := range s.Peers {
		all.Go(func() { r.peer(i, seed) })
	}
	all.Go(r.watch)
	if s.Steps {
		all.Go(func() { r.steps(seed) })
	}
	time.Sleep(s.Length)
	close(r.stop)
	r.server.Set(simnet.Faults{Latency: s.Faults.Latency})
	all.Wait()
	time.Sleep(max(watchdog, 30*time.Second) + s.Faults.LateMax)
	for i := range s.Names {
		if s.Permits > 0 {
			r.leftPermits(i)
		} else if left := r.server.Do("HGETALL", name(i)); fmt.Sprint(left) != "[]" {
			r.brokenf("left: %s has %v", name(i), left)
		}
	}
	return r.res
}

// leftPermits checks that all permits of a name have come back, but for those whose leases are over: the next one who asks takes them back.
func (r *run) leftPermits(i int) {
	free, out := fmt.Sprint(r.server.Do("GET", name(i))), fmt.Sprint(r.server.Do("ZCARD", "{"+name(i)+"}:timeout"))
	f, _ := strconv.Atoi(free)
	o, _ := strconv.Atoi(out)
	running := fmt.Sprint(r.server.Do("ZCOUNT", "{"+name(i)+"}:timeout", fmt.Sprint("(", time.Now().UnixMilli()), "+inf"))
	if f+o != r.Permits || running != "0" {
		r.brokenf("left: %s has %s free and %s out, %s with a lease, of %d", name(i), free, out, running, r.Permits)
	}
}

func name(i int) string { return "lock" + strconv.Itoa(i) }

func (r *run) brokenf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.trace.Note("BROKEN: %s", text)
	r.res.Broken = append(r.res.Broken, text)
}

func (r *run) ended() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// rest sleeps, unless the scene ends.
func (r *run) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.stop:
	}
}

// processes plays one process after another.
func (r *run) processes(i int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 100+uint64(i)))
	for life := 0; !r.ended(); life++ {
		r.process(fmt.Sprintf("p%d.%d", i, life), random)
	}
}

func (r *run) process(who string, random *rand.Rand) {
	link := r.server.NewLink(who)
	id := []byte(uuid.NewString())
	id[14] = '8'
	d, err := link.Open(driver.Config{CommandTimeout: commandTimeout})
	if err != nil {
		panic(err)
	}
	c := coretest.Open(core.Config{ID: string(id), CommandTimeout: commandTimeout, WatchdogTimeout: watchdog}, d)
	r.trace.Note("%s starts, and is %s", who, id)
	life, end := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for w := range r.Workers {
		own := rand.New(rand.NewPCG(random.Uint64(), uint64(w)))
		workers.Go(func() { r.work(life, c, who, own) })
	}
	kill, breaks := r.Length*2, r.Length*2
	for !r.ended() && life.Err() == nil {
		if r.Kills {
			kill = time.Duration(random.Int64N(int64(20 * time.Second)))
		}
		if r.Breaks {
			breaks = time.Duration(random.Int64N(int64(8 * time.Second)))
		}
		r.rest(min(kill, breaks))
		switch {
		case r.ended():
		case kill < breaks:
			r.trace.Note("%s dies", who)
			link.Kill()
			r.mu.Lock()
			for _, all := range r.holders {
				for h, p := range all {
					if p == who {
						delete(all, h)
					}
				}
			}
			r.mu.Unlock()
			end()
		default:
			r.trace.Note("the subscription of %s breaks", who)
			link.BreakSubscriptions(random.IntN(3) == 0, time.Duration(random.Int64N(int64(2*time.Second))))
		}
	}
	dead := link.Dead()
	end()
	workers.Wait()
	closing, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	if dead {
		cancel()
	}
	c.Close(closing)
	cancel()
}

func (r *run) work(life context.Context, c *coretest.Client, who string, random *rand.Rand) {
	for !r.ended() && life.Err() == nil {
		r.rest(time.Duration(random.Int64N(int64(r.Rest))))
		key := name(random.IntN(r.Names))
		t := core.Terms{Key: key, Single: random.IntN(8) == 0}
		if r.Permits > 0 {
			t.Kind, t.Flags = core.Permits, strconv.Itoa(1+random.IntN(r.Wants))
		}
		if random.IntN(4) == 0 {
			t.Lease = term + time.Duration(random.Int64N(int64(term)))
		}
		wait := time.Duration(random.Int64N(int64(20 * time.Second)))
		if r.Impatient {
			wait = time.Duration(random.Int64N(int64(4 * r.Hold)))
		}
		ctx, cancel := context.WithTimeout(life, wait)
		me := new(int)
		r.mu.Lock()
		if !t.Single {
			r.waits(key, me)
		}
		r.mu.Unlock()
		h, err := c.Acquire(ctx, t)
		r.got(key, who, me, h, err)
		if h != nil {
			r.rest(time.Duration(random.Int64N(int64(r.Hold))))
			r.leave(key, h)
			err = h.Unlock(context.Background())
			r.mu.Lock()
			if errors.Is(err, fault.ErrLost) {
				if r.res.Lost++; r.calm() && r.Faults.LateMax == 0 && life.Err() == nil {
					r.brokenf("lost: %s has lost %s, although nothing had happened", who, key)
				}
			}
			r.mu.Unlock()
		}
		cancel()
	}
}

// waits notes that somebody waits for a lock. r.mu must be held.
func (r *run) waits(key string, who any) {
	if r.waiting[key] == nil {
		r.waiting[key] = make(map[any]time.Time)
	}
	r.waiting[key][who] = time.Now()
}

// got notes the outcome of an acquisition.
func (r *run) got(key, who string, me any, h *core.Hold, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting[key], me)
	switch {
	case h == nil && err == nil:
		r.brokenf("error: %s has neither %s nor an error", who, key)
	case errors.Is(err, fault.ErrNotAcquired):
		r.res.Refused++
	case err != nil:
		r.res.Failed++
	}
	if h == nil {
		return
	}
	r.res.Got++
	r.taken[key] = time.Now()
	if r.holders[key] == nil {
		r.holders[key] = make(map[*core.Hold]string)
	}
	out := permits(h)
	for other := range r.holders[key] {
		if other.Err() == nil {
			out += permits(other)
		}
	}
	for other, p := range r.holders[key] {
		if out > r.Permits && other.Err() == nil && h.Err() == nil {
			r.brokenf("exclusion: %s got %s, which %s has until %v", who, key, p, time.Until(other.Deadline()))
		}
	}
	if p := r.foreign[key]; p != "" && h.Err() == nil {
		r.brokenf("exclusion: %s got %s, which %s has", who, key, p)
	}
	r.holders[key][h] = who
}

// permits returns how many permits a hold has. A lock has 0.
func permits(h *core.Hold) int {
	n, _ := strconv.Atoi(h.Flags())
	return n
}

func (r *run) leave(key string, h *core.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.holders[key], h)
}

// steps has Redis's clock step.
func (r *run) steps(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	for !r.ended() {
		r.rest(time.Duration(random.Int64N(int64(20 * time.Second))))
		r.server.StepClock(time.Duration(random.Int64N(int64(2*time.Second))) - time.Second/2)
	}
}

// calm reports whether nothing may keep a message or a command from arriving.
func (r *run) calm() bool { return r.Faults.Silent == 0 && !r.Kills && !r.Breaks && !r.Steps }
