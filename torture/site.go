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
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// The times of the workload. They are short, so that much happens. No judge depends on how long a machine takes for anything.
const (
	watchdogTimeout = 3 * time.Second
	shortLease      = 150 * time.Millisecond
	commandTimeout  = 1500 * time.Millisecond
	readTimeout     = 600 * time.Millisecond
	fairWait        = 10 * time.Second // the minimum that rlock accepts
	poolSize        = 16
)

// Place holds the addresses of the servers.
type Place struct {
	Topology string
	Addrs    []string // of the Sentinels, the cluster's nodes, or the server
	Master   string   // the name of the master in Sentinel
}

func (p Place) open() redis.UniversalClient {
	switch p.Topology {
	case topologySentinel:
		return redistest.NewFailover(&redis.FailoverOptions{
			MasterName: p.Master, SentinelAddrs: p.Addrs, ReadTimeout: readTimeout, PoolSize: poolSize,
		})
	case topologyCluster:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: p.Addrs, ReadTimeout: readTimeout, PoolSize: poolSize})
	}
	return redis.NewClient(&redis.Options{Addr: p.Addrs[0], ReadTimeout: readTimeout, PoolSize: poolSize})
}

// Site describes a user of rlock: a process, or a part of this process that acts like one.
type Site struct {
	Name    string
	Seed    uint64
	Place   Place
	Workers int
	Form    string // selects the options of its client
}

// The forms of clients. Each exercises other code.
const (
	formPlain     = "plain"
	formPipelined = "pipelined"
	formNoPassing = "no hand-over"
)

// running is a site at work.
type running struct {
	Site

	rdb    redis.UniversalClient
	client *rlock.Client
	finish func() // called once the client is closed
	say    func(message)
	ids    atomic.Int64
}

// start opens the site's client. The site says what happens.
func (s Site) start(say func(message)) (*running, error) {
	r := &running{Site: s, say: say, rdb: s.Place.open()}
	opts := []rlock.Option{
		rlock.WithWatchdogTimeout(watchdogTimeout), rlock.WithCommandTimeout(commandTimeout), tune.FairWait(fairWait),
		rlock.WithLogger(slog.New(slog.DiscardHandler)),
	}
	switch s.Form {
	case formPipelined:
		opts = append(opts, tune.Crowd(0))
	case formNoPassing:
		opts = append(opts, tune.HandOver(0, 0))
	}
	var err error
	r.client, r.finish, err = connect.Open(r.rdb, opts...)
	return r, err
}

// run works until ctx ends. Then every worker ends its turn.
func (r *running) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range r.Workers {
		w := &worker{running: r, random: rand.New(rand.NewPCG(r.Seed, uint64(i)))}
		wg.Go(func() {
			for ctx.Err() == nil {
				w.turn(ctx)
			}
		})
	}
	wg.Wait()
}

// settle reports what the client still counts once all turns are over. A lock that was not unlocked, or may have been acquired, is counted
// until its lease ends.
func (r *running) settle() {
	if !within(sleeps, func() bool { return r.counted() == 0 }) {
		r.say(message{Found: fmt.Sprintf("left: after all turns, the client counts %+v", r.client.Stats())})
	}
}

// counted returns how many holds and callers the client has.
func (r *running) counted() int { s := r.client.Stats(); return s.Held + s.Waiting + s.InDoubt }

// close closes the site's clients.
func (r *running) close() error {
	err := r.client.Close()
	r.finish()
	return errors.Join(err, r.rdb.Close())
}

// leaks returns an error if goroutines are left in this process for that long.
func leaks(limit time.Duration) (err error) {
	within(limit, func() bool { err = goleak.Find(connect.Leaks()...); return err == nil })
	return err
}

// within waits until a condition is true, and reports whether it was in time.
func within(limit time.Duration, condition func() bool) bool {
	for end := now().Add(limit); !condition(); pause(context.Background(), 50*time.Millisecond) {
		if now() > end {
			return false
		}
	}
	return true
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// The kinds of lock.
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
	kindSemaphore    = "semaphore"

	kindMulti = "multi"
)

// handle returns a new handle.
func handle(c *rlock.Client, kind string, names ...string) handles.Any {
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
	case kindSemaphore:
		return c.NewSemaphore(names[0], rlock.Total(permits))
	case kindMulti:
		var members []*rlock.Lock
		for _, name := range names {
			members = append(members, c.NewLock(name))
		}
		return rlock.NewMultiLock(members...)
	}
	return c.NewLock(names[0])
}
