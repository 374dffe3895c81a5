package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

func scriptFlush(a *Arena, r *rand.Rand, _ *Event) {
	for range 1 + r.IntN(25) {
		_, admin := a.master(r)
		_ = admin.ScriptFlush(context.Background()).Err()
		wait(20 * time.Millisecond)
	}
}

func (a *Arena) clientKill(r *rand.Rand, e *Event, kind string, times int) {
	for range times {
		for _, node := range a.masters() {
			_ = a.admins[node].Do(context.Background(), "client", "kill", "type", kind, "skipme", "yes").Err()
		}
		wait(time.Duration(40+r.IntN(20)) * time.Millisecond)
	}
	e.What = fmt.Sprintf("%d times", times)
}

func clientPause(a *Arena, r *rand.Rand, e *Event) {
	d := short(r)
	_, admin := a.master(r)
	mode := []string{"write", "all"}[r.IntN(2)]
	_ = admin.Do(context.Background(), "client", "pause", d.Milliseconds(), mode).Err()
	wait(d)
	e.What = mode
}

func busy(a *Arena, r *rand.Rand, e *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	d := short(r)
	if e.What = "debug sleep"; r.IntN(2) == 0 {
		_ = admin.Do(ctx, "debug", "sleep", d.Seconds()).Err()
		return
	}
	e.What = "script"
	_ = admin.ConfigSet(ctx, "busy-reply-threshold", "50").Err()
	_ = admin.Eval(ctx, `
		local function ms() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
		local until_ = ms() + ARGV[1]
		while ms() < until_ do end`, nil, d.Milliseconds()).Err()
	_ = admin.ConfigSet(ctx, "busy-reply-threshold", "5000").Err()
}

func stopServer(a *Arena, r *rand.Rand, e *Event) {
	node, _ := a.master(r)
	d := short(r)
	node.Pause()
	wait(d)
	node.Resume()
	e.What = fmt.Sprint("for ", d)
}

func stopChild(a *Arena, r *rand.Rand, e *Event) {
	c := a.children[r.IntN(len(a.children))]
	d := time.Duration(r.Int64N(int64(longestStop)))
	c.signal(syscall.SIGSTOP)
	wait(d)
	c.signal(syscall.SIGCONT)
	e.What = fmt.Sprintf("%s for %v", c.site.Name, d)
}

// killChild kills a process and starts another in its place.
func killChild(a *Arena, r *rand.Rand, e *Event) {
	i := r.IntN(len(a.children))
	c := a.children[i]
	e.What = c.site.Name
	a.collector.died(c.site.Name) // before it is dead: nobody may wait for its turns
	c.kill()
	a.children = append(a.children[:i], a.children[i+1:]...)
	wait(short(r))
	a.spawn(c.site.Form, c.site.Workers)
}

// memory makes Redis run out of memory for a moment.
func (a *Arena) memory(r *rand.Rand, e *Event, policy string) {
	ctx := context.Background()
	_, admin := a.master(r)
	_ = admin.ConfigSet(ctx, "maxmemory-policy", policy).Err()
	_ = admin.ConfigSet(ctx, "maxmemory", "1").Err()
	wait(short(r))
	_ = admin.ConfigSet(ctx, "maxmemory", "0").Err()
	e.What = policy
}

// rights revokes the permission to run scripts, to publish, or to use channels, from the user of all clients.
func rights(a *Arena, r *rand.Rand, e *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	what := [][]any{{"-evalsha", "-eval"}, {"-publish"}, {"resetchannels"}}[r.IntN(3)]
	_ = admin.Do(ctx, append([]any{"acl", "setuser", "default"}, what...)...).Err()
	wait(short(r))
	_ = admin.Do(ctx, "acl", "setuser", "default", "+@all", "allchannels").Err()
	e.What = fmt.Sprint(what...)
}

// starve occupies every connection of the pool of this process with a blocking command.
func starve(a *Arena, r *rand.Rand, _ *Event) {
	rdb := a.own.rdb
	ctx, cancel := context.WithTimeout(context.Background(), short(r))
	defer cancel()
	var wg sync.WaitGroup
	for range 2 * poolSize {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = rdb.BLPop(ctx, 100*time.Millisecond, "nothing").Err()
			}
		})
	}
	wg.Wait()
}

func minReplicas(a *Arena, r *rand.Rand, _ *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	_ = admin.ConfigSet(ctx, "min-replicas-to-write", "3").Err()
	wait(short(r))
	_ = admin.ConfigSet(ctx, "min-replicas-to-write", "0").Err()
}

// maxClients closes all connections and allows only a few new ones.
func maxClients(a *Arena, r *rand.Rand, _ *Event) {
	ctx := context.Background()
	_, admin := a.master(r)
	conn := admin.Conn() // a connection that stays open
	defer func() { _ = conn.Close() }()
	_ = conn.ConfigSet(ctx, "maxclients", "12").Err()
	_ = conn.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err()
	wait(short(r))
	_ = conn.ConfigSet(ctx, "maxclients", "10000").Err()
}
