// Package scene runs several rlock clients on the simulated network, with faults that a seed decides, and checks the promises of rlock.
package simulation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
	"github.com/go-rlock/rlock/simulation/internal/simredis"
	"github.com/go-rlock/rlock/simulation/internal/simseed"
	"github.com/google/uuid"
)

// Scene is a workload with faults.
type Scene struct {
	Name        string
	Clients     int
	Workers     int // of each client
	Duration    time.Duration
	Faults      simnet.Faults
	Mix         []string // kinds; each has one name, or several separated by commas after a colon
	Rest        time.Duration
	Hold        time.Duration // the longest usual
	Nemeses     []string
	Pause       time.Duration // between two nemeses
	Unsafe      bool          // locks may be lost, and two may be inside
	WakeUp      time.Duration // how long a free lock with waiters may stay free
	Overtake    time.Duration // zero: order is not checked
	ShortLeases bool          // report leases that are nearly over when they begin
	Foreign     int           // peers of Redisson
	Options     []rlock.Option
}

// Result is what came of a run.
type Result struct {
	Broken   []string
	Hash     uint64
	Commands int
	Messages int
	Got      int
	Refused  int
	Failed   int
	Lost     int
	Short    int
	Nemeses  int
	Virtual  time.Duration
	Trace    []string
	World    *simnet.World
	Log      []string
}

type run struct {
	Scene
	w    *simnet.World
	seed uint64

	mu       sync.Mutex
	res      Result
	names    map[string]*name
	procs    []*proc
	workers  sync.WaitGroup
	stop     context.Context
	disturbs time.Time // until when a nemesis may have consequences
}

type proc struct {
	*run
	index  int
	link   *simnet.Link
	client *rlock.Client
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

type name struct {
	kind, name string
	inside     []*believer
	waiting    []*attempt
	token      rlock.Token
	freeSince  time.Time
	permits    int
	out        int
}

type believer struct {
	p     *proc
	hold  *rlock.Hold
	reads bool
	n     int
	since time.Time
	key   string
}

type attempt struct {
	p           *proc
	asked       time.Time
	limited     bool
	n           int
	reads       bool
	troubled    bool
	ticks, free int // how often the monitor saw it wait, and the lock free then
	told        bool
}

func (r *run) brokenf(format string, args ...any) {
	if len(r.res.Broken) < 20 {
		r.res.Broken = append(r.res.Broken, fmt.Sprintf("%v ", time.Since(r.w.Began))+fmt.Sprintf(format, args...))
	}
}

type logHandler struct {
	r *run
	p int
}

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h logHandler) Handle(_ context.Context, rec slog.Record) error {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	if len(h.r.res.Log) < 200 {
		var attrs []string
		rec.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a.String()); return true })
		h.r.res.Log = append(h.r.res.Log, fmt.Sprintf("%v p%d %s %v", time.Since(h.r.w.Began), h.p, rec.Message, attrs))
	}
	return nil
}
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHandler) WithGroup(string) slog.Handler      { return h }

// Recording has Play keep what happens at the server, see Result.World.
var Recording bool

// Play runs a scene in the present bubble.
func Play(s Scene, seed uint64, keep bool) *Result {
	simseed.Seed(seed)
	r := &run{Scene: s, seed: seed, w: simnet.NewWorld(seed), names: map[string]*name{}}
	r.w.Faults, r.w.Keep, r.w.Record = s.Faults, keep, Recording
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], seed+1)
	uuid.SetRand(rand.NewChaCha8(b))
	defer uuid.SetRand(nil)
	for _, m := range s.Mix {
		kind, list, ok := strings.Cut(m, ":")
		if !ok {
			list = strings.ReplaceAll(kind, " ", "")
		}
		for _, n := range strings.Split(list, ",") {
			r.names[n] = &name{kind: kind, name: n, permits: 3}
		}
	}
	stop, end := context.WithTimeout(context.Background(), s.Duration)
	defer end()
	r.stop = stop
	random := rand.New(rand.NewPCG(seed, 99))
	for i := range s.Clients {
		r.start(i, random.Uint64())
	}
	r.setUp()
	for i := range s.Foreign {
		r.foreign(i, rand.New(rand.NewPCG(seed, 7000+uint64(i))))
	}
	r.workers.Go(func() { r.nemeses(rand.New(rand.NewPCG(seed, 5))) })
	r.workers.Go(r.monitor)
	r.workers.Wait()
	r.calm()
	r.sweep()
	r.finish()
	r.res.Hash, r.res.Commands, r.res.Messages = r.w.Hash(), r.w.Commands, r.w.Messages
	r.res.World = r.w
	r.res.Virtual, r.res.Trace = time.Since(r.w.Began), r.w.Trace
	return &r.res
}

// setUp gives the semaphores their permits.
func (r *run) setUp() {
	for _, n := range r.sorted() {
		switch n.kind {
		case "semaphore":
			r.procs[0].link.Exec("SET", n.name, fmt.Sprint(n.permits))
		case "plainsemaphore":
			r.procs[0].link.Exec("SET", n.name, fmt.Sprint(n.permits))
		}
	}
}

func (r *run) sorted() []*name {
	var all []*name
	for _, n := range r.names {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *name) int { return strings.Compare(a.name, b.name) })
	return all
}

// start starts a process.
func (r *run) start(i int, seed uint64) {
	p := &proc{run: r, index: i, link: r.w.NewLink(fmt.Sprintf("p%d", i))}
	p.ctx, p.cancel = context.WithCancel(r.stop)
	opts := append([]rlock.Option{rlock.WithLogger(slog.New(logHandler{r, i}))}, r.Options...)
	made, err := driver.Attach(p.link.Open(), opts)
	if err != nil {
		panic(err)
	}
	p.client = made.(*rlock.Client)
	r.mu.Lock()
	r.procs = append(r.procs, p)
	r.mu.Unlock()
	for j := range r.Workers {
		rr := rand.New(rand.NewPCG(seed, uint64(j)))
		p.wg.Add(1)
		r.workers.Go(func() {
			defer p.wg.Done()
			time.Sleep(time.Duration(rr.IntN(int(100 * time.Millisecond))))
			for p.ctx.Err() == nil {
				p.turn(rr)
				time.Sleep(time.Duration(rr.Int64N(int64(max(p.Rest, time.Millisecond)))))
			}
		})
	}
}

// alive returns the processes that were not killed.
func (r *run) alive() (all []*proc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.procs {
		if !p.link.Dead() {
			all = append(all, p)
		}
	}
	return all
}

// turn is one acquisition of a worker.
func (p *proc) turn(rr *rand.Rand) {
	all := p.sorted()
	n := all[rr.IntN(len(all))]
	ctx, cancel := p.ctx, context.CancelFunc(func() {})
	var opts []rlock.AcquireOption
	limited, try := true, false
	switch k := rr.IntN(100); {
	case k < 10:
		try = true
	case k < 25:
		opts = append(opts, rlock.Wait(time.Duration(1+rr.IntN(3000))*time.Millisecond))
	case k < 35:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+rr.IntN(3000))*time.Millisecond)
	case k < 40:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+rr.IntN(3000))*time.Microsecond)
	default:
		limited = false
	}
	defer cancel()
	hold := time.Duration(rr.Int64N(int64(p.Hold) + 1))
	switch k := rr.IntN(100); {
	case k < 5:
		hold *= 20
	case k < 7:
		hold = time.Duration(rr.Int64N(int64(40 * time.Second)))
	}
	renewed := true
	if k := rr.IntN(100); k < 10 && n.kind != "plainsemaphore" {
		opts = append(opts, rlock.Lease(time.Duration(500+rr.IntN(4000))*time.Millisecond))
		renewed = false
	}
	reads := false
	permits := 1
	var acquire func(context.Context, ...rlock.AcquireOption) (*rlock.Hold, error)
	pick := func(l *rlock.Lock) func(context.Context, ...rlock.AcquireOption) (*rlock.Hold, error) {
		if try {
			return l.TryAcquire
		}
		return l.Acquire
	}
	switch n.kind {
	case "lock":
		acquire = pick(p.client.NewLock(n.name))
	case "fenced":
		acquire = pick(p.client.NewFencedLock(n.name))
	case "fair":
		acquire = pick(p.client.NewFairLock(n.name))
	case "spin":
		acquire = pick(p.client.NewSpinLock(n.name))
	case "rw":
		if reads = rr.IntN(3) > 0; reads {
			acquire = pick(p.client.NewRWLock(n.name).ReadLock())
		} else {
			acquire = pick(p.client.NewRWLock(n.name).WriteLock())
		}
	case "semaphore", "plainsemaphore":
		if permits = 1 + rr.IntN(n.permits); permits > 1 {
			opts = append(opts, rlock.Permits(permits))
		}
		if n.kind == "semaphore" {
			s := p.client.NewSemaphore(n.name)
			if acquire = s.Acquire; try {
				acquire = s.TryAcquire
			}
		} else {
			s := p.client.NewPlainSemaphore(n.name)
			if acquire = s.Acquire; try {
				acquire = s.TryAcquire
			}
		}
	default:
		panic(n.kind)
	}
	a := &attempt{p: p, asked: time.Now(), limited: limited || try, n: permits, reads: reads}
	p.mu.Lock()
	n.waiting = append(n.waiting, a)
	p.mu.Unlock()
	h, err := acquire(ctx, opts...)
	p.mu.Lock()
	n.waiting = slices.DeleteFunc(n.waiting, func(o *attempt) bool { return o == a })
	if err != nil {
		if errors.Is(err, rlock.ErrNotAcquired) {
			p.res.Refused++
		} else {
			p.res.Failed++
		}
		p.mu.Unlock()
		return
	}
	if p.link.Dead() {
		p.mu.Unlock()
		return
	}
	p.res.Got++
	b := &believer{p: p, hold: h, reads: reads, n: permits, since: time.Now()}
	p.enters(n, a, b)
	if left := time.Until(h.Deadline()); renewed && n.kind != "plainsemaphore" && left < 200*time.Millisecond && !p.Unsafe {
		p.res.Short++
		if p.ShortLeases {
			p.brokenf("short: p%d got %s for %v", p.index, n.name, left)
		}
	}
	p.w.Note("p%d got %s, deadline %v, renewed %v, hold %v", p.index, n.name, h.Deadline().Sub(p.w.Began), renewed, hold)
	p.mu.Unlock()
	end := time.Now().Add(hold)
	lost := false
	if rr.IntN(2) == 0 { // it looks at its context
		t := time.NewTimer(hold)
		select {
		case <-h.Done():
			lost = true
		case <-t.C:
		}
		t.Stop()
	} else {
		time.Sleep(time.Until(end))
		lost = h.Err() != nil
	}
	if p.link.Dead() {
		return
	}
	p.mu.Lock()
	n.inside = slices.DeleteFunc(n.inside, func(o *believer) bool { return o == b })
	p.w.Note("p%d ends with %s, lost %v", p.index, n.name, lost)
	if lost {
		p.res.Lost++
		young := time.Since(b.since) < 3200*time.Millisecond // of its first term there may be too little left to survive an outage
		if renewed && !p.Unsafe && !(young && (time.Now().Before(p.disturbs) || p.Faults.Silent+p.Faults.Late > 0)) {
			p.brokenf("false loss: p%d lost %s, which it had since %v: %v", p.index, n.name, b.since.Sub(p.w.Began), h.Err())
		}
	}
	p.mu.Unlock()
	deadline := h.Deadline()
	err = h.Unlock(context.WithoutCancel(ctx))
	if errors.Is(err, rlock.ErrLost) && !lost && renewed && !p.Unsafe && time.Now().Before(deadline) && !p.link.Dead() {
		p.mu.Lock()
		p.brokenf("an unlock by p%d of %s reports a loss before the deadline: %v", p.index, n.name, err)
		p.mu.Unlock()
	}
}

// enters checks an acquisition against those that are inside.
func (p *proc) enters(n *name, a *attempt, b *believer) {
	sum := b.n
	for _, o := range n.inside {
		if o.p.link.Dead() || o.hold.Err() != nil {
			continue
		}
		sum += o.n
		if p.Unsafe {
			continue
		}
		if !strings.HasSuffix(n.kind, "semaphore") && !(o.reads && b.reads) {
			p.brokenf("exclusion: p%d got %s, which p%d has since %v", p.index, n.name, o.p.index, o.since.Sub(p.w.Began))
		}
	}
	if strings.HasSuffix(n.kind, "semaphore") && sum > n.permits && !p.Unsafe {
		p.brokenf("permits: %d of %s are held, but there are %d", sum, n.name, n.permits)
	}
	if t := b.hold.Token(); n.kind == "fenced" {
		if t <= n.token && !p.Unsafe {
			p.brokenf("token: p%d got %s with the token %d after %d", p.index, n.name, t, n.token)
		}
		n.token = max(t, n.token)
	}
	if n.kind == "fair" && p.Overtake > 0 {
		for _, o := range n.waiting {
			if o.asked.Add(p.Overtake).Before(a.asked) && o.p.link.Healthy() && !o.troubled {
				p.brokenf("order: p%d, which asked for %s at %v, overtook p%d, which asked at %v", p.index, n.name, a.asked.Sub(p.w.Began), o.p.index, o.asked.Sub(p.w.Began))
			}
		}
	}
	n.inside = append(n.inside, b)
}

// monitor looks for locks that are free although somebody waits.
func (r *run) monitor() {
	for r.stop.Err() == nil {
		time.Sleep(50*time.Millisecond + 7)
		free := map[string]bool{}
		down := r.w.IsDown()
		r.w.With(func(s *simredis.Server) {
			for _, n := range r.names {
				switch n.kind {
				case "spin", "rw":
				case "semaphore", "plainsemaphore":
					v, _ := s.Do("GET", n.name).(string)
					have := 0
					fmt.Sscan(v, &have)
					free[n.name] = have >= n.permits
				default:
					free[n.name] = s.Do("EXISTS", n.name) == int64(0)
				}
			}
		})
		now := time.Now()
		r.mu.Lock()
		for _, n := range r.sorted() {
			waits := false
			for _, a := range n.waiting {
				if a.p.link.Healthy() && !a.limited && now.Sub(a.asked) > r.WakeUp {
					waits = true
				}
				if !a.p.link.Healthy() {
					a.troubled = true
				}
			}
			if !down && !now.Before(r.disturbs) && n.kind != "spin" && n.kind != "rw" && r.WakeUp > 0 {
				for _, a := range n.waiting {
					if a.limited || a.troubled {
						continue
					}
					if a.ticks++; free[n.name] {
						a.free++
					}
					if time.Duration(a.free)*50*time.Millisecond > r.WakeUp && 2*a.free > a.ticks && !a.told {
						a.told = true
						r.brokenf("lost wake-up: p%d waits for %s since %v, which was free at %d of %d looks", a.p.index, n.name, a.asked.Sub(r.w.Began), a.free, a.ticks)
					}
				}
			}
			if !free[n.name] || !waits || down || now.Before(r.disturbs) {
				n.freeSince = time.Time{}
				continue
			}
			if n.freeSince.IsZero() {
				n.freeSince = now
			}
			if r.WakeUp > 0 && now.Sub(n.freeSince) > r.WakeUp {
				r.brokenf("lost wake-up: %s has been free since %v, and %d wait", n.name, n.freeSince.Sub(r.w.Began), len(n.waiting))
				n.freeSince = now.Add(time.Minute)
			}
		}
		r.mu.Unlock()
	}
}

// calm ends all faults and waits until everything is over.
func (r *run) calm() {
	r.w.Faults = simnet.Faults{Latency: time.Millisecond}
	time.Sleep(90 * time.Second)
	synctest.Wait()
}

// sweep acquires and releases each lock once more: that must be possible, and takes away what the dead have left.
func (r *run) sweep() {
	p := r.alive()[0]
	for _, n := range r.sorted() {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		var h *rlock.Hold
		var err error
		began := time.Now()
		switch n.kind {
		case "lock":
			h, err = p.client.NewLock(n.name).Acquire(ctx)
		case "fenced":
			h, err = p.client.NewFencedLock(n.name).Acquire(ctx)
		case "fair":
			h, err = p.client.NewFairLock(n.name).Acquire(ctx)
		case "spin":
			h, err = p.client.NewSpinLock(n.name).Acquire(ctx)
		case "rw":
			h, err = p.client.NewRWLock(n.name).WriteLock().Acquire(ctx)
		case "semaphore":
			h, err = p.client.NewSemaphore(n.name).Acquire(ctx, rlock.Permits(n.permits))
		case "plainsemaphore":
			h, err = p.client.NewPlainSemaphore(n.name).Acquire(ctx, rlock.Permits(n.permits))
		}
		if err != nil {
			r.brokenf("stuck: %s cannot be acquired at the end: %v", n.name, err)
		} else {
			if took := time.Since(began); took > 5*time.Second {
				r.brokenf("slow: %s was acquired after %v at the end", n.name, took)
			}
			if err := h.Unlock(ctx); err != nil {
				r.brokenf("stuck: %s cannot be unlocked at the end: %v", n.name, err)
			}
		}
		cancel()
	}
	time.Sleep(20 * time.Second)
}

// lives reports whether a waiter's process is alive.
func (r *run) lives(member string) bool {
	for _, p := range r.procs {
		if strings.HasPrefix(member, p.client.ID()) {
			return !p.link.Dead()
		}
	}
	return true
}

// finish checks what is left, and closes the clients.
func (r *run) finish() {
	r.w.With(func(s *simredis.Server) {
		if r.w.Record {
			r.w.Final, r.w.FinalAt, r.w.Last = s.DB().Clone(), time.Now().Add(r.w.Ahead), len(r.w.Events)
		}
		for _, k := range s.Keys() {
			switch kind := s.Do("TYPE", k); {
			case strings.HasPrefix(k, "redisson_lock_token:"):
			case strings.HasPrefix(k, "redisson_unlock_latch:") && kind == simredis.Status("hash"):
			case r.names[k] != nil && strings.HasSuffix(r.names[k].kind, "semaphore"):
				if v := s.Do("GET", k); v != fmt.Sprint(r.names[k].permits) && !r.Unsafe {
					r.brokenf("permits: %s has %v at the end instead of %d", k, v, r.names[k].permits)
				}
			case kind == simredis.Status("zset") && strings.HasSuffix(k, ":waiters"):
				for _, m := range s.Do("ZRANGE", k, "0", "-1").([]any) {
					if m := m.(string); m[0] != '#' && m[0] != '!' && r.lives(m) && !r.Unsafe {
						r.brokenf("left: %s stands in %s at the end", m, k)
					}
				}
			case strings.HasPrefix(k, "redisson_lock_queue:"), strings.HasPrefix(k, "redisson_lock_timeout:"):
				range_ := "LRANGE"
				if kind == simredis.Status("zset") {
					range_ = "ZRANGE"
				}
				for _, m := range s.Do(range_, k, "0", "-1").([]any) {
					if m := m.(string); r.lives(m) && !r.Unsafe {
						r.brokenf("left: %s stands in %s at the end", m, k)
					}
				}
			default:
				if strings.HasPrefix(k, "redisson_unlock_latch:") && kind == simredis.Status("hash") {
					continue
				}
				if !r.Unsafe {
					r.brokenf("left: %s %v with PTTL %v", kind, k, s.Do("PTTL", k))
				}
			}
		}
	})
	for _, p := range r.procs {
		if s := p.client.Stats(); !p.link.Dead() && (s.Held > 0 || s.InDoubt > 0 || s.Waiting > 0) {
			r.brokenf("left: p%d has %+v", p.index, s)
		}
	}
	for _, p := range r.procs {
		_ = p.client.Close()
	}
	time.Sleep(30 * time.Second)
}
