package torture

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// The times of the workload. They are short, so that much happens, but long compared with the delays of the machine.
const (
	watchdogTimeout = 3 * time.Second
	shortLease      = 150 * time.Millisecond
	commandTimeout  = 1500 * time.Millisecond
	readTimeout     = 600 * time.Millisecond
	ackTimeout      = 300 * time.Millisecond
	fairWait        = 10 * time.Second // the minimum that rlock accepts
)

// Place holds the addresses of the servers.
type Place struct {
	Topology string
	Addrs    []string // of the Sentinels, the cluster's nodes, or the servers
	Master   string   // the name of the master in Sentinel
}

// open returns one client per independent Redis.
func (p Place) open() []redis.UniversalClient {
	switch p.Topology {
	case topologySentinel:
		return []redis.UniversalClient{redistest.NewFailover(&redis.FailoverOptions{
			MasterName: p.Master, SentinelAddrs: p.Addrs, ReadTimeout: readTimeout, PoolSize: poolSize,
		})}
	case topologyCluster:
		return []redis.UniversalClient{redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: p.Addrs, ReadTimeout: readTimeout, PoolSize: poolSize,
		})}
	}
	var all []redis.UniversalClient
	for _, addr := range p.Addrs {
		all = append(all, redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: readTimeout, PoolSize: poolSize}))
	}
	return all
}

const poolSize = 16

// Site describes a user of rlock: a process, or a part of this process that acts like one.
type Site struct {
	Name    string
	Seed    uint64
	Place   Place
	Workers int
	Keepers int // locks of its own that it holds all the time
	Mix     []Share
	Form    string // selects the options of its clients
	Acks    int    // see [Scene]
	Lasting bool   // the process is never killed
	Apart   bool   // it is a process of its own
	Fleet   bool   // it is one of a fleet
}

// running is a site at work.
type running struct {
	Site

	rdbs    []redis.UniversalClient
	finish  []func()                        // called once the clients are closed
	clients atomic.Pointer[[]*rlock.Client] // a shutdown replaces them
	say     func(message)
	ids     atomic.Int64
	// outlived has the context of a hold of each name that is over.
	outlived sync.Map // of *outlived
}

// all returns the present clients: one per independent Redis.
func (r *running) all() []*rlock.Client { return *r.clients.Load() }

// The forms of clients. Each exercises other code.
const (
	formPlain     = "plain"
	formPipelined = "pipelined"
	formNoPassing = "no hand-over"
)

func (s Site) options() []rlock.Option {
	opts := []rlock.Option{
		rlock.WithWatchdogTimeout(watchdogTimeout), rlock.WithCommandTimeout(commandTimeout), tune.FairWait(fairWait),
	}
	switch s.Form {
	case formPipelined:
		opts = append(opts, tune.Crowd(0))
	case formNoPassing:
		opts = append(opts, tune.HandOver(0, 0))
	}
	if s.Acks > 0 {
		opts = append(opts, rlock.WithReplicaAcks(rlock.Replicas(s.Acks), ackTimeout))
	}
	return opts
}

// start opens the site's clients. It says what happens.
func (s Site) start(say func(message)) (*running, error) {
	r := &running{Site: s, say: say}
	for _, rdb := range s.Place.open() {
		r.rdbs = append(r.rdbs, s.around(rdb))
	}
	clients, err := r.renew()
	r.clients.Store(&clients)
	return r, err
}

// emit reports a turn.
func (r *running) emit(t Turn) { r.say(message{Turn: &t}) }

// renew makes new clients.
func (r *running) renew() (clients []*rlock.Client, err error) {
	for _, rdb := range r.rdbs {
		client, finish, err := connect.Open(rdb, append(r.options(), rlock.WithLogger(slog.New(slog.DiscardHandler)))...)
		if err != nil {
			return nil, err
		}
		clients, r.finish = append(clients, client), append(r.finish, finish)
	}
	return clients, nil
}

// run works until ctx ends. Then every worker ends its turn, and the keepers unlock.
func (r *running) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range r.Workers {
		w := &worker{running: r, number: i, random: rand.New(rand.NewPCG(r.Seed, uint64(i)))}
		wg.Go(func() {
			for ctx.Err() == nil {
				w.turn(ctx)
			}
		})
	}
	wg.Go(func() { r.keep(ctx) })
	wg.Wait()
}

// close closes the site's clients and returns how long the rlock clients took.
func (r *running) close() (time.Duration, error) {
	var errs []error
	start := time.Now()
	for _, client := range r.all() {
		errs = append(errs, client.Close())
	}
	took := time.Since(start)
	for _, finish := range r.finish {
		finish()
	}
	for _, rdb := range r.rdbs {
		errs = append(errs, rdb.Close())
	}
	return took, errors.Join(errs...)
}

// The kinds of lock, by the name of their constructors.
const (
	kindLock   = "lock"
	kindSpin   = "spin"
	kindFenced = "fenced"
	kindFair   = "fair"
	kindRead   = "read"
	kindWrite  = "write"

	kindFencedFair   = "fenced fair"
	kindFencedWrite  = "fenced write"
	kindYieldingRead = "yielding read" // it waits for writers

	kindMulti = "multi"
	kindRed   = "red"
)

// make returns a new handle of the present clients.
func (r *running) make(kind string, names ...string) handles.Any {
	return handle(r.all(), kind, names...)
}

// handle returns a new handle.
func handle(clients []*rlock.Client, kind string, names ...string) handles.Any {
	c := clients[0]
	if s := counted(c, kind, names[0]); s != nil {
		return s
	}
	switch kind {
	case kindSpin:
		return c.NewSpinLock(names[0], rlock.Backoff(time.Millisecond, 30*time.Millisecond))
	case kindFenced:
		return c.NewLock(names[0], rlock.Fenced())
	case kindFair:
		return c.NewFairLock(names[0])
	case kindFencedFair:
		return c.NewFairLock(names[0], rlock.Fenced())
	case kindRead:
		return c.NewRWLock(names[0]).Reader()
	case kindYieldingRead:
		return c.NewRWLock(names[0], rlock.WriterPreference()).Reader()
	case kindWrite:
		return c.NewRWLock(names[0]).Writer()
	case kindFencedWrite:
		return c.NewRWLock(names[0], rlock.Fenced()).Writer()
	case kindMulti:
		var members []*rlock.Lock
		for _, name := range names {
			members = append(members, c.NewLock(name))
		}
		return rlock.NewMultiLock(members...)
	case kindRed:
		var members []*rlock.Lock
		for _, client := range clients {
			members = append(members, client.NewLock(names[0]))
		}
		return rlock.NewRedLock(members...)
	}
	return c.NewLock(names[0])
}

// believe records that the owner believes to hold the lock now. It reports whether the hold is still good.
func (t *Turn) believe(hold *rlock.Hold) bool {
	at := now()
	if hold.Err() != nil {
		return false
	}
	if t.First == 0 {
		t.First = at
	}
	t.Last = at
	return true
}

// unlocking records that the unlock begins.
func (t *Turn) unlocking(hold *rlock.Hold) {
	t.Over = errors.Is(hold.Err(), rlock.ErrLost)
	t.Unlocking = now()
	t.Deadline = t.Unlocking.Add(until(hold))
}

// until returns for how long a hold is good without a renewal. A hold without a deadline is good for long.
func until(hold *rlock.Hold) time.Duration {
	if hold.Deadline().IsZero() {
		return time.Hour
	}
	return time.Until(hold.Deadline())
}

// unlock ends the hold and records the result.
func (t *Turn) unlock(ctx context.Context, hold *rlock.Hold) {
	t.unlocking(hold)
	err := hold.Unlock(ctx)
	t.Unlocked = now()
	t.class(err)
	switch {
	case err == nil:
		t.Unlock = got
	case errors.Is(err, rlock.ErrLost):
		t.Unlock, t.Err = lost, err.Error()
	case errors.Is(err, rlock.ErrNotHeld):
		t.Unlock, t.Err = lost, err.Error()
		t.wrong("unlock: the only one of %v returned %v", t.Names, err)
	default:
		t.Unlock, t.Err = failed, err.Error()
	}
}

// judge is told of the broken promises that the process itself notices.
func (t *Turn) judge() promises.Judge { return t.wrong }

func (t *Turn) wrong(format string, args ...any) {
	t.Wrong = append(t.Wrong, fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// runSites runs the sites of this process until ctx ends.
func runSites(ctx context.Context, sites []*running) {
	var wg sync.WaitGroup
	for _, s := range sites {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
}
