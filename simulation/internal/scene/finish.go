package scene

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// calm ends all faults, and waits until everything is over.
func (r *run) calm() {
	for _, server := range r.servers { // also those that have no keys
		server.Set(simnet.Faults{Latency: time.Millisecond})
	}
	time.Sleep(90 * time.Second)
	synctest.Wait()
}

// sweep acquires and releases each lock once more. That must be possible at once, and takes away what the dead have left.
func (r *run) sweep() {
	alive := r.alive()
	if len(alive) == 0 {
		return
	}
	for _, t := range r.wanted {
		if t.kind != kindLatch && (t.kind != kindPlain || !r.Unsafe) { // a number of permits that was forgotten stays wrong
			r.passes(alive[0], t)
		}
	}
	if !r.Unsafe && !r.Identity && r.Topology != topologyCluster && r.MaxHold == 0 {
		r.keeping(alive[0])
	}
	if !r.Identity && r.Acks == 0 && !r.Broadcast {
		r.handing([]string{kindLock, kindFenced, kindFair, kindFencedFair}[r.res.Seed%4], alive)
	}
	time.Sleep(20 * time.Second)
	if !r.Identity {
		r.sendNothing()
	}
	for _, server := range r.servers {
		if channels, _ := server.Do("PUBSUB", "CHANNELS").([]any); len(channels) > 0 {
			r.note("subscriptions: somebody still listens to %v at the end", channels)
		}
	}
}

func (r *run) passes(p *process, t *target) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	w := &worker{process: p, ctx: context.Background()}
	all := plan{of: t, permits: 1}
	if t.counts() {
		all.permits = permits
	}
	_, opts, end := w.terms(&all)
	defer end()
	began := time.Now()
	var hold *rlock.Hold
	var err error
	plain := p.clients[0].NewPlainSemaphore(t.name, p.total()...)
	if t.kind == kindPlain {
		err = plain.Acquire(ctx, opts...)
	} else {
		hold, err = p.acquirer(t, false).Acquire(ctx, opts...)
	}
	took := time.Since(began)
	switch {
	case err != nil:
	case t.kind == kindPlain:
		err = plain.Release(ctx, permits)
	default:
		err = hold.Unlock(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.brokenf("stuck: %s at the end: %v", t.name, err)
	case took > 5*time.Second:
		r.brokenf("slow: %s was acquired after %v at the end", t.name, took)
	}
}

// finish checks what is left, and closes the clients.
func (r *run) finish() {
	r.mu.Lock()
	for _, server := range r.masters() {
		server.With(func(s *simredis.Server) {
			for _, key := range s.Keys() {
				r.left(s, key)
			}
		})
	}
	r.linearizable()
	for _, l := range r.latches {
		r.counted(l)
	}
	for _, p := range r.processes {
		if !p.ended && !p.dead() {
			r.observed(p)
		}
		for _, c := range p.clients {
			// A closed client leaves to the leases what it has not released.
			if s := c.Stats(); !p.dead() && (s.Held > 0 || s.InDoubt > 0 && !p.ended || s.Waiting > 0) {
				r.brokenf("left: %v has %+v", p, s)
			}
		}
	}
	r.mu.Unlock()
	for _, p := range r.processes {
		p.close()
	}
	time.Sleep(30 * time.Second)
}

// left checks a key that is in a server at the end. The run must be locked.
func (r *run) left(s *simredis.Server, key string) {
	kind := s.Do("TYPE", key)
	queue := strings.HasPrefix(key, "redisson_lock_queue:") || strings.HasPrefix(key, "redisson_lock_timeout:")
	switch {
	case r.Unsafe:
	case strings.HasPrefix(key, "redisson_lock_token:"): // tokens never end
	case strings.HasPrefix(key, "redisson_unlock_latch:") && kind == simredis.Status("hash"): // tombstones end by themselves
	case r.Identity && strings.HasPrefix(key, "rlock_client:"): // identities end by themselves
	case r.latches[key] != nil:
	case r.semaphore(key):
		text, _ := s.Do("GET", key).(string)
		n, _ := strconv.ParseInt(text, 10, 64)
		r.checks().Rest(key, n, permits, permits)
	case queue || kind == simredis.Status("zset") && strings.Contains(key, ":waiters"):
		command := "ZRANGE"
		if kind == simredis.Status("list") {
			command = "LRANGE"
		}
		members, _ := s.Do(command, key, "0", "-1").([]any)
		for _, m := range members {
			if m, _ := m.(string); m[0] != '#' && m[0] != '!' && !r.ofDead(m) {
				r.brokenf("left: %s stands in %s at the end", m, key)
			}
		}
	default:
		r.brokenf("left: %v %s with PTTL %v", kind, key, s.Do("PTTL", key))
	}
}

func (r *run) semaphore(name string) bool {
	return slices.ContainsFunc(r.locks, func(t *target) bool { return t.name == name && t.counts() })
}

// ofDead reports whether a waiter was killed with its process.
func (r *run) ofDead(waiter string) bool {
	return slices.ContainsFunc(r.processes, func(p *process) bool {
		return p.dead() && slices.ContainsFunc(p.clients, func(c *rlock.Client) bool { return strings.HasPrefix(waiter, c.ID()) })
	})
}
