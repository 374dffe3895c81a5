package torture

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// watched starts to watch. The function that it returns ends that.
func (a *Arena) watched() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(ctx) })
	watching.Go(func() { a.spectate(ctx) })
	watching.Go(func() { a.watchLine(ctx) })
	return func() {
		cancel()
		watching.Wait()
	}
}

// watch observes Redis, past the proxies, until ctx ends. It samples which locks are held, and looks for keys of dead
// processes that somebody keeps alive.
func (a *Arena) watch(ctx context.Context) {
	var machine sync.WaitGroup
	machine.Go(func() { watchMachine(ctx, a.collector.stoodStill) })
	defer machine.Wait()
	var names []string
	seen := make(map[string]bool)
	for _, share := range a.scene.Mix {
		for _, name := range share.Names {
			if name != fresh && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	var latest []string // the fresh names that were held at the last look
	for round := 0; ctx.Err() == nil; round++ {
		start := now()
		pause(ctx, 10*time.Millisecond)
		stalled := now().Sub(start.Add(10 * time.Millisecond))
		for _, s := range a.sites {
			a.collector.looked(s.gauges())
		}
		if round%10 == 0 {
			latest = a.lookForFresh(ctx)
		}
		a.collector.see(a.look(ctx, slices.Concat(names, latest)), stalled)
		if end := now(); end.Sub(start) > 40*time.Millisecond { // with the looks, which usually take a millisecond or two
			a.collector.slowed(start, end)
		}
		if round%30 == 0 {
			a.lookForTheDead(ctx)
		}
	}
}

// spectate has somebody watch all channels from time to time, as redis-cli and RedisInsight do. Nothing may come of it.
func (a *Arena) spectate(ctx context.Context) {
	random := rand.New(rand.NewPCG(a.scene.Seed, 2<<32))
	for ctx.Err() == nil {
		pause(ctx, time.Duration(random.Int64N(int64(time.Second))))
		var all []*redis.PubSub
		for _, node := range a.nodes {
			sub := a.admins[node].PSubscribe(ctx, "*")
			all = append(all, sub)
			go func() {
				for range sub.Channel() { // Redis would end a connection that does not read
				}
			}()
		}
		pause(ctx, time.Duration(random.Int64N(int64(3*time.Second))))
		for _, sub := range all {
			_ = sub.Close()
		}
	}
}

// watchMachine notes when the machine wakes up no sleeper of this process.
func watchMachine(ctx context.Context, note func(from, to Moment)) {
	for ctx.Err() == nil {
		start := now()
		pause(ctx, 5*time.Millisecond)
		if end := now(); end.Sub(start) > 20*time.Millisecond {
			note(start, end)
		}
	}
}

// lookForFresh returns the fresh names that are held now.
func (a *Arena) lookForFresh(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var names []string
	for _, node := range a.masters() {
		names = append(names, a.admins[node].Keys(ctx, fresh+"-*").Val()...)
	}
	return names
}

// look asks every master for every name. A red lock counts as held on three of five. Names without enough replies are left
// out.
func (a *Arena) look(ctx context.Context, names []string) []sample {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	held, free, holder := make(map[string]int), make(map[string]int), make(map[string]string)
	from := now()
	for _, node := range a.masters() {
		var answers []*redis.StringSliceCmd
		_, _ = a.admins[node].Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, name := range names {
				answers = append(answers, p.HKeys(ctx, name)) // a node of a cluster replies MOVED for names of other nodes
			}
			return nil
		})
		for i, answer := range answers {
			switch fields, err := answer.Result(); {
			case err != nil: // counts neither way
			case len(fields) == 0:
				free[names[i]]++
			default:
				held[names[i]]++
				holder[names[i]] = fields[0]
			}
		}
	}
	to := now()
	samples := make([]sample, 0, len(names))
	for _, name := range names {
		if isHeld := held[name] >= a.quorum(); isHeld || free[name] >= a.quorum() {
			samples = append(samples, sample{Name: name, From: from, To: to, Held: isHeld, Holder: holder[name]})
		}
	}
	return samples
}

// quorum returns how many servers must hold a lock.
func (a *Arena) quorum() int {
	if a.scene.Topology == topologyRed {
		return 3
	}
	return 1
}

// lookForTheDead looks for the keys of single readers whose process was killed more than a lease ago.
func (a *Arena) lookForTheDead(ctx context.Context) {
	at := now()
	dead := a.collector.dead(at.Add(-4*watchdogTimeout), at.Add(-watchdogTimeout-time.Second))
	if len(dead) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, node := range a.masters() {
		for _, key := range a.admins[node].Keys(ctx, "*:rwlock_timeout:*").Val() {
			for _, id := range dead {
				if strings.Contains(key, id) {
					a.collector.foundf("at %.3f s the owner of %s had been dead for more than a lease", at.Sub(0).Seconds(), key)
				}
			}
		}
	}
}
