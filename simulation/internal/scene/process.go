package scene

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/driver"

	"github.com/go-rlock/rlock/simulation/internal/simnet"
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

	// The mutex of the run guards these.
	ended bool   // it was closed, or shut down
	cuts  []span // in which nothing passed between it and the server
	busy  int    // how many locks are being unlocked, re-entered, exported or adopted: they may be held, and may be waited for
}

func (p *process) String() string { return fmt.Sprintf("p%d", p.index) }

// dead reports whether the process was killed.
func (p *process) dead() bool { return p.links[0].Dead() }

// healthy reports whether the process is alive, and reaches all servers.
func (p *process) healthy() bool {
	for _, l := range p.links {
		if !l.Healthy() {
			return false
		}
	}
	return true
}

// start starts one more process.
func (r *run) start(seed uint64) {
	r.mu.Lock()
	p := &process{run: r, index: len(r.processes)}
	r.mu.Unlock()
	p.ctx, p.cancel = context.WithCancel(r.stop)
	opts := append([]rlock.Option{rlock.WithLogger(slog.New(logger{p}))}, r.Options...)
	for _, server := range r.servers {
		l := server.NewLink(p.String())
		made, err := driver.Attach(l.Open, opts)
		if err != nil {
			panic(err)
		}
		client, _ := made.(*rlock.Client)
		p.links, p.clients = append(p.links, l), append(p.clients, client)
	}
	r.mu.Lock()
	r.processes = append(r.processes, p)
	r.mu.Unlock()
	for i := range r.Workers {
		w := &worker{process: p, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		p.wg.Add(1)
		r.workers.Go(func() {
			defer p.wg.Done()
			w.work()
		})
	}
}

// kill ends the process from outside.
func (p *process) kill() {
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
func (l logger) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (l logger) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.p.trace.Note("%v logs: %s", l.p, text)
	return nil
}

// WithAttrs implements [slog.Handler].
func (l logger) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements [slog.Handler].
func (l logger) WithGroup(string) slog.Handler { return l }

// worker is one goroutine of a process. It is a new owner in every turn.
type worker struct {
	*process

	random *rand.Rand
	past   context.Context //nolint:containedctx // of a hold that is over; nil means none
}

// upTo draws a duration.
func (w *worker) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

// one is true once in n times.
func (w *worker) one(n int) bool { return w.random.IntN(n) == 0 }

func (w *worker) work() {
	time.Sleep(w.upTo(100 * time.Millisecond))
	for w.ctx.Err() == nil {
		switch t := w.wanted[w.random.IntN(len(w.wanted))]; t.kind {
		case kindLatch:
			w.countDown()
		case kindElection:
			w.campaign(t)
		default:
			w.turn(t)
		}
		time.Sleep(w.upTo(max(w.Rest, time.Millisecond)))
	}
}
