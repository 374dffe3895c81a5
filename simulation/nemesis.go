package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/simulation/internal/simredis"
)

// nemeses strikes now and then.
func (r *run) nemeses(rr *rand.Rand) {
	if len(r.Nemeses) == 0 {
		return
	}
	next := len(r.procs)
	for {
		t := time.NewTimer(r.Pause/2 + time.Duration(rr.Int64N(int64(r.Pause))))
		select {
		case <-t.C:
		case <-r.stop.Done():
			t.Stop()
			return
		}
		what := r.Nemeses[rr.IntN(len(r.Nemeses))]
		all := r.alive()
		p := all[rr.IntN(len(all))]
		r.mu.Lock()
		r.res.Nemeses++
		r.mu.Unlock()
		r.w.Note("nemesis %s of p%d", what, p.index)
		disturb := func(d time.Duration) {
			r.mu.Lock()
			if end := time.Now().Add(d); end.After(r.disturbs) {
				r.disturbs = end
			}
			r.mu.Unlock()
		}
		switch what {
		case "break": // a subscription connection is reset
			p.link.BreakSubs(false, time.Duration(rr.IntN(3))*time.Second)
		case "deaf": // it is cut without a word
			p.link.BreakSubs(true, time.Duration(rr.IntN(8000))*time.Millisecond)
			disturb(8 * time.Second)
		case "cut":
			d := time.Duration(rr.IntN(2300)) * time.Millisecond // less than a first term
			p.link.Cut(d)
			disturb(d + 8*time.Second)
			time.Sleep(d + 4*time.Second)
		case "hang":
			d := time.Duration(rr.IntN(2300)) * time.Millisecond
			r.w.Hang(d)
			disturb(d + 8*time.Second)
			time.Sleep(d + 4*time.Second)
		case "flush":
			r.w.Flush()
		case "restart": // nothing is lost
			var db *simredis.DB
			r.w.Down()
			r.w.With(func(s *simredis.Server) { db = s.DB() })
			d := time.Duration(rr.IntN(2000)) * time.Millisecond
			disturb(d + 12*time.Second)
			time.Sleep(d)
			r.w.Up(db)
			time.Sleep(4 * time.Second)
		case "amnesia": // everything is lost
			r.w.Down()
			disturb(20 * time.Second)
			time.Sleep(time.Duration(rr.IntN(3000)) * time.Millisecond)
			r.w.Up(nil)
			r.setUp()
		case "failover": // the last writes are lost
			var db *simredis.DB
			r.w.With(func(s *simredis.Server) { db = s.DB().Clone() })
			time.Sleep(time.Duration(rr.IntN(2000)) * time.Millisecond)
			r.w.Down()
			disturb(45 * time.Second)
			time.Sleep(time.Duration(rr.IntN(5000)) * time.Millisecond)
			r.w.Up(db)
		case "clock":
			was := r.w.Ahead
			r.w.Ahead = was + time.Duration(rr.IntN(21)-10)*time.Second
			disturb(45 * time.Second)
		case "kill":
			if len(all) <= 1 {
				continue
			}
			p.link.Kill()
			p.cancel()
			disturb(42 * time.Second) // its locks are held until their leases end
			go func() { _ = p.client.Close() }()
			r.start(next, rr.Uint64())
			next++
		case "killwaiter": // a process that holds nothing
			r.mu.Lock()
			holds := p.client.Stats().Held > 0
			r.mu.Unlock()
			if holds || len(all) <= 1 {
				continue
			}
			p.link.Kill()
			p.cancel()
			go func() { _ = p.client.Close() }()
			r.start(next, rr.Uint64())
			next++
		default:
			panic(what)
		}
	}
}

const (
	javaLock = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`
	javaFree = `if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end; return nil;`
)

// foreign is a peer that locks as Redisson does: the plain locks of the scene.
func (r *run) foreign(i int, rr *rand.Rand) {
	link := r.w.NewLink(fmt.Sprintf("java%d", i))
	var names []*name
	for _, n := range r.sorted() {
		if n.kind == "lock" || n.kind == "fenced" {
			names = append(names, n)
		}
	}
	sub := link.NewSubscription()
	heard := make(chan struct{}, 1)
	r.workers.Go(func() {
		for {
			m, err := sub.Receive(context.Background())
			if err != nil {
				return
			}
			if m.Sort == driver.Published || m.Sort == driver.Subscribed {
				select {
				case heard <- struct{}{}:
				default:
				}
			}
		}
	})
	r.workers.Go(func() {
		defer sub.Close()
		holder := fmt.Sprintf("00000000-0000-4000-8000-%012d:%d", i, 40+i)
		for r.stop.Err() == nil {
			n := names[rr.IntN(len(names))]
			channel := "redisson_lock__channel:{" + n.name + "}"
			subscribed := false
			for r.stop.Err() == nil {
				left, err := link.Do("EVAL", javaLock, "1", n.name, "30000", holder)
				if err == nil && left == nil {
					break
				}
				if !subscribed {
					subscribed = true
					_ = sub.Subscribe(context.Background(), channel)
				}
				wait := 30 * time.Second
				if ms, ok := left.(int64); ok && ms >= 0 {
					wait = time.Duration(ms+1) * time.Millisecond
				}
				t := time.NewTimer(wait)
				select {
				case <-heard:
				case <-t.C:
				case <-r.stop.Done():
				}
				t.Stop()
			}
			if subscribed {
				_ = sub.Unsubscribe(context.Background(), channel)
			}
			time.Sleep(time.Duration(rr.Int64N(int64(r.Hold) + 1)))
			for range 5 {
				if _, err := link.Do("EVAL", javaFree, "2", n.name, channel, "0", "30000", holder); err == nil {
					break
				}
			}
			time.Sleep(time.Duration(rr.Int64N(int64(r.Rest))))
		}
	})
}
