package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/redistest"
)

// The scripts of Redisson's plain lock, as another client of it would write them. They have its keys, arguments and replies.
var (
	javaAcquire = redis.NewScript(`
		if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
			return redis.call('PTTL', KEYS[1])
		end
		redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
		redis.call('PEXPIRE', KEYS[1], ARGV[1])
		return nil`)
	javaRelease = redis.NewScript(`
		local before = redis.call('GET', KEYS[3])
		if before then return tonumber(before) end
		if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return nil end
		local freed = redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 and 0 or 1
		if freed == 1 then
			redis.call('DEL', KEYS[1])
			redis.call(ARGV[4], KEYS[2], ARGV[1])
		else
			redis.call('PEXPIRE', KEYS[1], ARGV[2])
		end
		redis.call('SET', KEYS[3], freed, 'PX', ARGV[5])
		return freed`)
)

// javaSite is the site of a peer in the history, before the name that it wants.
const javaSite = "java"

func isJava(site string) bool { return strings.HasPrefix(site, javaSite) }

// hireListener listens to the channel of a lock, until ctx ends, as a peer does that gives up waiting.
func (a *Arena) hireListener(ctx context.Context, name string) (done <-chan struct{}) {
	p := peer{name: name}
	sub := a.admins[a.nodes[0]].Subscribe(ctx, p.channel())
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() { _ = sub.Close() }) // Receive waits for a message, whatever becomes of its context
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if _, err := sub.Receive(ctx); err != nil {
				pause(ctx, time.Millisecond)
			}
		}
	}()
	return ended
}

// kindJava is the kind of a peer's turns.
const kindJava = "java"

// park is one sleep of a peer: until a message, or until the rest of the lease that it was told is over.
type park struct {
	From, To Moment
	Hint     time.Duration
	ByTime   bool // no message came
}

// peer is a user of Redisson in the middle of a fleet: a goroutine of this process that runs its scripts and follows its steps.
// It locks, holds for a millisecond, unlocks, and begins again, after a pause of at most rest.
type peer struct {
	rdb       *redis.Client
	collector *collector
	id, name  string
	rest      time.Duration
	turns     atomic.Int64
	pubsub    *redis.PubSub
	listens   atomic.Bool // it wants to be subscribed
	confirmed chan struct{}
	permits   chan struct{}
}

// hireJava starts a peer on a plain lock. It is as far from Redis as everybody else, and ends with ctx.
func (a *Arena) hireJava(ctx context.Context, name string, rest time.Duration) (done <-chan struct{}) {
	p := &peer{
		rdb: redistest.Open(a.tb, &redis.Options{
			Addr: a.nodes[0].Proxy.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: readTimeout, ContextTimeoutEnabled: true,
		}),
		collector: a.collector, id: uuid.NewString() + ":1", name: name, rest: rest,
		confirmed: make(chan struct{}, 1), permits: make(chan struct{}, 1000),
	}
	a.collector.hear(p.site(), message{Client: p.id})
	var all sync.WaitGroup
	p.pubsub = p.rdb.Subscribe(context.WithoutCancel(ctx))
	all.Go(p.listen)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			p.turn(ctx)
			pause(ctx, rand.N(p.rest+1))
		}
		_ = p.pubsub.Close()
		all.Wait()
	}()
	return ended
}

// listen passes on what the subscription says. go-redis subscribes again when the connection is closed, but not when Redis refuses that, as
// while a user has no right to it.
func (p *peer) listen() {
	for {
		switch m, err := p.pubsub.Receive(context.Background()); m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				put(p.confirmed)
				put(p.permits) // Redisson does not try again here; without it, the peer would miss what was said meanwhile
			}
		case *redis.Message:
			put(p.permits)
		default:
			if errors.Is(err, redis.ErrClosed) {
				return
			}
			pause(context.Background(), time.Millisecond)
			if refusal := redis.Error(nil); errors.As(err, &refusal) && p.listens.Load() {
				pause(context.Background(), 100*time.Millisecond)
				_ = p.pubsub.Subscribe(context.Background(), p.channel())
			}
		}
	}
}

func put(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (p *peer) site() string { return javaSite + "-" + p.name }

func (p *peer) channel() string { return "redisson_lock__channel:{" + p.name + "}" }

func (p *peer) turn(ctx context.Context) {
	t := Turn{
		ID: p.turns.Add(1), Site: p.site(), Kind: kindJava, Names: []string{p.name}, Lease: watchdogTimeout, Verb: "lock", Asked: now(),
	}
	tell := func() { told := t; p.collector.hear(t.Site, message{Turn: &told}) }
	tell()
	sent, err := p.lock(ctx)
	t.Answered = now()
	if err != nil {
		t.Answer, t.Class, t.Err = failed, neither, err.Error()
		_, _ = p.unlock() // the attempt may have got the lock
		tell()
		pause(ctx, 2*time.Millisecond)
		return
	}
	t.Answer, t.First, t.Deadline = got, t.Answered, sent.Add(t.Lease)
	tell()
	pause(context.Background(), time.Millisecond)
	if t.Last = now(); t.Last > t.Deadline {
		t.Last = t.First
	}
	t.Unlocking = now()
	freed, tries := p.unlock()
	t.Unlocked = now()
	switch {
	case freed:
		t.Unlock = got
	case tries > 1:
		t.Unlock, t.Err = failed, "no reply to an unlock"
	default:
		t.Unlock, t.Err = lost, "not the owner"
	}
	tell()
}

// lock waits for the lock without a limit, and returns when it sent the attempt that succeeded. A peer that stops waiting
// because ctx ended returns an error.
func (p *peer) lock(ctx context.Context) (sent Moment, err error) {
	sent = now()
	if ttl, err := p.try(); ttl < 0 || err != nil {
		return sent, err
	}
	for len(p.confirmed) > 0 {
		<-p.confirmed
	}
	p.listens.Store(true)
	if err := p.pubsub.Subscribe(context.Background(), p.channel()); err != nil {
		return sent, err
	}
	defer func() {
		p.listens.Store(false)
		_ = p.pubsub.Unsubscribe(context.Background(), p.channel())
	}()
	select {
	case <-p.confirmed:
	case <-time.After(7500 * time.Millisecond):
		return sent, errors.New("no confirmation of the subscription")
	}
	for len(p.permits) > 0 {
		<-p.permits
	}
	for {
		sent = now()
		ttl, err := p.try()
		if ttl < 0 || err != nil {
			return sent, err
		}
		slept := park{From: now(), Hint: ttl}
		timer := time.NewTimer(ttl)
		select {
		case <-p.permits:
		case <-timer.C:
			slept.ByTime = true
		case <-ctx.Done():
			timer.Stop()
			return sent, ctx.Err()
		}
		timer.Stop()
		slept.To = now()
		p.collector.parked(slept)
	}
}

// try asks once. A negative duration means that the peer has the lock.
func (p *peer) try() (ttl time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	n, err := javaAcquire.Run(ctx, p.rdb, []string{p.name}, watchdogTimeout.Milliseconds(), p.id).Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return -1, nil
	case err != nil:
		return 0, err
	}
	return time.Duration(max(n, 1)) * time.Millisecond, nil
}

// unlock releases the lock, and repeats that until Redis replies. The latch makes that safe. It reports whether the peer had
// the lock, and how often it asked.
func (p *peer) unlock() (freed bool, tries int) {
	latch := fmt.Sprintf("redisson_unlock_latch:{%s}:%032x", p.name, uint64(now()))
	for tries = 1; tries < 200; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := javaRelease.Run(ctx, p.rdb, []string{p.name, p.channel(), latch}, "0",
			watchdogTimeout.Milliseconds(), p.id, "PUBLISH", strconv.Itoa(16000)).Err()
		cancel()
		if err == nil || errors.Is(err, redis.Nil) {
			_ = p.rdb.Del(context.Background(), latch).Err()
			return err == nil, tries
		}
		pause(context.Background(), 20*time.Millisecond)
	}
	return false, tries
}
