package turns

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/simulation/internal/simnet"
)

const (
	peerLock = `if redis.call('exists', KEYS[1]) == 0 then redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 10000) return -1 end
return redis.call('pttl', KEYS[1])`
	peerUnlock = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1`
)

// peer is a thread of Redisson that wants a lock again and again. It hears releases, or waits as long as the lease lasts.
func (r *run) peer(i int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 200+uint64(i)))
	who := fmt.Sprint("redisson", i)
	p, id := r.server.NewPeer(who), uuid.NewString()
	for n := 1; !r.ended(); n++ {
		field := fmt.Sprintf("%s:%d", id, n) // of its own, because a late command of Redisson's would free a later hold of the same thread
		r.rest(time.Duration(random.Int64N(int64(r.Rest))))
		key := name(random.IntN(r.Names))
		_, channel := core.Plain.Keys(key)
		asked := time.Now()
		wanted := asked
		left, err := p.Do("EVAL", peerLock, "1", key, field)
		if n, _ := left.(int64); err == nil && n != -1 {
			left, asked = r.peerWaits(p, key, channel, field, random)
		}
		r.starves(who, key, time.Since(wanted))
		if n, _ := left.(int64); n != -1 || left == nil {
			continue
		}
		if time.Since(asked) > 5*time.Second {
			_, _ = p.Do("EVAL", peerUnlock, "2", key, channel, field)
			continue
		}
		r.mu.Lock()
		r.res.Peers++
		for h, other := range r.holders[key] {
			if h.Err() == nil {
				r.brokenf("exclusion: %s got %s, which %s has", who, key, other)
			}
		}
		r.foreign[key] = who
		r.mu.Unlock()
		r.rest(time.Duration(random.Int64N(int64(r.Hold))))
		r.mu.Lock()
		delete(r.foreign, key)
		r.mu.Unlock()
		for {
			if _, err := p.Do("EVAL", peerUnlock, "2", key, channel, field); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// starves judges how long a peer has waited, in a scene in which every process gives the lock to somebody else soon.
func (r *run) starves(who, key string, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Waited = max(r.res.Waited, waited)
	most := 2*time.Second + time.Duration(5*(r.Processes*r.Workers+r.Peers))*r.Hold
	if r.calm() && r.Faults.LateMax == 0 && waited > most && !r.ended() {
		r.brokenf("starved: %s has waited for %s for %v", who, key, waited)
	}
}

// peerWaits waits for a lock as Redisson does.
func (r *run) peerWaits(p *simnet.Peer, key, channel, field string, random *rand.Rand) (left any, asked time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	sub := p.Subscribe()
	heard := make(chan struct{}, 100)
	_ = sub.Subscribe(ctx, channel)
	var reader sync.WaitGroup
	defer func() {
		cancel()
		_ = sub.Close()
		reader.Wait()
	}()
	reader.Go(func() {
		for ctx.Err() == nil {
			if _, err := sub.Receive(ctx); err != nil {
				return
			}
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	})
	for !r.ended() && ctx.Err() == nil {
		asked = time.Now()
		left, err := p.Do("EVAL", peerLock, "1", key, field)
		n, _ := left.(int64)
		if err != nil {
			n = 100
		} else if n == -1 {
			return left, asked
		}
		select {
		case <-heard:
			time.Sleep(500*time.Microsecond + time.Duration(random.Int64N(int64(time.Millisecond)))) // its thread has to wake up
		case <-time.After(time.Duration(max(n, 0)) * time.Millisecond):
		case <-ctx.Done():
		case <-r.stop:
		}
	}
	return nil, asked
}
