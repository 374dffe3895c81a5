package scene

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

// The scripts of Redisson's RedissonLock.
const (
	peerLock = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`
	peerFree = `if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end; return nil;`
)

// peer is a process that locks as Redisson does.
type peer struct {
	*run

	conn   *simnet.Peer
	sub    driver.Subscription
	heard  chan struct{}
	random *rand.Rand
	holder string
}

// peer starts a process of Redisson, which wants the plain locks of the scene.
func (r *run) peer(i int, random *rand.Rand) {
	p := &peer{
		run: r, conn: r.servers[0].NewPeer(fmt.Sprintf("java%d", i)), heard: make(chan struct{}, 1), random: random,
		holder: fmt.Sprintf("00000000-0000-4000-8000-%012d:%d", i, 40+i),
	}
	p.sub = p.conn.Subscribe()
	var locks []*target
	for _, t := range r.locks {
		if t.kind == kindLock || t.kind == kindFenced {
			locks = append(locks, t)
		}
	}
	r.workers.Go(p.listen)
	r.workers.Go(func() {
		defer func() { _ = p.sub.Close() }()
		for len(locks) > 0 && r.stop.Err() == nil {
			p.turn(locks[random.IntN(len(locks))])
			time.Sleep(time.Duration(random.Int64N(int64(r.Rest) + 1)))
		}
	})
}

// listen hears what is published.
func (p *peer) listen() {
	for {
		m, err := p.sub.Receive(context.Background())
		switch {
		case err == nil:
		case errors.Is(err, driver.ErrSubscriptionClosed):
			return
		default: // it connects again
			time.Sleep(100 * time.Millisecond)
		}
		if m.Sort == driver.Published || m.Sort == driver.Subscribed {
			select {
			case p.heard <- struct{}{}:
			default:
			}
		}
	}
}

// turn uses a lock once.
func (p *peer) turn(t *target) {
	const lease = 30 * time.Second
	channel := "redisson_lock__channel:" + t.name
	if !strings.Contains(t.name, "{") {
		channel = "redisson_lock__channel:{" + t.name + "}"
	}
	subscribed := false
	before := p.taken(t)
	for p.stop.Err() == nil {
		p.shares(t, p.taken(t)-before)
		left, err := p.conn.Do("EVAL", peerLock, "1", t.name, fmt.Sprint(lease.Milliseconds()), p.holder)
		if err == nil && left == nil {
			break
		}
		if !subscribed {
			subscribed = true
			_ = p.sub.Subscribe(context.Background(), channel)
		}
		wait := lease
		if ms, ok := left.(int64); ok && ms >= 0 {
			wait = time.Duration(ms+1) * time.Millisecond
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.heard:
		case <-timer.C:
		case <-p.stop.Done():
		}
		timer.Stop()
	}
	if subscribed {
		_ = p.sub.Unsubscribe(context.Background(), channel)
	}
	time.Sleep(time.Duration(p.random.Int64N(int64(p.Hold) + 1)))
	for range 5 {
		p.passes(t)
		if _, err := p.conn.Do("EVAL", peerFree, "2", t.name, channel, "0", fmt.Sprint(lease.Milliseconds()), p.holder); err == nil {
			return
		}
	}
}

// taken returns how often the processes have taken a lock.
func (p *peer) taken(t *target) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.taken
}

// patience is how often each process may have a lock, on average, while a peer waits for it. When the peer is offered the lock, it has even
// chances against the line, and between two offers each process that waits may have some turns.
const patience = 25

// shares checks that a peer has not waited for long while the processes had the lock again and again.
func (p *peer) shares(t *target, taken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	quiet := !p.faulty() && len(p.Nemeses) == 0 && !p.Panics
	if quiet && taken > patience*p.Processes*p.Peers {
		p.brokenf("share: %s was taken %d times while one of Redisson waited for it", t.name, taken)
	}
}

// passes notes that the peer is about to free a lock. Redisson knows of no line: until the waiters of rlock can have asked for the lock, a peer
// that is nearer may take it again. That takes five ways, each of at most one and a half latencies, from here to the server, to a process that
// watches, back, to the first waiter, and back. A watch that sees only such moments would take these for a missed wake-up.
func (p *peer) passes(t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(10*time.Millisecond + 8*p.Faults.Latency); until.After(t.untold) {
		t.untold = until
	}
}
