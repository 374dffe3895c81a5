package scene

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
	"github.com/go-rlock/rlock/simulation/internal/simseed"
)

// process is a process that uses rlock, with a client for each server.
type process struct {
	*run

	index   int
	links   []*simnet.Link
	clients []*rlock.Client
	ctx     context.Context //nolint:containedctx // it ends the process
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	self    simseed.Process // its goroutines and timers
	inquest inquest

	// The mutex of the run guards these.
	ended         bool   // it was closed, or shut down
	cuts          []span // in which nothing passed between it and the server
	pauses        []span // in which it was stopped; the present one may be longer
	clogs         []span // in which some of its connections hung for longer than a first term
	died          time.Time
	odd           time.Time         // since when its gauges say something else than its workers
	stopping      time.Time         // when its shutdown began; zero means that none is under way
	bereft        time.Time         // since when its shutdown need not wait for anybody; zero means that it does
	shut          bool              // its shutdown has succeeded
	turns, active int               // how many turns its workers have begun, and how many are under way
	idle          time.Time         // since when none has been
	past          []context.Context // of holds that are over
	observer      *observer
	owns          int // how many things of their own its workers have used
	busy          int // how many locks are being unlocked, re-entered, exported or adopted: they may be held, and may be waited for
}

func (p *process) String() string { return fmt.Sprintf("p%d", p.index) }

// dead reports whether the process was killed.
func (p *process) dead() bool { return p.links[0].Dead() }

// healthy reports whether the process is alive, runs, and reaches all servers. The run must be locked.
func (p *process) healthy() bool {
	if p.isPaused() {
		return false
	}
	for _, l := range p.links {
		if !l.Healthy() {
			return false
		}
	}
	return true
}

// wants yields the attempts of the process that are under way. The run must be locked.
func (p *process) wants() iter.Seq[*attempt] {
	return func(yield func(*attempt) bool) {
		for _, t := range p.wanted {
			for _, a := range t.waiting {
				if a.p == p && !yield(a) {
					return
				}
			}
		}
	}
}

// start starts one more process.
func (r *run) start(seed uint64) {
	r.mu.Lock()
	p := &process{run: r, index: len(r.processes), inquest: inquest{questions: make(map[subject][]*question)}}
	r.mu.Unlock()
	p.ctx, p.cancel = context.WithCancel(r.stop)
	p.observer = new(observer)
	if r.Panics {
		p.observer.random = rand.New(rand.NewPCG(seed, 77))
	}
	log := &logger{p}
	opts := append([]rlock.Option{rlock.WithLogger(slog.New(log)), rlock.WithObserver(p.observer)}, r.Options...)
	for _, server := range r.servers {
		p.links = append(p.links, server.NewLink(p.String()))
	}
	for i, l := range p.links { // in a group, the first one stands for all
		l.Watch(p.inquest.witness(i))
	}
	for i, open := range r.drivers(p.links) {
		var made any
		p.self.Do(func() {
			var err error
			if made, err = driver.Attach(open, opts); err != nil {
				panic(err)
			}
		})
		client, _ := made.(*rlock.Client)
		p.clients = append(p.clients, client)
		r.trace.Note("%v starts, and is %s to %s", p, client.ID(), p.links[i].Server())
	}
	r.mu.Lock()
	r.processes = append(r.processes, p)
	r.mu.Unlock()
	var ends []context.CancelFunc
	for i := range r.Workers {
		ctx, end := context.WithCancel(context.Background())
		w := &worker{process: p, random: rand.New(rand.NewPCG(seed, uint64(i))), ctx: ctx}
		ends = append(ends, end)
		p.wg.Add(1)
		r.workers.Go(func() {
			defer p.wg.Done()
			p.self.Do(w.work)
		})
	}
	context.AfterFunc(p.ctx, func() {
		for _, end := range ends {
			end()
		}
	})
}

// kill ends the process from outside.
func (p *process) kill() {
	p.mu.Lock()
	p.died = time.Now()
	p.mu.Unlock()
	for _, l := range p.links {
		l.Kill()
	}
	p.cancel()
	p.workers.Go(p.close)
}

// close closes the clients.
func (p *process) close() {
	for _, c := range p.clients {
		_ = c.Close()
	}
}

// logger adds what rlock logs to the trace.
type logger struct{ p *process }

// Enabled implements [slog.Handler].
func (*logger) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (l *logger) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.p.trace.Note("%v logs: %s", l.p, text)
	return nil
}

// WithAttrs implements [slog.Handler].
func (l *logger) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements [slog.Handler].
func (l *logger) WithGroup(string) slog.Handler { return l }

// worker is one goroutine of a process. It is a new owner in every turn.
type worker struct {
	*process

	random *rand.Rand
	// It ends with the process. Were it a child of the context of the process, the order in which many workers learn of that would depend on
	// addresses: package context has a map of the children.
	ctx context.Context //nolint:containedctx // it ends the worker
}

// upTo draws a duration.
func (w *worker) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

// one is true once in n times.
func (w *worker) one(n int) bool { return w.random.IntN(n) == 0 }

func (w *worker) work() {
	time.Sleep(w.upTo(100 * time.Millisecond))
	for w.ctx.Err() == nil && !w.isOver() {
		if w.Beat > 0 {
			since := time.Since(w.trace.Began)
			time.Sleep(w.Beat - since%w.Beat + w.upTo(4*w.Faults.Latency))
		}
		time.Sleep(w.onGrid(0))
		w.begins(1)
		w.once(w.wanted[w.random.IntN(len(w.wanted))])
		w.begins(-1)
		time.Sleep(w.upTo(max(w.Rest, time.Millisecond)))
	}
}

// isOver reports whether the process is being closed, or shut down.
func (p *process) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// begins records that a turn begins, or with -1 that it is over.
func (w *worker) begins(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active += n; n > 0 {
		w.turns++
	} else {
		w.idle = time.Now()
	}
}

// once uses a target once.
func (w *worker) once(t *target) {
	switch {
	case t.kind == kindLatch:
		w.countDown()
	case t.kind == kindElection:
		w.campaign(t)
	case t.kind != kindPlain && w.one(40):
		w.misuse(t)
	case w.one(40):
		w.private()
	case t.counts() && w.one(30):
		w.adds(t)
	case t.kind == kindPlain:
		w.counted(t)
	default:
		w.turn(t)
	}
}
